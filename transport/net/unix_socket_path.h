// SPDX-License-Identifier: Apache-2.0
//
// Paths of Unix sockets. A path has one server at a time.
#ifndef QUIRE_TRANSPORT_NET_UNIX_SOCKET_PATH_H_
#define QUIRE_TRANSPORT_NET_UNIX_SOCKET_PATH_H_

#include <string>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace quire {

/// Removes a stale socket; a path without a file is fine. ALREADY_EXISTS when a server listens
/// there or the file is no socket; PERMISSION_DENIED when it cannot be removed; INVALID_ARGUMENT
/// for a path that is empty or too long. Another server may still take the path before the caller
/// binds.
[[nodiscard]] Status RemoveStaleSocket(const std::string& path);

/// UnixSocketClaim: the right to replace and remove the socket at a path, for a library that does
/// both unconditionally. The claim is a lock on the file PATH.lock, which is removed with it. A
/// process that dies leaves the file unlocked. Move only. Thread-safety: as a value.
class UnixSocketClaim {
 public:
  UnixSocketClaim() = default;  ///< An empty claim.
  /// Claims the path and removes a stale socket there. Errors: those of RemoveStaleSocket, and
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
