// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/http_request.h"

namespace quire {
namespace {

std::string_view Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

bool HasWholeHead(std::string_view received) {
  return received.find("\r\n\r\n") != std::string_view::npos ||
         received.find("\n\n") != std::string_view::npos;
}

std::optional<HttpRequest> ParseHttpRequest(std::string_view head) {
  std::string_view line = head.substr(0, head.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == 0 || last == first) return std::nullopt;
  const std::string_view version = line.substr(last + 1);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return std::nullopt;
  if (!target.starts_with('/') || target.find(' ') != std::string_view::npos) return std::nullopt;
  return HttpRequest{.method = std::string(line.substr(0, first)),
                     .path = std::string(target.substr(0, target.find('?')))};
}

std::string HttpAnswer(int code, std::string_view content_type, std::string_view body) {
  std::string answer = "HTTP/1.1 " + std::to_string(code) + " ";
  answer.append(Reason(code)).append("\r\nContent-Type: ").append(content_type);
  answer.append("\r\nContent-Length: ").append(std::to_string(body.size()));
  return answer.append("\r\nConnection: close\r\n\r\n").append(body);
}

}  // namespace quire
