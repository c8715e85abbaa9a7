// SPDX-License-Identifier: Apache-2.0
//
// UniqueFd: a file descriptor that is closed with its owner. Move only. Thread-safety: as an int.
#ifndef QUIRE_COMMON_BASE_UNIQUE_FD_H_
#define QUIRE_COMMON_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace quire {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) close(fd_);
  }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  void Reset() { UniqueFd old(std::exchange(fd_, -1)); }

 private:
  int fd_ = -1;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_UNIQUE_FD_H_
