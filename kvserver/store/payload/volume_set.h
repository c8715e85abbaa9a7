// SPDX-License-Identifier: Apache-2.0
//
// VolumeSet: the volumes of one directory, 00000000.vol and so on. They are made when they are
// needed, up to a limit, and never shrink or go.
//
// Ownership: volumes live as long as the set.
// Thread-safety: all methods may be called concurrently. Find never waits for a volume that is
// being made.
// Errors: as VolumeFile; RESOURCE_EXHAUSTED also when the limit is reached.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_SET_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_SET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/store/payload/volume_file.h"
#include "quire/status.h"

namespace quire::kvserver {

class VolumeSet {
 public:
  struct Options {
    std::string directory;               ///< Made when it is missing.
    uint64_t volume_bytes = 256u << 20;  ///< Size of a new volume, at least kMinVolumeBytes.
    uint64_t limit_bytes = 0;            ///< Of all volumes together; 0: the file system's.
    DirectIo direct = DirectIo::kAuto;
    /// What volumes may still take of the file system; null: all that it has.
    std::function<StatusOr<uint64_t>()> free_bytes = nullptr;
    FaultPoints* faults = nullptr;  ///< Told of volumes that are made; may be null.
    Disk* disk = nullptr;           ///< SystemDisk() when null; outlives the set.
    /// Makes and removes nothing, and passes over volumes that cannot be opened.
    bool read_only = false;
  };
  static constexpr uint64_t kMinVolumeBytes = 64 << 10;

  /// Opens every volume in the directory and removes those that were half made. One that was cut
  /// off in its header counts as missing; one with another header is an error, for it may be
  /// somebody's mistake with file names.
  static StatusOr<std::unique_ptr<VolumeSet>> Open(const Options& options);

  /// Numbers of the volumes that `directory` has, readable or not, in order; none when there is no
  /// such directory.
  static StatusOr<std::vector<uint32_t>> NumbersIn(const std::string& directory,
                                                   Disk& disk = SystemDisk());
  /// Bytes of the files of all of them.
  static StatusOr<uint64_t> BytesIn(const std::string& directory, Disk& disk = SystemDisk());
  /// The file of one.
  static std::string PathIn(const std::string& directory, uint32_t number);

  /// Null when there is no such volume.
  VolumeFile* Find(uint32_t number) const;
  /// By number.
  std::vector<VolumeFile*> All() const;
  /// Makes another volume, a smaller one where the file system has no room for its full size.
  /// REQUIRES: one caller at a time.
  StatusOr<VolumeFile*> Grow();
  /// New volumes get numbers above `number`, which metadata may still name.
  void SkipPast(uint32_t number);

  /// Bytes of all volume files by their headers.
  uint64_t total_bytes() const;
  /// Whether new volumes are opened for direct I/O; found out when the set is opened.
  bool direct() const { return direct_; }

 private:
  explicit VolumeSet(const Options& options)
      : options_(options), disk_(options.disk != nullptr ? *options.disk : SystemDisk()) {}
  /// Removes what a crash left of volumes that were being made.
  Status RemoveHalfMade();
  Status OpenAll();
  /// Makes a small volume and removes it, to see what the directory allows.
  Status Probe();
  std::string PathOf(uint32_t number) const;
  StatusOr<bool> HasHeader(const std::string& path) const;
  /// Of the volume to make next, by the limit and the free space.
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

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_SET_H_
