// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/same_origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace quire {
namespace {

/// The name in a Host header, in lower case and without its port and brackets.
std::string NameOf(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  std::string name(host);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

bool IsAddress(const std::string& name) {
  in6_addr ignored = {};
  return inet_pton(AF_INET, name.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &ignored) == 1;
}

HttpReply Refusal(int code, std::string body) {
  return {.code = code, .content_type = "text/plain", .body = std::move(body), .headers = {}};
}

}  // namespace

bool IsOwnName(std::string_view host, std::span<const std::string> names) {
  const std::string name = NameOf(host);
  if (name.empty()) return false;
  return IsAddress(name) || name.find('.') == std::string::npos ||
         std::ranges::any_of(names, [&](const std::string& own) { return NameOf(own) == name; });
}

std::optional<HttpReply> RefuseForeign(const HttpRequest& request,
                                       std::span<const std::string> names) {
  if (!IsOwnName(request.host, names)) {
    return Refusal(421,
                   "this server does not know the name that it was asked by: use its IP address, "
                   "or start it with --admin-name NAME\n");
  }
  const bool from_here = request.fetch_site.empty() || request.fetch_site == "same-origin" ||
                         request.fetch_site == "none";
  const bool same_origin = request.origin.empty() || request.origin == "http://" + request.host ||
                           request.origin == "https://" + request.host;
  if (from_here && same_origin) return std::nullopt;
  return Refusal(403, "pages of other origins may not read this\n");
}

}  // namespace quire
