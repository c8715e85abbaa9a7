// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the text by which calls tell their trace. Accepted text names a trace, whose own text
// reads the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/base/trace/trace_context.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto context = ParseTraceparent(text);
  if (!context) return 0;
  if (!context->valid()) std::abort();
  const std::string again = FormatTraceparent(*context);
  const auto read = ParseTraceparent(again);
  if (!read || *read != *context || again.size() > size) std::abort();
  return 0;
}
