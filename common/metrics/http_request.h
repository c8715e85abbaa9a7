// SPDX-License-Identifier: Apache-2.0
//
// The subset of HTTP/1.1 that the admin port reads and writes. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_METRICS_HTTP_REQUEST_H_
#define QUIRE_COMMON_METRICS_HTTP_REQUEST_H_

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// The first line of a request.
struct HttpRequest {
  std::string method;
  std::string path;  ///< Path up to a '?'.
};

/// True when `received` has a whole request head. Bytes after it do not count.
bool HasWholeHead(std::string_view received);
/// Parses the first line of a whole head; nullopt when it is not HTTP/1.
std::optional<HttpRequest> ParseHttpRequest(std::string_view head);

/// Returns a whole answer. The connection is closed after it.
std::string HttpAnswer(int code, std::string_view content_type, std::string_view body);

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_HTTP_REQUEST_H_
