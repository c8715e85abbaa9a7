// SPDX-License-Identifier: Apache-2.0
//
// DramIndex: the extents in DRAM, and notes of recent reads. It is sharded by segment. Each shard
// has a lock, held for one look-up. Readers of different shards never wait for each other, nor for
// an eviction.
//
// A read does not call the eviction policy, whose lock writers hold for long. It leaves a note in
// the shard instead. Notes are bounded: a full shard drops and counts further notes.
//
// Thread-safety: reads (Read, ReadUnit, Get, Has, HasAny, Walk) may be called concurrently with
// everything. Changes (Insert, Remove), Peek and LayersOf exclude each other by the caller's lock.
// Locks: one shard's at a time, below all others.
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

#include "common/base/observe/counters.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/dram/resident.h"
#include "kvserver/store/unit.h"

namespace quire::kvserver {

class DramIndex {
 public:
  static constexpr uint32_t kShards = 16;
  /// Most notes of one shard.
  static constexpr uint32_t kNotes = 128;

  /// Returns the present units of `tenant`: out[i] for units[i], or an empty slice. Returns their
  /// number. Does not allocate and makes no system call, except to wait for a shard's lock.
  /// Consecutive units of one segment are one look-up, and those of one extent one note. REQUIRES:
  /// `out` is as long as `units`.
  size_t Read(std::string_view tenant, std::span<const UnitAddress> units,
              std::span<UnitBytes> out);
  /// Returns one unit of any tenant; nullopt when it is not there.
  std::optional<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit);
  /// Returns the extent; null when it is not there. Leaves no note.
  ResidentPtr Get(const ExtentId& id) const;
  bool Has(const ExtentId& id) const;
  /// True when any extent of `segment` is there.
  bool HasAny(const SegmentKey& segment) const;

  /// Calls visit(id) for every extent read since the last call, and clears the notes. No shard is
  /// locked during visits.
  void TakeNotes(const std::function<void(const ExtentId&)>& visit);
  /// True when a shard's notes are full.
  bool notes_full() const { return notes_full_.load(std::memory_order_relaxed); }
  uint64_t notes_dropped() const { return notes_dropped_.Get(); }

  /// Position of a walk over all extents.
  struct Cursor {
    uint32_t shard = 0;
    size_t bucket = 0;
  };
  /// Appends some extents to `out` and advances `cursor`. Returns false at the end of the walk.
  /// Locks a shard for few of its segments at a time. Extents that come or go meanwhile may be
  /// missed. In a shard that grows meanwhile, others may be missed or repeated, too.
  bool Walk(Cursor* cursor, std::vector<ExtentId>* out) const;

  /// Returns true when no other extent of its segment is there. REQUIRES: the extent is not there.
  bool Insert(const ExtentId& id, ResidentPtr resident);
  /// Removes and returns the extent; null when it is not there.
  ResidentPtr Remove(const ExtentId& id);
  /// Returns the extent, valid until the next change; null when it is not there. A use count of one
  /// means that no reader holds the extent.
  const ResidentPtr* Peek(const ExtentId& id) const;
  /// The present layers of `segment`.
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
  /// Reads `units`, all of one segment.
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
