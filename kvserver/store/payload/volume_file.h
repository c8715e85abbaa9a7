// SPDX-License-Identifier: Apache-2.0
//
// VolumeFile: one large file that holds payload, its space taken from the file system when it is
// made. The first block is a VolumeHeader; the rest belongs to whoever the SpaceMap gives it to.
// It is opened for direct I/O where the file system allows it, which is found out by doing it.
//
// Ownership: the descriptor is open while the object lives; the disk outlives it.
// Thread-safety: all const methods may be called concurrently.
// Units: bytes.
// Errors: RESOURCE_EXHAUSTED (the file system is full), DATA_LOSS (foreign, damaged or cut-off
// header), FAILED_PRECONDITION (newer version), UNAVAILABLE (the device), PERMISSION_DENIED. Each
// names the file and the remedy.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_FILE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kvserver/store/payload/disk.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/payload/volume_header.h"
#include "quire/status.h"

namespace quire::kvserver {

enum class DirectIo {
  kAuto,   ///< Where the file system allows it.
  kNever,  ///< Through the page cache.
};

class VolumeFile {
 public:
  /// What one read or write must keep to; 1 means anything goes.
  struct Alignment {
    uint64_t offset = 1;  ///< Of file offsets and lengths.
    uint64_t memory = 1;  ///< Of buffers.
  };

  /// Makes a volume of header.size_bytes under `path`; after a crash or a power failure there is
  /// all of it or nothing, and all of it once this has returned. `faults` may be null.
  static StatusOr<std::unique_ptr<VolumeFile>> Create(const std::string& path,
                                                      const VolumeHeader& header, DirectIo direct,
                                                      FaultPoints* faults = nullptr,
                                                      Disk& disk = SystemDisk());
  /// Opens a volume; its header must say that it is number `volume`.
  static StatusOr<std::unique_ptr<VolumeFile>> Open(const std::string& path, uint32_t volume,
                                                    DirectIo direct, Disk& disk = SystemDisk());
  ~VolumeFile();
  VolumeFile(const VolumeFile&) = delete;
  VolumeFile& operator=(const VolumeFile&) = delete;

  const std::string& path() const { return path_; }
  uint32_t number() const { return header_.volume; }
  int fd() const { return fd_; }
  /// What the header says; a file that was cut has less.
  uint64_t size_bytes() const { return header_.size_bytes; }
  /// Whole blocks that were there when the file was opened, at most size_bytes().
  uint64_t present_bytes() const { return present_bytes_; }
  /// OK while the file is whole and found under its name; UNAVAILABLE once somebody removed,
  /// replaced or cut it, for then what it held is gone or goes with this process.
  [[nodiscard]] Status CheckIntact() const;
  bool direct() const { return alignment_.offset > 1; }
  const Alignment& alignment() const { return alignment_; }

  /// The name of a volume that is being made, beside its own.
  static std::string TemporaryPath(const std::string& path) { return path + ".tmp"; }

 private:
  VolumeFile(Disk* disk, std::string path, int fd)
      : disk_(*disk), path_(std::move(path)), fd_(fd) {}
  Status ReadHeader(uint32_t volume);
  Status MeasurePresent();
  /// Switches direct I/O on if a read shows that it works.
  void ProbeDirect();

  Disk& disk_;
  const std::string path_;
  const int fd_;
  VolumeHeader header_;
  uint64_t present_bytes_ = 0;
  Alignment alignment_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_FILE_H_
