// SPDX-License-Identifier: Apache-2.0
//
// FreePort: a TCP port of loopback that is free now, for servers that cannot choose one. Another
// process may take it before the server does; the server then fails with an error.
#ifndef QUIRE_BENCH_TRANSPORT_FREE_PORT_H_
#define QUIRE_BENCH_TRANSPORT_FREE_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/status.h"

namespace quire::bench {

inline StatusOr<int> FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return Unavailable("no socket: ", std::strerror(errno));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool found =
      bind(socket, generic, length) == 0 && getsockname(socket, generic, &length) == 0;
  const int error = errno;
  close(socket);
  if (!found) return Unavailable("no free port: ", std::strerror(error));
  return ntohs(address.sin_port);
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_FREE_PORT_H_
