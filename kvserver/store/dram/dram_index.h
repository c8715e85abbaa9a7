// SPDX-License-Identifier: Apache-2.0
//
// DramIndex: which extents are in DRAM, and which of them were read of late. It is cut into shards
// by segment, each under a lock of its own that is held for one look-up, so that readers of other
// segments never wait for each other, and nobody for an eviction.
//
// A read does not tell the eviction policy, which has a lock that writers hold for long; it leaves
// a note in the shard. Notes are bounded: when a shard's are full, more are dropped and counted.
//
// Thread-safety: reads (Read, ReadUnit, Get, Has, HasAny, Walk) may be called concurrently with
// everything. Changes (Insert, Remove) exclude each other and Peek and LayersOf by a lock of the
// caller's. Locks: one shard's at a time, below all others.
#ifndef QUIRE_KVSERVER_STORE_DRAM_DRAM_INDEX_H_
#define QUIRE_KVSERVER_STORE_DRAM_DRAM_INDEX_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/counters.h"
#include "common/base/mutex.h"
#include "kvserver/store/dram/resident.h"
#include "kvserver/store/unit.h"

namespace quire::kvserver {

class DramIndex {
 public:
  static constexpr uint32_t kShards = 16;
  /// Notes of reads that one shard keeps.
  static constexpr uint32_t kNotes = 128;

  /// Hands out those of `units` that are there and whose extent is `tenant`'s: out[i] for units[i],
  /// an empty slice where it is not. Returns how many it handed out. Neither allocates nor calls
  /// the system, but to wait for a shard. Units of one segment that follow each other are one
  /// look-up, and those of one extent one note. REQUIRES: as many `out` as `units`.
  size_t Read(std::string_view tenant, std::span<const UnitAddress> units,
              std::span<UnitBytes> out);
  /// One unit, whosever it is; nullopt when it is not there.
  std::optional<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit);
  /// The extent; null when it is not there. Leaves no note.
  ResidentPtr Get(const ExtentId& id) const;
  bool Has(const ExtentId& id) const;
  /// Whether any extent of `segment` is there.
  bool HasAny(const SegmentKey& segment) const;

  /// Calls visit(id) for every extent that was read since the last call, and forgets it. The
  /// shards' locks are free meanwhile.
  void TakeNotes(const std::function<void(const ExtentId&)>& visit);
  /// Whether a shard's notes are full.
  bool notes_full() const { return notes_full_.load(std::memory_order_relaxed); }
  uint64_t notes_dropped() const { return notes_dropped_.Get(); }

  /// A walk over all that is there.
  struct Cursor {
    uint32_t shard = 0;
    size_t bucket = 0;
  };
  /// Appends some of what is there to `out` and moves `cursor` on; false at the end of the walk. A
  /// shard is locked for few of its segments at a time. What comes or goes during the walk may be
  /// met or not; in a shard that grows meanwhile, others may be missed, too, or met twice.
  bool Walk(Cursor* cursor, std::vector<ExtentId>* out) const;

  /// REQUIRES: the extent is not there.
  void Insert(const ExtentId& id, ResidentPtr resident);
  /// What was there, or null.
  ResidentPtr Remove(const ExtentId& id);
  /// What is there, or null. It stays in place until the next change. A use count of one means that
  /// no reader holds the extent.
  const ResidentPtr* Peek(const ExtentId& id) const;
  /// The layers of `segment` that are there.
  std::vector<uint32_t> LayersOf(const SegmentKey& segment) const;

 private:
  using Notes = std::array<ExtentId, kNotes>;
  struct Segment {
    std::vector<ResidentPtr> layers;  // null: not there
    uint32_t held = 0;

    const ResidentPtr* At(uint32_t layer) const {
      return layer < layers.size() && layers[layer] ? &layers[layer] : nullptr;
    }
  };
  struct alignas(64) Shard {
    mutable Mutex mutex;
    std::unordered_map<SegmentKey, Segment, SegmentKeyHash> segments QUIRE_GUARDED_BY(mutex);
    Notes notes QUIRE_GUARDED_BY(mutex);
    uint32_t num_notes QUIRE_GUARDED_BY(mutex) = 0;

    const ResidentPtr* Find(const ExtentId& id) const QUIRE_REQUIRES(mutex) {
      const auto it = segments.find(id.segment);
      return it == segments.end() ? nullptr : it->second.At(id.layer);
    }
  };

  Shard& ShardOf(const SegmentKey& segment) {
    return shards_[(SegmentKeyHash()(segment) * 0x9e3779b97f4a7c15ull) >> 60];
  }
  const Shard& ShardOf(const SegmentKey& segment) const {
    return const_cast<DramIndex*>(this)->ShardOf(segment);
  }
  /// `units` are of one segment.
  size_t ReadSegment(std::string_view tenant, std::span<const UnitAddress> units,
                     std::span<UnitBytes> out);
  void Note(const ExtentId& id, Shard& shard) QUIRE_REQUIRES(shard.mutex);

  static_assert(kShards == 16, "ShardOf takes four bits");
  std::array<Shard, kShards> shards_;
  std::atomic<bool> notes_full_{false};
  Counter notes_dropped_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_DRAM_INDEX_H_
