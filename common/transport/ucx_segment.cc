// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

namespace quire {
namespace {

/// A part of domain posix. What follows is the name of a directory, unless one of the flags is set.
struct PosixPart {
  static constexpr uint64_t kOfProcess = uint64_t{1} << 63;  ///< The id is a process and its file.
  static constexpr uint64_t kOfShm = uint64_t{1} << 62;      ///< The id is a name in /dev/shm.
  static constexpr uint64_t kIdMask = (uint64_t{1} << 60) - 1;
  static constexpr uint32_t kProcessBits = 30;

  uint64_t id = 0;
  uint64_t address = 0;  ///< Where the segment begins at the peer.
  uint64_t bytes = 0;    ///< As the peer says.
};
static_assert(sizeof(PosixPart) == 24);

/// A part of domain sysv, as it is packed.
constexpr size_t kSysvPartBytes = sizeof(int32_t) + sizeof(uint64_t);

uint64_t WholePages(uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// Where `memory` begins in a segment of `available` bytes that begins at the peer's `address`.
StatusOr<uint64_t> OffsetOf(const UcxPeerMemory& memory, uint64_t address, uint64_t available) {
  const uint64_t offset = memory.address - address;
  if (memory.address < address || offset > available || memory.bytes > available - offset) {
    return InvalidArgument(
        "the key of a landing names ", memory.bytes, " bytes, ", static_cast<int64_t>(offset),
        " behind the beginning of its shared memory, but its memory has ", available);
  }
  if (memory.bytes == 0) return InvalidArgument("the key of a landing names no memory");
  return offset;
}

StatusOr<PosixPart> DecodePosix(std::string_view bytes) {
  PosixPart part;
  if (bytes.size() < sizeof(part)) {
    return InvalidArgument("the key of a landing describes shared memory in ", bytes.size(),
                           " bytes");
  }
  std::memcpy(&part, bytes.data(), sizeof(part));
  if ((part.id & (PosixPart::kOfProcess | PosixPart::kOfShm)) == 0) {
    return InvalidArgument(
        "the key of a landing names shared memory in a directory of its own: "
        "leave UCX_POSIX_DIR at /dev/shm");
  }
  return part;
}

/// Where the segment's file is found.
std::string PathOf(const PosixPart& part) {
  std::array<char, 64> path = {};
  const uint64_t id = part.id & PosixPart::kIdMask;
  if ((part.id & PosixPart::kOfProcess) != 0) {
    const uint64_t process = id & ((uint64_t{1} << PosixPart::kProcessBits) - 1);
    std::snprintf(path.data(), path.size(), "/proc/%" PRIu64 "/fd/%" PRIu64, process,
                  id >> PosixPart::kProcessBits);
  } else {
    std::snprintf(path.data(), path.size(), "/dev/shm/ucx_shm_posix_%" PRIx64, id);
  }
  return path.data();
}

/// Whether the descriptor is of a file of shared memory that UCX made. Asks its file system too: a
/// file on a disk is no memory, whatever its name is.
bool IsOfUcx(const std::string& descriptor, int fd) {
  std::array<char, 4096> name = {};
  const ssize_t length = readlink(descriptor.c_str(), name.data(), name.size());
  if (length <= 0) return false;
  const std::string_view path(name.data(), static_cast<size_t>(length));
  struct stat file = {};
  struct statfs system = {};
  return path.substr(path.rfind('/') + 1).starts_with(kUcxFileName) && fstat(fd, &file) == 0 &&
         S_ISREG(file.st_mode) && fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

/// A segment's file, and where the peer's memory begins in it.
struct OpenedFile {
  UniqueFd fd;
  uint64_t offset = 0;
};

StatusOr<OpenedFile> OpenFile(const PosixPart& part, const UcxPeerMemory& memory) {
  const std::string path = PathOf(part);
  // To open what is no file could do something: the peer may name any descriptor of any process.
  const UniqueFd found(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.valid()) {
    return InvalidArgument("cannot open the shared memory of a landing, ", path, ": ",
                           std::strerror(errno));
  }
  const std::string descriptor = "/proc/self/fd/" + std::to_string(found.get());
  if (!IsOfUcx(descriptor, found.get())) {
    return InvalidArgument(path, ", the shared memory of a landing, is none that UCX has made");
  }
  OpenedFile opened;
  opened.fd = UniqueFd(open(descriptor.c_str(), O_RDWR | O_CLOEXEC));
  struct stat file = {};
  if (!opened.fd.valid() || fstat(opened.fd.get(), &file) != 0) {
    return InvalidArgument("cannot write to the shared memory of a landing, ", path, ": ",
                           std::strerror(errno));
  }
  // Its last page is there as a whole.
  QUIRE_ASSIGN_OR_RETURN(opened.offset, OffsetOf(memory, part.address,
                                                 WholePages(static_cast<uint64_t>(file.st_size))));
  return opened;
}

}  // namespace

StatusOr<std::unique_ptr<UcxSegment>> UcxSegment::MapPosix(std::string_view part,
                                                           const UcxPeerMemory& memory) {
  QUIRE_ASSIGN_OR_RETURN(const PosixPart decoded, DecodePosix(part));
  QUIRE_ASSIGN_OR_RETURN(const OpenedFile file, OpenFile(decoded, memory));
  const uint64_t bytes = file.offset + memory.bytes;
  void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0);
  if (place == MAP_FAILED) {
    return ResourceExhausted("cannot map ", bytes,
                             " bytes of a landing's shared memory: ", std::strerror(errno));
  }
  std::unique_ptr<UcxSegment> segment(
      new UcxSegment(Kind::kPosix, static_cast<std::byte*>(place), bytes));
  segment->memory_ = {segment->begin_ + file.offset, memory.bytes};
  return segment;
}

StatusOr<std::unique_ptr<UcxSegment>> UcxSegment::MapSysv(std::string_view part,
                                                          const UcxPeerMemory& memory) {
  if (part.size() < kSysvPartBytes) {
    return InvalidArgument("the key of a landing describes shared memory in ", part.size(),
                           " bytes");
  }
  int32_t id = 0;
  uint64_t address = 0;
  std::memcpy(&id, part.data(), sizeof(id));
  std::memcpy(&address, part.data() + sizeof(id), sizeof(address));
  void* const place = shmat(id, nullptr, 0);
  if (place == reinterpret_cast<void*>(-1)) {
    return InvalidArgument("cannot attach the shared memory of a landing, segment ", id, ": ",
                           std::strerror(errno));
  }
  std::unique_ptr<UcxSegment> segment(
      new UcxSegment(Kind::kSysv, static_cast<std::byte*>(place), 0));
  // Only now: what is attached stays what it is.
  shmid_ds state = {};
  if (shmctl(id, IPC_STAT, &state) != 0 || (state.shm_perm.mode & SHM_DEST) == 0) {
    return InvalidArgument("segment ", id,
                           ", the shared memory of a landing, is none that UCX has made");
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t offset,
                         OffsetOf(memory, address, WholePages(state.shm_segsz)));
  segment->memory_ = {segment->begin_ + offset, memory.bytes};
  return segment;
}

UcxSegment::~UcxSegment() {
  watch_.reset();  // Whoever maps these addresses next is not what it watches.
  if (kind_ == Kind::kSysv) {
    shmdt(begin_);
  } else {
    munmap(begin_, mapped_bytes_);
  }
}

StatusOr<UcxPinnedPart> PinPosixPart(std::string_view part, const UcxPeerMemory& memory) {
  QUIRE_ASSIGN_OR_RETURN(PosixPart decoded, DecodePosix(part));
  QUIRE_ASSIGN_OR_RETURN(OpenedFile file, OpenFile(decoded, memory));
  decoded.id = PosixPart::kOfProcess | static_cast<uint64_t>(getpid()) |
               static_cast<uint64_t>(file.fd.get()) << PosixPart::kProcessBits;
  decoded.bytes = file.offset + memory.bytes;
  return UcxPinnedPart{std::string(reinterpret_cast<const char*>(&decoded), sizeof(decoded)),
                       std::move(file.fd)};
}

}  // namespace quire
