// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_socket_file.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/shm/shm_address.h"

namespace quire {
namespace {

constexpr int kBacklog = 64;

}  // namespace

StatusOr<ShmSocketFile> ShmSocketFile::Listen(const std::string& path, mode_t mode) {
  QUIRE_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  QUIRE_ASSIGN_OR_RETURN(UnixSocketClaim claim, UnixSocketClaim::Take(path));
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ResourceExhausted("cannot make a socket: ", std::strerror(errno));
  // Sets the mode before bind, so that the file is never more accessible than intended.
  (void)fchmod(fd.get(), mode);
  const int bound = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ShmSocketFile file(std::move(claim), std::move(fd), path);
  if (bound != 0 || listen(file.fd(), kBacklog) != 0 || lstat(path.c_str(), &file.made_) != 0) {
    return PermissionDenied("cannot listen on ", path, ": ", std::strerror(errno));
  }
  return file;
}

ShmSocketFile::~ShmSocketFile() {
  struct stat now = {};
  if (!fd_.valid() || lstat(path_.c_str(), &now) != 0) return;
  if (now.st_dev == made_.st_dev && now.st_ino == made_.st_ino) (void)unlink(path_.c_str());
}

}  // namespace quire
