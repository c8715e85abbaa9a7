// SPDX-License-Identifier: Apache-2.0
//
// DramTier: extents in the arena, handed out in place. When there is no room it evicts in the order
// of its policy, around extents that readers hold and that are pinned. Extents of one KvSpec share
// slabs; a spec that has no room takes over the slab of the coldest extent of another spec.
//
// What holds an extent in place:
//   a slice     until its owner is gone; the bytes stay even if the extent is evicted or erased
//   a pin       until it is taken back or the segment is erased
//
// A tenant over its quota makes room among its own extents, and is refused when it cannot; others'
// never leave for it. Quotas count slots of extents that are held.
//
// Ownership: slices may outlive the tier (extent_view.h). Thread-safety: all methods may be called
// concurrently. Reads (ReadUnits, ReadUnit, Get, Walk, Has, HasAny) take one shard's lock of the
// index at a time and nothing else; ReadUnits neither allocates nor calls the system. Locks:
// `mutex_`, then a shard's or the arena's; bytes are copied outside all of them. Errors:
// RESOURCE_EXHAUSTED when every extent that could make room is held, with a hint when to try again,
// or when an extent is larger than a slab.
#ifndef QUIRE_KVSERVER_STORE_DRAM_DRAM_TIER_H_
#define QUIRE_KVSERVER_STORE_DRAM_DRAM_TIER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/store/dram/arena.h"
#include "kvserver/store/dram/dram_index.h"
#include "kvserver/store/extent_view.h"
#include "kvserver/store/policy/eviction_policy.h"
#include "kvserver/store/policy/pin_table.h"
#include "kvserver/store/policy/quota_table.h"
#include "kvserver/store/policy/watermarks.h"

namespace quire::kvserver {

class DramTier {
 public:
  struct Options {
    ArenaMemory::Options memory = {};
    /// Shares of the arena. Above the high mark extents are evicted down to the low one; with both
    /// at 1 only when a put finds no room.
    double high_watermark = 1;
    double low_watermark = 1;
    /// Bytes of slots that a tenant may use, by name, and that of those not named.
    TenantBytes tenant_quotas = {};
    uint64_t tenant_quota_bytes = QuotaTable::kUnlimited;
    double pinned_share = 0.5;  ///< Of the arena, that pins may hold.
  };

  /// Reserves the arena; errors as Arena::Reserve and Watermarks::Make.
  static StatusOr<std::unique_ptr<DramTier>> Open(const Options& options,
                                                  std::unique_ptr<EvictionPolicy> policy);
  ~DramTier();

  /// Holds all of `extents`, or none when it fails. An extent that is held already is replaced;
  /// REQUIRES: it has the same number of units. INVALID_ARGUMENT for a malformed extent.
  [[nodiscard]] Status Put(std::span<const ExtentView> extents);
  /// One unit of an extent. NOT_FOUND when it is not held.
  [[nodiscard]] StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit);
  bool Has(const ExtentId& id) const { return index_.Has(id); }
  /// Forgets every extent of `segment`, and its pins.
  void Erase(const SegmentKey& segment);
  /// dram_bytes_reserved, dram_bytes_used (slots), dram_bytes_payload (of extents that are held),
  /// dram_slabs and dram_slots_used by slot_bytes, dram_extents,
  /// dram_unit_hits, dram_unit_misses, dram_evictions, dram_refused (extents that found no room),
  /// dram_quota_refused (those of a tenant at its quota), dram_bytes_pinned, dram_notes_dropped
  /// (reads that the policy was not told of).
  void VisitMetrics(MetricsVisitor& visit) const;

  class Room;
  /// Slots for those of `extents` that find one, from the first on. The bytes are the caller's to
  /// fill, and nobody sees them before Publish. Of the extents only ids and sizes are looked at.
  Room Reserve(std::span<const ExtentView> extents);
  /// Holds the extents that `room` has slots for: `extents` are those, with their checksums, and
  /// their bytes are in the slots.
  void Publish(std::span<const ExtentView> extents, Room room);

  /// See DramIndex::Read.
  size_t ReadUnits(std::string_view tenant, std::span<const UnitAddress> units,
                   std::span<UnitBytes> out);

  /// Forgets every extent of `segment`, as Erase does, but its pins stay: it is about to be
  /// replaced.
  void DropExtents(const SegmentKey& segment);
  /// The extent in its slot; null when it is not held. The policy is not told.
  ResidentPtr Get(const ExtentId& id) const { return index_.Get(id); }
  /// See DramIndex::Walk.
  bool Walk(DramIndex::Cursor* cursor, std::vector<ExtentId>* out) const {
    return index_.Walk(cursor, out);
  }
  /// Forgets `id` when it is `resident` that is held there; whether it was. Pins of the segment
  /// stay, and keep what comes in its place.
  bool EraseExtent(const ExtentId& id, const ResidentPtr& resident);

