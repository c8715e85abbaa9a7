// SPDX-License-Identifier: Apache-2.0
//
// DirectFiles: files opened for direct I/O, closed with the object. Thread-safety: none.
#ifndef QUIRE_BENCH_RIVALS_DIRECT_FILES_H_
#define QUIRE_BENCH_RIVALS_DIRECT_FILES_H_

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "quire/status.h"

namespace quire::bench {

class DirectFiles {
 public:
  DirectFiles() = default;
  ~DirectFiles() {
    for (const int fd : fds_) close(fd);
  }
  DirectFiles(const DirectFiles&) = delete;
  DirectFiles& operator=(const DirectFiles&) = delete;

  StatusOr<int> Open(const std::string& path, int flags) {
    const int fd = open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0644);
    if (fd < 0) return Unavailable("cannot open ", path, " directly: ", std::strerror(errno));
    fds_.push_back(fd);
    return fd;
  }

 private:
  std::vector<int> fds_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RIVALS_DIRECT_FILES_H_
