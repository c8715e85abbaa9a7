// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the admin port's parser of requests and queries, and who may ask.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/metrics/http_request.h"
#include "common/metrics/same_origin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)quire::HasWholeHead(text);
  const auto request = quire::ParseHttpRequest(text);
  if (!request) return 0;
  if (!request->path.starts_with('/') || request->path.find('?') != std::string::npos ||
      request->method.empty() || request->method.find('\n') != std::string::npos) {
    std::abort();
  }
  (void)quire::QueryValue(request->query, "q");
  (void)quire::RefuseForeign(*request, {});
  return 0;
}
