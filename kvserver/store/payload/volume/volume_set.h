// SPDX-License-Identifier: Apache-2.0
//
// VolumeSet: the volumes of one directory, 00000000.vol and so on. They are made on demand, up to a
// limit, and never shrink or disappear.
//
// Ownership: volumes live as long as the set. Thread-safety: all methods may be called
// concurrently. Find never waits for the making of a volume. Errors: as VolumeFile;
// RESOURCE_EXHAUSTED also when the limit is reached.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_SET_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_SET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/store/payload/volume/volume_file.h"
#include "quire/status.h"

namespace quire::kvserver {

class VolumeSet {
 public:
  struct Options {
    std::string directory;               ///< Created when missing.
    uint64_t volume_bytes = 256u << 20;  ///< Size of a new volume, at least kMinVolumeBytes.
    uint64_t limit_bytes = 0;            ///< Limit of all volumes; 0: the file system's.
    DirectIo direct = DirectIo::kAuto;
    /// Returns the file system's bytes that volumes may still take. Null: all of them.
    std::function<StatusOr<uint64_t>()> free_bytes = nullptr;
    FaultPoints* faults = nullptr;  ///< Notified of new volumes; may be null.
    Disk* disk = nullptr;           ///< SystemDisk() when null; outlives the set.
    /// Makes and removes nothing, and skips unreadable volumes.
    bool read_only = false;
  };
  static constexpr uint64_t kMinVolumeBytes = 64 << 10;

  /// Opens every volume in the directory and removes incomplete ones. A volume cut off in its
  /// header counts as missing. A foreign header is an error, for the file names may be mixed up.
  static StatusOr<std::unique_ptr<VolumeSet>> Open(const Options& options);

  /// Numbers of the volumes in `directory`, readable or not, in order. Empty when there is no such
  /// directory.
  static StatusOr<std::vector<uint32_t>> NumbersIn(const std::string& directory,
                                                   Disk& disk = SystemDisk());
  /// Total bytes of the volume files in `directory`.
  static StatusOr<uint64_t> BytesIn(const std::string& directory, Disk& disk = SystemDisk());
  /// Path of one volume.
  static std::string PathIn(const std::string& directory, uint32_t number);

  /// Returns null when there is no such volume.
  VolumeFile* Find(uint32_t number) const;
  /// All volumes, by number.
  std::vector<VolumeFile*> All() const;
  /// Makes another volume, smaller when the file system has no room for its full size. REQUIRES:
  /// one caller at a time.
  StatusOr<VolumeFile*> Grow();
  /// Gives new volumes numbers above `number`, which metadata may still name.
  void SkipPast(uint32_t number);

  /// Total bytes of all volumes by their headers.
  uint64_t total_bytes() const;
  /// True when new volumes use direct I/O; tested when the set is opened.
  bool direct() const { return direct_; }

 private:
  explicit VolumeSet(const Options& options)
      : options_(options), disk_(options.disk != nullptr ? *options.disk : SystemDisk()) {}
  /// Removes incomplete volumes that a crash left.
  Status RemoveHalfMade();
  Status OpenAll();
  /// Makes a small volume and removes it, as a test of the directory.
  Status Probe();
  std::string PathOf(uint32_t number) const;
  StatusOr<bool> HasHeader(const std::string& path) const;
  /// Header of the next volume, by the limit and the free space.
  StatusOr<VolumeHeader> NextHeader();
  void Add(std::unique_ptr<VolumeFile> volume);

  const Options options_;
  Disk& disk_;
  bool direct_ = false;  ///< Constant once the set is open.
  mutable Mutex mutex_;
  std::map<uint32_t, std::unique_ptr<VolumeFile>> volumes_ QUIRE_GUARDED_BY(mutex_);
  uint64_t total_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t next_number_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_VOLUME_SET_H_
