// SPDX-License-Identifier: Apache-2.0
//
// ShmSocketFile: a listening Unix socket and its file. The destructor removes the file unless
// another one has taken its place.
#ifndef QUIRE_TRANSPORT_SHM_SHM_SOCKET_FILE_H_
#define QUIRE_TRANSPORT_SHM_SHM_SOCKET_FILE_H_

#include <sys/stat.h>

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "transport/net/unix_socket_path.h"

namespace quire {

class ShmSocketFile {
 public:
  /// Claims `path` and listens there with a file of `mode`. A stale socket is replaced.
  /// ALREADY_EXISTS when a server listens there or the file is no socket; PERMISSION_DENIED when it
  /// cannot be created.
  static StatusOr<ShmSocketFile> Listen(const std::string& path, mode_t mode);
  ShmSocketFile(ShmSocketFile&&) = default;
  ShmSocketFile& operator=(ShmSocketFile&&) = delete;
  ~ShmSocketFile();

  int fd() const { return fd_.get(); }

 private:
  ShmSocketFile(UnixSocketClaim claim, UniqueFd fd, std::string path)
      : claim_(std::move(claim)), fd_(std::move(fd)), path_(std::move(path)) {}

  UnixSocketClaim claim_;  ///< Released after the socket's file is removed.
  UniqueFd fd_;
  std::string path_;
  struct stat made_ = {};  ///< Identity of our file.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_SOCKET_FILE_H_