  /// Whether any extent of `segment` is held.
  bool HasAny(const SegmentKey& segment) const { return index_.HasAny(segment); }

  /// Keeps the extents of `segment` that are held, and those that come, until as many Unpin.
  /// `slot_bytes`: of all its extents. RESOURCE_EXHAUSTED when pins would hold more than their
  /// share.
  [[nodiscard]] Status Pin(const SegmentKey& segment, uint64_t slot_bytes);
  /// NOT_FOUND when it is not pinned.
  [[nodiscard]] Status Unpin(const SegmentKey& segment);

  /// The arena, for other processes to read; see ArenaMemory::shared.
  std::optional<SharedMemoryView> shared_memory() const { return arena_->shared_memory(); }

  /// How the arena lies in memory; see ArenaMemory::mode.
  const std::string& mode() const { return arena_->mode(); }

 private:
  using ResidentToBe = std::shared_ptr<Resident>;

  DramTier(const Options& options, std::unique_ptr<Arena> arena, const Watermarks& watermarks,
           std::unique_ptr<EvictionPolicy> policy);

  /// The slots go back.
  void Release(std::span<const ResidentToBe> residents);
  StatusOr<ResidentToBe> Allocate(const ExtentView& extent) QUIRE_REQUIRES(mutex_);
  /// The same name, for as long as the tier lives.
  std::string_view Interned(std::string_view tenant) QUIRE_REQUIRES(mutex_);
  Status Charge(std::string_view tenant, uint64_t slot_bytes) QUIRE_REQUIRES(mutex_);
  void Publish(const ExtentView& extent, ResidentToBe resident) QUIRE_REQUIRES(mutex_);

  /// Whether nothing holds the extent in place. REQUIRES: it is held.
  bool MayLeave(const ExtentId& id) const QUIRE_REQUIRES(mutex_);
  /// Evicts the first extent that `wanted` agrees to among those that may leave.
  bool EvictOne(const EvictionPolicy::Evictable& wanted) QUIRE_REQUIRES(mutex_);
  bool MakeRoom(uint64_t bytes) QUIRE_REQUIRES(mutex_);
  void EvictToLowMark() QUIRE_REQUIRES(mutex_);
  bool CanEmptySlab(uint32_t slab) const QUIRE_REQUIRES(mutex_);
  void EvictSlab(uint32_t slab) QUIRE_REQUIRES(mutex_);
  void Evict(const ExtentId& id) QUIRE_REQUIRES(mutex_);
  void Drop(const ExtentId& id) QUIRE_REQUIRES(mutex_);
  /// Tells the policy what was read of late.
  void TellPolicy() QUIRE_REQUIRES(mutex_);

  const Options options_;
  const std::shared_ptr<Arena> arena_;
  DramIndex index_;                          ///< Changed under `mutex_` only.
  std::atomic<bool> telling_policy_{false};  ///< A reader is.
  std::atomic<uint32_t> puts_under_way_{0};

  mutable Mutex mutex_;
  const std::unique_ptr<EvictionPolicy> policy_ QUIRE_PT_GUARDED_BY(mutex_);
  // Who was last published in each slot, [slab][slot]; an entry counts only while that extent is
  // still held in that very slot.
  std::vector<std::vector<ExtentId>> slab_extents_ QUIRE_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> tenants_ QUIRE_GUARDED_BY(mutex_);  // that ever put
  PinTable pins_ QUIRE_GUARDED_BY(mutex_);
  QuotaTable quotas_ QUIRE_GUARDED_BY(mutex_);
  Watermarks watermarks_ QUIRE_GUARDED_BY(mutex_);

  Counter extents_, payload_bytes_, hits_, misses_, evictions_, refused_, quota_refused_;
};

/// Slots of extents that are about to be put. They go back when they are not published. Outlived by
/// its tier. Thread-safety: none.
class DramTier::Room {
 public:
  ~Room() {
    if (tier_ != nullptr) tier_->Release(residents_);
  }
  Room(Room&& other) noexcept
      : tier_(std::exchange(other.tier_, nullptr)),
        residents_(std::move(other.residents_)),
        refusal_(std::move(other.refusal_)) {}
  Room& operator=(Room&&) = delete;

  /// Extents that found a slot.
  size_t size() const { return residents_.size(); }
  /// Memory for the bytes of an extent; empty when it found no slot.
  std::span<std::byte> bytes(size_t extent) const {
    return extent < residents_.size() ? residents_[extent]->mutable_bytes()
                                      : std::span<std::byte>();
  }
  /// Why the others found no slot; OK when every extent has one.
  const Status& refusal() const { return refusal_; }

 private:
  friend class DramTier;
  explicit Room(DramTier* tier) : tier_(tier) {}

  DramTier* tier_;  ///< Null when nothing goes back.
  std::vector<ResidentToBe> residents_;
  Status refusal_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_DRAM_TIER_H_
