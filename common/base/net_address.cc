// SPDX-License-Identifier: Apache-2.0
#include "common/base/net_address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace quire {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr size_t kLongestHost = 253;
constexpr size_t kLongestLabel = 63;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetterOrDigit(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool AllDigits(std::string_view text) { return std::ranges::all_of(text, IsDigit); }

/// Quotes arbitrary text.
std::string Quoted(std::string_view text) {
  constexpr size_t kMostShown = 200;
  std::string quoted = "'";
  for (const char c : text.substr(0, kMostShown)) quoted.push_back(c < ' ' || c == 0x7f ? '?' : c);
  return quoted.append(text.size() > kMostShown ? "...'" : "'");
}

template <typename... Parts>
Status Refuse(std::string_view text, const Parts&... why) {
  return InvalidArgument(Quoted(text), " is no address: ", why...,
                         "; write host:port, [IPv6]:port or unix:/path");
}

bool IsIpv4(const std::string& host) {
  in_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

/// The address in `host` without its zone (%eth0); nullopt when it is invalid.
std::optional<in6_addr> Ipv6Of(const std::string& host) {
  const size_t percent = host.find('%');
  if (percent != std::string::npos) {
    const std::string_view zone = std::string_view(host).substr(percent + 1);
    const bool is_name = !zone.empty() && std::ranges::all_of(zone, [](char c) {
      return IsLetterOrDigit(c) || c == '.' || c == '-' || c == '_';
    });
    if (!is_name) return std::nullopt;
  }
  in6_addr address = {};
  if (inet_pton(AF_INET6, host.substr(0, percent).c_str(), &address) != 1) return std::nullopt;
  return address;
}

/// Reason why `host` is not a host name; empty when it is one.
std::string WhyNoName(const std::string& host) {
  std::string_view rest = host.ends_with('.') ? std::string_view(host).substr(0, host.size() - 1)
                                              : std::string_view(host);
  if (rest.empty() || rest.size() > kLongestHost) return "its host has no name";
  std::string_view label;
  while (!rest.empty()) {
    const size_t dot = rest.find('.');
    label = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
    const bool fits = !label.empty() && label.size() <= kLongestLabel &&
                      std::ranges::all_of(
                          label, [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_'; });
    if (!fits || label.front() == '-' || label.back() == '-' ||
        (rest.empty() && dot != std::string_view::npos)) {
      return Quoted(host) + " is no name of a host";
    }
  }
  return AllDigits(label) ? Quoted(host) + " is no IPv4 address of four numbers" : "";
}

/// Reason why `host` may not precede a port; empty when it may. `bracketed`: it stood in brackets.
std::string WhyNoHost(const std::string& host, bool bracketed) {
  if (bracketed) return Ipv6Of(host) ? "" : Quoted(host) + " is no IPv6 address";
  if (host.empty()) return "its host is missing (0.0.0.0 or [::] for all addresses of this one)";
  if (host.find(':') != std::string::npos) return "an IPv6 address stands in brackets";
  return IsIpv4(host) ? "" : WhyNoName(host);
}

}  // namespace

StatusOr<NetAddress> NetAddress::Parse(std::string_view text) {
  NetAddress address;
  if (text.empty()) return Refuse(text, "it is empty");
  if (text.starts_with(kUnix)) {
    std::string_view path = text.substr(kUnix.size());
    if (path.starts_with("///")) path.remove_prefix(2);  // Written like a URI without a host.
    if (path.empty()) return Refuse(text, "its path is missing");
    if (path.starts_with("//")) return Refuse(text, "a Unix socket is on no other host");
    if (path.size() > kLongestPath) {
      return Refuse(text, "its path has ", path.size(), " bytes, and a Unix socket's at most ",
                    kLongestPath);
    }
    if (path.find('\0') != std::string_view::npos) return Refuse(text, "its path has a zero byte");
    address.path_ = path;
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.ends_with(']')) {
    return Refuse(text, "its port is missing");
  }
  address.host_ = text.substr(0, colon);
  const bool bracketed = address.host_.starts_with('[') && address.host_.ends_with(']');
  if (bracketed) address.host_ = address.host_.substr(1, address.host_.size() - 2);
  const std::string_view port = text.substr(colon + 1);
  const auto read = std::from_chars(port.data(), port.data() + port.size(), address.port_);
  if (port.empty() || !AllDigits(port) || read.ec != std::errc()) {
    return Refuse(text, Quoted(port), " is no port of 0 to 65535");
  }
  const std::string why = WhyNoHost(address.host_, bracketed);
  if (!why.empty()) return Refuse(text, why);
  return address;
}

StatusOr<NetAddress> NetAddress::ParseListen(std::string_view text) { return Parse(text); }

StatusOr<NetAddress> NetAddress::ParseServer(std::string_view text) {
  auto address = Parse(text);
  if (address.ok() && !address->is_unix() && address->port() == 0) {
    return InvalidArgument(Quoted(text),
                           " is no address of a server: its port is 0, which only stands for any "
                           "free one where a server listens");
  }
  return address;
}

std::string NetAddress::Text() const {
  if (is_unix()) return std::string(kUnix) + path_;
  const bool is_ipv6 = host_.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host_ + "]" : host_) + ":" + std::to_string(port_);
}

NetAddress NetAddress::WithPort(uint16_t port) const {
  NetAddress other = *this;
  if (!is_unix()) other.port_ = port;
  return other;
}

bool NetAddress::StaysOnThisHost() const {
  if (is_unix() || host_ == "localhost") return true;
  in_addr v4 = {};
  if (inet_pton(AF_INET, host_.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  const auto v6 = Ipv6Of(host_);
  return v6 && IN6_IS_ADDR_LOOPBACK(&*v6);
}

bool NetAddress::IsEveryAddress() const {
  if (host_ == "0.0.0.0") return true;
  const auto v6 = Ipv6Of(host_);
  return v6 && IN6_IS_ADDR_UNSPECIFIED(&*v6);
}

}  // namespace quire
