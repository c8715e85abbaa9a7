// SPDX-License-Identifier: Apache-2.0
//
// The path of a Unix socket, which has one server at a time.
#ifndef QUIRE_TRANSPORT_NET_UNIX_SOCKET_PATH_H_
#define QUIRE_TRANSPORT_NET_UNIX_SOCKET_PATH_H_

#include <string>

#include "common/base/unique_fd.h"
#include "quire/status.h"

namespace quire {

/// Removes the socket of a server that is gone; a path without a file is fine. ALREADY_EXISTS when
/// somebody listens there or the file is no socket, PERMISSION_DENIED when it cannot be removed,
/// INVALID_ARGUMENT for a path that is empty or too long for a socket. Who binds afterwards may
/// find another server there that was faster.
[[nodiscard]] Status RemoveStaleSocket(const std::string& path);

/// UnixSocketClaim: the right to replace and remove the socket at a path, for a library that does
/// both without looking. It is held by the lock on a file beside it, PATH.lock, which goes with the
/// claim, and which a process that dies leaves unlocked. Move only. Thread-safety: as a value.
class UnixSocketClaim {
 public:
  UnixSocketClaim() = default;  ///< Of nothing.
  /// Takes the path and leaves no stale socket there. Errors: those of RemoveStaleSocket, and
  /// ALREADY_EXISTS while another server has the claim.
  static StatusOr<UnixSocketClaim> Take(const std::string& path);
  UnixSocketClaim(UnixSocketClaim&&) noexcept = default;
  UnixSocketClaim& operator=(UnixSocketClaim&&) noexcept = default;
  ~UnixSocketClaim();

 private:
  UnixSocketClaim(UniqueFd lock, std::string lock_path)
      : lock_(std::move(lock)), lock_path_(std::move(lock_path)) {}

  UniqueFd lock_;
  std::string lock_path_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_NET_UNIX_SOCKET_PATH_H_
