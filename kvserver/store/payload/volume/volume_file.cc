// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/volume/volume_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "kvserver/store/payload/engine/io_status.h"
#include "kvserver/store/payload/volume/location.h"

namespace quire::kvserver {
namespace {

/// Fills the file under its temporary name. Returns an errno value.
int WriteTemporary(Disk& disk, const std::string& temporary, const VolumeHeader& header) {
  const DiskFile file(disk, temporary, O_RDWR | O_CREAT | O_TRUNC);
  if (!file.ok()) return file.error();
  if (const int error = disk.Allocate(file.fd(), header.size_bytes); error != 0) return error;
  const std::string block = EncodeVolumeHeader(header);
  const int error = disk.Write(file.fd(), 0, std::as_bytes(std::span(block)));
  return error != 0 ? error : disk.Sync(file.fd());
}

}  // namespace

StatusOr<std::unique_ptr<VolumeFile>> VolumeFile::Create(const std::string& path,
                                                         const VolumeHeader& header,
                                                         DirectIo direct, FaultPoints* faults,
                                                         Disk& disk) {
  const std::string temporary = TemporaryPath(path);
  int error = WriteTemporary(disk, temporary, header);
  Reach(faults, FaultPoint::kVolumeMade);
  if (error == 0) error = disk.Rename(temporary, path);
  if (error == 0) error = SyncDirectory(disk, ParentDirectory(path));
  if (error != 0) {
    (void)disk.Remove(temporary);  // It may never have been there.
    return FromErrno(error,
                     "make volume " + path + " of " + std::to_string(header.size_bytes) + " bytes");
  }
  return Open(path, header.volume, direct, disk);
}

StatusOr<std::unique_ptr<VolumeFile>> VolumeFile::Open(const std::string& path, uint32_t volume,
                                                       DirectIo direct, Disk& disk) {
  const int fd = disk.Open(path, O_RDWR);
  if (fd < 0) return FromErrno(-fd, "open volume " + path);
  std::unique_ptr<VolumeFile> file(new VolumeFile(&disk, path, fd));
  QUIRE_RETURN_IF_ERROR(file->ReadHeader(volume));
  QUIRE_RETURN_IF_ERROR(file->MeasurePresent());
  if (direct == DirectIo::kAuto) file->ProbeDirect();
  return file;
}

VolumeFile::~VolumeFile() { disk_.Close(fd_); }

Status VolumeFile::ReadHeader(uint32_t volume) {
  std::array<char, kBlockBytes> block;
  const int64_t size = disk_.Read(fd_, 0, std::as_writable_bytes(std::span(block)));
  if (size < 0) return FromErrno(static_cast<int>(-size), "read the header of volume " + path_);
  const auto header = DecodeVolumeHeader({block.data(), static_cast<size_t>(size)});
  if (!header.ok()) return Annotate(header.status(), path_);
  if (header->volume != volume) {
    return DataLoss(path_, ": its header says that it is volume ", header->volume,
                    "; it was renamed or copied over another, give it back its own name");
  }
  header_ = *header;
  return OkStatus();
}

Status VolumeFile::MeasurePresent() {
  DiskEntry entry;
  if (const int error = disk_.Examine(fd_, &entry); error != 0) {
    return FromErrno(error, "examine volume " + path_);
  }
  const uint64_t whole_blocks = RoundDown(entry.size_bytes, kBlockBytes);
  present_bytes_ = std::min(whole_blocks, header_.size_bytes);
  return OkStatus();
}

Status VolumeFile::CheckIntact() const {
  DiskEntry open, named;
  if (const int error = disk_.Examine(fd_, &open); error != 0) {
    return FromErrno(error, "examine volume " + path_);
  }
  const auto gone = [this](std::string_view what) {
    return Unavailable("volume ", path_, " was ", what,
                       " while the server runs; restart the server and put the documents again "
                       "whose segments it held");
  };
  const int error = disk_.Examine(path_, &named);
  if (error == ENOENT) return gone("removed");
  if (error != 0) return FromErrno(error, "examine volume " + path_);
  if (named.file != open.file) return gone("replaced");
  return open.size_bytes >= present_bytes_ ? OkStatus() : gone("cut");
}

void VolumeFile::ProbeDirect() {
  if (disk_.SetDirect(fd_, true) != 0) return;
  alignas(kBlockBytes) std::array<std::byte, 2 * kBlockBytes> buffer;
  for (const uint64_t alignment : {uint64_t{512}, kBlockBytes}) {
    // Odd multiples of the alignment, in the file and in memory, so that no larger alignment is
    // met. The header is one block; for an alignment of a block only place 0 is left.
    const uint64_t place = alignment < kBlockBytes ? alignment : 0;
    const auto into = std::span(buffer).subspan(alignment, alignment);
    if (disk_.Read(fd_, place, into) == static_cast<int64_t>(alignment)) {
      alignment_ = {alignment, alignment};
      return;
    }
  }
  // The file system accepts the flag and refuses the reads. If the flag cannot be cleared, whole
  // blocks are the best guess.
  if (disk_.SetDirect(fd_, false) != 0) alignment_ = {kBlockBytes, kBlockBytes};
}

}  // namespace quire::kvserver
