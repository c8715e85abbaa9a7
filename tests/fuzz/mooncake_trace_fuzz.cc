// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes ParseMooncakeTrace. Accepted requests are in order of time, and blocks within their size.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bench/trace/mooncake_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::bench;
  const auto trace = ParseMooncakeTrace({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!trace.ok()) return 0;
  if (!std::ranges::is_sorted(trace->requests, {}, &TraceRequest::arrival_micros)) std::abort();
  for (const TraceRequest& request : trace->requests) {
    if (request.blocks.empty() && request.new_tokens == 0) std::abort();
    for (const TraceBlock& block : request.blocks) {
      if (block.tokens == 0 || block.tokens > kMooncakeBlockTokens || block.bytes == 0)
        std::abort();
    }
  }
  return 0;
}
