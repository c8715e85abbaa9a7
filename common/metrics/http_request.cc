// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/http_request.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace quire {
namespace {

std::string_view Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

bool SameIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Takes the text up to `end` off the front of `*rest`, and `end`.
std::string_view TakeUpTo(char end, std::string_view* rest) {
  const size_t at = rest->find(end);
  const std::string_view taken = rest->substr(0, at);
  rest->remove_prefix(at == std::string_view::npos ? rest->size() : at + 1);
  return taken;
}

/// Field of `request` for a header; null for one that does not matter.
std::string* FieldOf(std::string_view header, HttpRequest* request) {
  if (SameIgnoringCase(header, "host")) return &request->host;
  if (SameIgnoringCase(header, "origin")) return &request->origin;
  if (SameIgnoringCase(header, "sec-fetch-site")) return &request->fetch_site;
  return nullptr;
}

/// Returns false when a header that matters is there twice.
bool ReadHeaders(std::string_view lines, HttpRequest* request) {
  while (!lines.empty()) {
    std::string_view line = TakeUpTo('\n', &lines);
    if (Trimmed(line).empty()) return true;
    std::string* const field = FieldOf(TakeUpTo(':', &line), request);
    if (field == nullptr) continue;
    if (!field->empty()) return false;
    *field = Trimmed(line);
  }
  return true;
}

/// nullopt for an escape that is none.
std::optional<std::string> Decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
    if (digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
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
  std::string_view query = target;
  HttpRequest request{.method = std::string(line.substr(0, first)),
                      .path = std::string(TakeUpTo('?', &query))};
  request.query = query;
  std::string_view headers = head;
  (void)TakeUpTo('\n', &headers);
  if (!ReadHeaders(headers, &request)) return std::nullopt;
  return request;
}

std::optional<std::string> QueryValue(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    std::string_view value = TakeUpTo('&', &query);
    if (TakeUpTo('=', &value) == name) return Decoded(value);
  }
  return std::nullopt;
}

std::string HttpAnswer(const HttpReply& reply) {
  std::string answer = "HTTP/1.1 " + std::to_string(reply.code) + " ";
  answer.append(Reason(reply.code)).append("\r\nContent-Type: ").append(reply.content_type);
  answer.append("\r\nContent-Length: ").append(std::to_string(reply.body.size()));
  answer.append("\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n");
  answer.append(reply.headers);
  return answer.append("Connection: close\r\n\r\n").append(reply.body);
}

std::string HttpAnswer(int code, std::string_view content_type, std::string_view body) {
  return HttpAnswer({.code = code,
                     .content_type = std::string(content_type),
                     .body = std::string(body),
                     .headers = {}});
}

}  // namespace quire
