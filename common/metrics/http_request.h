// SPDX-License-Identifier: Apache-2.0
//
// The little of HTTP/1.1 that the admin port reads and writes. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_METRICS_HTTP_REQUEST_H_
#define QUIRE_COMMON_METRICS_HTTP_REQUEST_H_

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// The first line of a request.
struct HttpRequest {
  std::string method;
  std::string path;  ///< Without what follows a '?'.
};

/// Whether `received` has all of a request's head; what follows it does not count.
bool HasWholeHead(std::string_view received);
/// Reads the first line of a whole head; nullopt when it is none of HTTP/1.
std::optional<HttpRequest> ParseHttpRequest(std::string_view head);

/// A whole answer, after which the connection is closed.
std::string HttpAnswer(int code, std::string_view content_type, std::string_view body);

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_HTTP_REQUEST_H_
