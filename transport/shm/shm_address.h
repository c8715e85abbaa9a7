// SPDX-License-Identifier: Apache-2.0
//
// Unix socket addresses, and the options that both ends of a connection set on a socket.
#ifndef QUIRE_TRANSPORT_SHM_SHM_ADDRESS_H_
#define QUIRE_TRANSPORT_SHM_SHM_ADDRESS_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "common/base/status.h"

namespace quire {

/// INVALID_ARGUMENT for a path that is empty or too long for a socket.
[[nodiscard]] inline StatusOr<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgument("the path of the Unix socket, '", path, "', has ", path.size(),
                           " bytes; it must have 1..", sizeof address.sun_path - 1,
                           ": choose another directory");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Enlarges the send buffer to 1 MiB, or to what the system allows.
inline void WidenSocket(int fd) {
  const int bytes = 1 << 20;
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_ADDRESS_H_
