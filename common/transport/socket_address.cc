// SPDX-License-Identifier: Apache-2.0
#include "common/transport/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstring>

namespace quire {

StatusOr<SocketAddress> SocketAddress::Resolve(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    return InvalidArgument("\"", text, "\" is no address; write host:port");
  }
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  SocketAddress address;
  address.host_ = host;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoul(port) > UINT16_MAX) {
    return InvalidArgument("\"", port, "\" in \"", text, "\" is no port; it is 0 to 65535");
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return NotFound("host \"", host, "\" has no address: ", gai_strerror(failed));
  }
  std::memcpy(&address.storage_, found->ai_addr, found->ai_addrlen);
  address.size_ = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

bool SocketAddress::IsLoopback() const {
  if (storage_.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &storage_, sizeof v6);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
  }
  sockaddr_in v4;
  std::memcpy(&v4, &storage_, sizeof v4);
  return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

std::string SocketAddress::WithPort(uint16_t port) const {
  return host_ + ":" + std::to_string(port);
}

}  // namespace quire
