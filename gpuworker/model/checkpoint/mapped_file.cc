// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace quire::worker {
namespace {

StatusOr<MappedFile> Failed(const std::string& path, const char* what) {
  const StatusCode code = errno == ENOENT ? StatusCode::kNotFound : StatusCode::kUnavailable;
  return MakeStatus(code, path, ": cannot ", what, ": ", std::strerror(errno));
}

/// Closes the descriptor when it goes out of scope; a mapping stays valid without it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return Failed(path, "open");
  struct stat info = {};
  if (fstat(file.fd, &info) != 0) return Failed(path, "stat");
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path, ": not a regular file");
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile(std::span<const std::byte>());
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return Failed(path, "map");
  return MappedFile(std::span(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace quire::worker
