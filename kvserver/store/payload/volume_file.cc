// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/volume_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <utility>

#include "kvserver/store/payload/io_status.h"
#include "kvserver/store/payload/location.h"
#include "kvserver/store/payload/plain_engine.h"

namespace quire::kvserver {
namespace {

/// Closes a descriptor at the end of a scope unless it was released.
class FdCloser {
 public:
  explicit FdCloser(int fd) : fd_(fd) {}
  ~FdCloser() {
    if (fd_ >= 0) close(fd_);
  }
  FdCloser(const FdCloser&) = delete;
  FdCloser& operator=(const FdCloser&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

/// Takes `bytes` of space for the file, or gives it that length where space cannot be taken ahead.
int Preallocate(int fd, uint64_t bytes) {
  const auto length = static_cast<off_t>(bytes);
  if (fallocate(fd, 0, 0, length) == 0) return 0;
  if (errno != EOPNOTSUPP) return errno;
  return ftruncate(fd, length) == 0 ? 0 : errno;
}

int WriteAndSync(int fd, std::string_view bytes) {
  IoRequest request = IoRequest::Write(fd, 0, std::as_bytes(std::span(bytes)));
  PlainEngine::Finish(request);
  if (request.error != 0) return request.error;
  return fsync(fd) == 0 ? 0 : errno;
}

/// Makes a change of a directory's entries durable.
int SyncDirectory(const std::string& path) {
  const FdCloser directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return directory.get() >= 0 && fsync(directory.get()) == 0 ? 0 : errno;
}

/// Fills the file under its temporary name. An errno value.
int WriteTemporary(const std::string& temporary, const VolumeHeader& header) {
  const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
  const FdCloser file(open(temporary.c_str(), flags, 0644));
  if (file.get() < 0) return errno;
  if (const int error = Preallocate(file.get(), header.size_bytes); error != 0) return error;
  return WriteAndSync(file.get(), EncodeVolumeHeader(header));
}

bool ReadsWhole(int fd, uint64_t offset, std::span<std::byte> into) {
  IoRequest request = IoRequest::Read(fd, offset, into);
  PlainEngine::Finish(request);
  return request.complete();
}

}  // namespace

StatusOr<std::unique_ptr<VolumeFile>> VolumeFile::Create(const std::string& path,
                                                         const VolumeHeader& header,
                                                         DirectIo direct, FaultPoints* faults) {
  const std::string temporary = TemporaryPath(path);
  int error = WriteTemporary(temporary, header);
  Reach(faults, FaultPoint::kVolumeMade);
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) error = SyncDirectory(std::filesystem::path(path).parent_path().string());
  if (error != 0) {
    unlink(temporary.c_str());
    return FromErrno(error,
                     "make volume " + path + " of " + std::to_string(header.size_bytes) + " bytes");
  }
  return Open(path, header.volume, direct);
}

StatusOr<std::unique_ptr<VolumeFile>> VolumeFile::Open(const std::string& path, uint32_t volume,
                                                       DirectIo direct) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return FromErrno(errno, "open volume " + path);
  std::unique_ptr<VolumeFile> file(new VolumeFile(path, fd, {}));
  QUIRE_RETURN_IF_ERROR(file->ReadHeader(volume));
  QUIRE_RETURN_IF_ERROR(file->MeasurePresent());
  if (direct == DirectIo::kAuto) file->ProbeDirect();
  return file;
}

VolumeFile::~VolumeFile() { close(fd_); }

Status VolumeFile::ReadHeader(uint32_t volume) {
  std::array<char, kBlockBytes> block;
  IoRequest request = IoRequest::Read(fd_, 0, std::as_writable_bytes(std::span(block)));
  PlainEngine::Finish(request);
  if (request.error != 0) return FromErrno(request.error, "read the header of volume " + path_);
  const auto header = DecodeVolumeHeader({block.data(), request.done});
  if (!header.ok()) return Annotate(header.status(), path_);
  if (header->volume != volume) {
    return DataLoss(path_, ": its header says that it is volume ", header->volume,
                    "; it was renamed or copied over another, give it back its own name");
  }
  header_ = *header;
  return OkStatus();
}

Status VolumeFile::MeasurePresent() {
  struct stat info;
  if (fstat(fd_, &info) != 0) return FromErrno(errno, "examine volume " + path_);
  const uint64_t whole_blocks = RoundDown(static_cast<uint64_t>(info.st_size), kBlockBytes);
  present_bytes_ = std::min(whole_blocks, header_.size_bytes);
  return OkStatus();
}

void VolumeFile::ProbeDirect() {
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) return;
  alignas(kBlockBytes) std::array<std::byte, 2 * kBlockBytes> buffer;
  for (const uint64_t alignment : {uint64_t{512}, kBlockBytes}) {
    // Odd multiples of the alignment, in the file and in memory, so that a larger one is not met.
    // The header is one block: at an alignment of a block the place itself has to do.
    const uint64_t place = alignment < kBlockBytes ? alignment : 0;
    if (ReadsWhole(fd_, place, std::span(buffer).subspan(alignment, alignment))) {
      alignment_ = {alignment, alignment};
      return;
    }
  }
  // The file system takes the flag and refuses the reads. Where it does not take it back, whole
  // blocks are the best guess.
  if (fcntl(fd_, F_SETFL, flags) != 0) alignment_ = {kBlockBytes, kBlockBytes};
}

}  // namespace quire::kvserver
