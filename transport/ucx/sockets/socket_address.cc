// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/sockets/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstring>

namespace quire {

StatusOr<SocketAddress> SocketAddress::Resolve(const std::string& text) {
  QUIRE_ASSIGN_OR_RETURN(const NetAddress parsed, NetAddress::ParseListen(text));
  if (parsed.is_unix()) {
    return InvalidArgument("'", text,
                           "' is a Unix socket, which UCX does not use; write host:port");
  }
  SocketAddress address(parsed);
  const std::string port = std::to_string(parsed.port());
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(parsed.host().c_str(), port.c_str(), &hints, &found);
      failed != 0) {
    return NotFound("host '", parsed.host(), "' has no address: ", gai_strerror(failed));
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

std::string SocketAddress::WithPort(uint16_t port) const { return written_.WithPort(port).Text(); }

}  // namespace quire
