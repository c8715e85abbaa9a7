// SPDX-License-Identifier: Apache-2.0
#include "transport/net/unix_socket_path.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/shm/shm_address.h"

namespace quire {
namespace {

Status InUse(const std::string& path) {
  return AlreadyExists("another server listens on ", path, ": stop it, or choose another path");
}

/// True if `fd` is still the file at `path`.
bool IsAt(int fd, const std::string& path) {
  struct stat ours = {};
  struct stat there = {};
  return fstat(fd, &ours) == 0 && lstat(path.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

}  // namespace

Status RemoveStaleSocket(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  struct stat file = {};
  if (lstat(path.c_str(), &file) != 0 && errno == ENOENT) return OkStatus();
  if (!S_ISSOCK(file.st_mode)) {
    return AlreadyExists(path, " is there and is no socket: choose another path for it");
  }
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED) {
    return InUse(path);
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return PermissionDenied("cannot remove the socket ", path,
                            " of a server that is gone: ", std::strerror(errno));
  }
  return OkStatus();
}

StatusOr<UnixSocketClaim> UnixSocketClaim::Take(const std::string& path) {
  const std::string lock_path = path + ".lock";
  for (;;) {
    UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) {
      return PermissionDenied(
          "cannot make ", lock_path,
          ", which keeps a second server off the socket: ", std::strerror(errno));
    }
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return InUse(path);
    if (!IsAt(lock.get(), lock_path)) continue;  // Its last owner removed it meanwhile.
    UnixSocketClaim claim(std::move(lock), lock_path);
    QUIRE_RETURN_IF_ERROR(RemoveStaleSocket(path));
    return claim;
  }
}

UnixSocketClaim::~UnixSocketClaim() {
  if (lock_.valid()) (void)unlink(lock_path_.c_str());  // Removed before the lock is released.
}

}  // namespace quire
