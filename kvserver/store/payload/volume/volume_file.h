// SPDX-License-Identifier: Apache-2.0
//
// VolumeFile: one large preallocated file of payload. The first block is a VolumeHeader; the
// SpaceMap allocates the rest. It is opened for direct I/O where a trial read shows that the file
// system allows it.
//
// Ownership: the descriptor is open while the object lives; the disk outlives it. Thread-safety:
// all const methods may be called concurrently. Units: bytes. Errors: RESOURCE_EXHAUSTED (the file
// system is full), DATA_LOSS (foreign, damaged or cut-off header), FAILED_PRECONDITION (newer
// version), UNAVAILABLE (the device), PERMISSION_DENIED. Each names the file and the remedy.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_FILE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kvserver/store/payload/disk.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/payload/volume/volume_header.h"
#include "quire/status.h"

namespace quire::kvserver {

enum class DirectIo {
  kAuto,   ///< Where the file system allows it.
  kNever,  ///< Through the page cache.
};

class VolumeFile {
 public:
  /// Required alignment of reads and writes. 1: none.
  struct Alignment {
    uint64_t offset = 1;  ///< Alignment of file offsets and lengths.
    uint64_t memory = 1;  ///< Alignment of buffers.
  };

  /// Makes a volume of header.size_bytes at `path`. A crash or a power failure leaves all of it or
  /// nothing. Durable on return. `faults` may be null.
  static StatusOr<std::unique_ptr<VolumeFile>> Create(const std::string& path,
                                                      const VolumeHeader& header, DirectIo direct,
                                                      FaultPoints* faults = nullptr,
                                                      Disk& disk = SystemDisk());
  /// Opens a volume. Its header must have the number `volume`.
  static StatusOr<std::unique_ptr<VolumeFile>> Open(const std::string& path, uint32_t volume,
                                                    DirectIo direct, Disk& disk = SystemDisk());
  ~VolumeFile();
  VolumeFile(const VolumeFile&) = delete;
  VolumeFile& operator=(const VolumeFile&) = delete;

  const std::string& path() const { return path_; }
  uint32_t number() const { return header_.volume; }
  int fd() const { return fd_; }
  /// Size in the header. A truncated file is shorter.
  uint64_t size_bytes() const { return header_.size_bytes; }
  /// Whole blocks present at open, at most size_bytes().
  uint64_t present_bytes() const { return present_bytes_; }
  /// OK while the file is whole and has its name. UNAVAILABLE once it was removed, replaced or
  /// truncated: its contents are gone or end with this process.
  [[nodiscard]] Status CheckIntact() const;
  bool direct() const { return alignment_.offset > 1; }
  const Alignment& alignment() const { return alignment_; }

  /// Name of an incomplete volume, next to its final one.
  static std::string TemporaryPath(const std::string& path) { return path + ".tmp"; }

 private:
  VolumeFile(Disk* disk, std::string path, int fd)
      : disk_(*disk), path_(std::move(path)), fd_(fd) {}
  Status ReadHeader(uint32_t volume);
  Status MeasurePresent();
  /// Switches direct I/O on if a trial read works.
  void ProbeDirect();

  Disk& disk_;
  const std::string path_;
  const int fd_;
  VolumeHeader header_;
  uint64_t present_bytes_ = 0;
  Alignment alignment_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_FILE_H_
