// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace quire {
namespace {

// Seal of Linux 5.1; the C library's headers may be older than the kernel.
constexpr int kSealFutureWrite = 0x0010;
constexpr uint64_t kLargePageBytes = 2 << 20;

Status Refused(const char* what) {
  return ResourceExhausted("shared memory: cannot ", what, ": ", std::strerror(errno));
}

}  // namespace

Status SealSharedMemory(int fd) {
  // The mode is a second lock for all users but the owner and root; the seals stop those.
  if (fchmod(fd, S_IRUSR) != 0) return Refused("restrict the file");
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | kSealFutureWrite | F_SEAL_SEAL) != 0) {
    return Refused("seal the file");
  }
  return OkStatus();
}

StatusOr<UniqueFd> OpenReadOnly(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  UniqueFd read_only(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!read_only.valid()) return Refused("open the file read only");
  return read_only;
}

StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(const char* name, uint64_t bytes) {
  std::unique_ptr<SharedMemory> memory(new SharedMemory());
  const UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Refused("make a file");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return Refused("size the file");
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (place == MAP_FAILED) return Refused("map the file");
  memory->bytes_ = {static_cast<std::byte*>(place), bytes};
  QUIRE_RETURN_IF_ERROR(SealSharedMemory(fd.get()));
  QUIRE_ASSIGN_OR_RETURN(memory->read_only_, OpenReadOnly(fd.get()));
  return memory;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

StatusOr<std::unique_ptr<ReadOnlyMapping>> ReadOnlyMapping::Map(int fd, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat file = {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0) {
    return InvalidArgument("the peer's shared memory is no sealed memory file");
  }
  if (bytes == 0 || static_cast<uint64_t>(file.st_size) < bytes) {
    return InvalidArgument("the peer's shared memory has ", file.st_size, " bytes, not ", bytes);
  }
  // Large pages need matching alignment of addresses and offsets.
  const uint64_t reserved = bytes + kLargePageBytes;
  void* const room = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return Refused("reserve addresses");
  const auto begin = reinterpret_cast<uintptr_t>(room);
  auto* const place = static_cast<std::byte*>(room) + (kLargePageBytes - begin % kLargePageBytes);
  std::unique_ptr<ReadOnlyMapping> mapping(
      new ReadOnlyMapping({static_cast<std::byte*>(room), reserved}, {place, bytes}));
  if (mmap(place, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    return Refused("map the peer's file");
  }
  return mapping;
}

ReadOnlyMapping::~ReadOnlyMapping() { munmap(reserved_.data(), reserved_.size()); }

}  // namespace quire
