// SPDX-License-Identifier: Apache-2.0
//
// DramTier: extents in the arena, handed out in place. When there is no room it evicts in the order
// of its policy, around extents that a reader holds. Extents of one KvSpec share slabs; a spec that
// has no room takes over the slab of the coldest extent of another spec.
//
// Ownership: a slice's owner pins its extent: the slot is reused only after the last owner is gone,
// also when the extent was erased or the tier itself is destroyed meanwhile.
// Thread-safety: all methods may be called concurrently. Locks: `mutex_`, then the arena's; bytes
// are copied outside both. Errors: RESOURCE_EXHAUSTED when every extent that could make room is
// held by readers, or when an extent is larger than a slab.
#ifndef QUIRE_KVSERVER_STORE_DRAM_TIER_H_
#define QUIRE_KVSERVER_STORE_DRAM_TIER_H_

#include <memory>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/store/arena.h"
#include "kvserver/store/policy/eviction_policy.h"
#include "kvserver/store/tier.h"

namespace quire::kvserver {

class DramTier final : public Tier {
 public:
  /// Reserves an arena of `bytes`; errors as Arena::Reserve.
  static StatusOr<std::unique_ptr<DramTier>> Open(uint64_t bytes,
                                                  std::unique_ptr<EvictionPolicy> policy);

  Status Put(std::span<const ExtentView> extents) override;
  StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit) override;
  StatusOr<bool> Has(const ExtentId& id) override;
  Status Erase(const SegmentKey& segment) override;
  /// dram_bytes_reserved, dram_bytes_used, dram_extents, dram_unit_hits, dram_unit_misses,
  /// dram_evictions, dram_refused (extents that found no room).
  void VisitMetrics(MetricsVisitor& visit) const override;

  /// Whether any extent of `segment` is held.
  bool HasAny(const SegmentKey& segment) const;

 private:
  struct Resident;
  using ResidentPtr = std::shared_ptr<const Resident>;
  struct SegmentEntry {
    std::vector<ResidentPtr> layers;  // null: that extent is not held
    uint32_t held = 0;
  };

  DramTier(std::unique_ptr<Arena> arena, std::unique_ptr<EvictionPolicy> policy);

  StatusOr<std::shared_ptr<Resident>> Allocate(const ExtentView& extent) QUIRE_REQUIRES(mutex_);
  bool MakeRoom(uint64_t bytes) QUIRE_REQUIRES(mutex_);
  void EvictSlab(uint32_t slab) QUIRE_REQUIRES(mutex_);
  void Evict(const ExtentId& id) QUIRE_REQUIRES(mutex_);
  bool CanEmptySlab(uint32_t slab) const QUIRE_REQUIRES(mutex_);
  void Publish(const ExtentId& id, ResidentPtr resident) QUIRE_REQUIRES(mutex_);
  void Drop(const ExtentId& id) QUIRE_REQUIRES(mutex_);
  /// Null when it is not held.
  const ResidentPtr* Find(const ExtentId& id) const QUIRE_REQUIRES(mutex_);

  const std::shared_ptr<Arena> arena_;

  mutable Mutex mutex_;
  const std::unique_ptr<EvictionPolicy> policy_ QUIRE_PT_GUARDED_BY(mutex_);
  std::unordered_map<SegmentKey, SegmentEntry, SegmentKeyHash> index_ QUIRE_GUARDED_BY(mutex_);
  // Who was last published in each slot, [slab][slot]; an entry counts only while that extent is
  // still held in that very slot.
  std::vector<std::vector<ExtentId>> slab_extents_ QUIRE_GUARDED_BY(mutex_);

  Counter extents_, hits_, misses_, evictions_, refused_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_TIER_H_
