// SPDX-License-Identifier: Apache-2.0
//
// SpaceMap: the free blocks of the volumes. Best fit over two ordered indexes: by place to join
// neighbours, by length to choose. Every operation takes O(log n) of the free runs. Pure
// bookkeeping without I/O. It is not stored; after a restart Reserve rebuilds it from the metadata.
//
// Thread-safety: none; PayloadStore holds its lock. Units: bytes. Runs are multiples of
// kBlockBytes. Errors: a failed operation changes nothing.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_SPACE_MAP_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_SPACE_MAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "kvserver/store/payload/volume/location.h"
#include "quire/status.h"

namespace quire::kvserver {

class SpaceMap {
 public:
  /// Most runs of one allocation; keeps metadata and reads small.
  static constexpr size_t kMaxRuns = 16;

  /// Adds [begin, end) of a volume, all free. INVALID_ARGUMENT when the volume is known already or
  /// the bounds are not block boundaries. An empty range is a volume without space.
  Status AddVolume(uint32_t volume, uint64_t begin, uint64_t end);

  /// Allocates `bytes`, rounded up to blocks. Uses the shortest free run that is long enough.
  /// Without one it uses the longest runs, and a best fit for the rest. nullopt when kMaxRuns runs
  /// do not suffice or `bytes` is 0.
  [[nodiscard]] std::optional<std::vector<BlockRun>> Allocate(uint64_t bytes);
  /// Marks free runs as used. DATA_LOSS naming a run that leaves its volume, has an unknown volume,
  /// or overlaps used space.
  Status Reserve(std::span<const BlockRun> runs);
  /// Frees runs. INVALID_ARGUMENT naming a run that is not all in use.
  Status Free(std::span<const BlockRun> runs);

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t used_bytes() const { return capacity_bytes_ - free_bytes_; }
  /// 0 when there is no free run.
  uint64_t largest_free_run() const;
  size_t free_runs() const { return by_length_.size(); }

 private:
  struct Volume {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::map<uint64_t, uint64_t> free;  ///< Offset to length; no two adjacent.
  };
  struct ByLength {
    bool operator()(const BlockRun& a, const BlockRun& b) const {
      if (a.length != b.length) return a.length < b.length;
      if (a.volume != b.volume) return a.volume < b.volume;
      return a.offset < b.offset;
    }
  };

  /// The volume of `run`; null when there is none.
  Volume* Containing(const BlockRun& run);
  /// True when the longest kMaxRuns free runs hold `bytes`.
  bool CanHold(uint64_t bytes) const;
  /// Removes `run` from the free runs. Returns false when it is not all free.
  bool Carve(Volume& volume, const BlockRun& run);
  /// Adds `run` to the free runs. Returns false when a part of it is free.
  bool Join(Volume& volume, const BlockRun& run);
  void EraseFree(Volume& volume, uint32_t number, std::map<uint64_t, uint64_t>::iterator entry);
  void InsertFree(Volume& volume, const BlockRun& run);

  std::map<uint32_t, Volume> volumes_;
  std::set<BlockRun, ByLength> by_length_;  ///< The same free runs as in volumes_.
  uint64_t capacity_bytes_ = 0;
  uint64_t free_bytes_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_SPACE_MAP_H_
