// SPDX-License-Identifier: Apache-2.0
//
// The subset of HTTP/1.1 that the admin port reads and writes. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_METRICS_HTTP_REQUEST_H_
#define QUIRE_COMMON_METRICS_HTTP_REQUEST_H_

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// The first line of a request, and the headers that say who asks.
struct HttpRequest {
  std::string method;
  std::string path;             ///< Path up to a '?'.
  std::string query = {};       ///< The rest after the '?', as it was sent.
  std::string host = {};        ///< Header Host; empty without one.
  std::string origin = {};      ///< Header Origin, of the page that asks; empty without one.
  std::string fetch_site = {};  ///< Header Sec-Fetch-Site, of browsers; empty without one.
};

struct HttpReply {
  int code = 200;
  std::string content_type = "text/plain";
  std::string body = {};
  std::string headers = {};  ///< More header lines, each with its line end.
};

/// True when `received` has a whole request head. Bytes after it do not count.
bool HasWholeHead(std::string_view received);
/// Parses a whole head; nullopt when it is not HTTP/1, or has one of those headers twice.
std::optional<HttpRequest> ParseHttpRequest(std::string_view head);
/// Returns a parameter of a query, decoded. nullopt when it is not there, and for a broken escape.
std::optional<std::string> QueryValue(std::string_view query, std::string_view name);

/// Returns a whole answer, which no cache keeps. The connection is closed after it.
std::string HttpAnswer(const HttpReply& reply);
std::string HttpAnswer(int code, std::string_view content_type, std::string_view body);

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_HTTP_REQUEST_H_
