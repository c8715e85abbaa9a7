// SPDX-License-Identifier: Apache-2.0
//
// DramTier: extents in the arena, read in place. When there is no room it evicts in the order of
// its policy, except extents that are held by readers or pinned. Extents of one KvSpec share slabs.
// A spec without room takes over the slab of another spec's coldest extent.
//
// Holders that keep an extent in place:
//   a slice     until its owner is gone; the bytes stay even if the extent is evicted or erased
//   a pin       until it is released or the segment is erased
//
// A tenant over its quota makes room among its own extents only, and is refused when it cannot.
// Quotas count slots of extents in DRAM.
//
// Ownership: slices may outlive the tier (extent_view.h). Thread-safety: all methods may be called
// concurrently. Reads (ReadUnits, ReadUnit, Get, Walk, Has, HasAny) take one shard's lock of the
// index at a time and nothing else. ReadUnits does not allocate and makes no system call. Locks:
// `mutex_`, then a shard's or the arena's. Bytes are copied outside all of them. Errors:
// RESOURCE_EXHAUSTED with a retry hint when every candidate for eviction is held, and for an extent
// larger than a slab.
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

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/dram/arena.h"
#include "kvserver/store/dram/dram_index.h"
#include "kvserver/store/events/segment_event_log.h"
#include "kvserver/store/extent_view.h"
#include "kvserver/store/policy/eviction/eviction_policy.h"
#include "kvserver/store/policy/eviction/hinted_eviction.h"
#include "kvserver/store/policy/pin_table.h"
#include "kvserver/store/policy/quota_table.h"
#include "kvserver/store/policy/watermarks.h"

namespace quire::kvserver {

class DramTier {
 public:
  struct Options {
    ArenaMemory::Options memory = {};
    /// Shares of the arena. Above the high mark extents are evicted down to the low one. With both
    /// at 1, only a put without room evicts.
    double high_watermark = 1;
    double low_watermark = 1;
    /// Slot bytes of each named tenant, and of every other one.
    TenantBytes tenant_quotas = {};
    uint64_t tenant_quota_bytes = QuotaTable::kUnlimited;
    double pinned_share = 0.5;          ///< Share of the arena that pins may hold.
    SegmentEventLog* events = nullptr;  ///< Told of segments that come and go; may be null.
    double raised_share = 0.5;  ///< Share of the arena, and of a quota, that hints may raise.
  };

  /// Reserves the arena; errors as Arena::Reserve and Watermarks::Make.
  static StatusOr<std::unique_ptr<DramTier>> Open(const Options& options,
                                                  std::unique_ptr<EvictionPolicy> policy);
  ~DramTier();

  /// Stores all of `extents`, or none on failure. Replaces extents that are there; REQUIRES: with
  /// the same number of units. INVALID_ARGUMENT for a malformed extent.
  [[nodiscard]] Status Put(std::span<const ExtentView> extents);
  /// Reads one unit of an extent. NOT_FOUND when it is not there.
  [[nodiscard]] StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit);
  bool Has(const ExtentId& id) const { return index_.Has(id); }
  /// Erases every extent of `segment`, and its pins.
  void Erase(const SegmentKey& segment);
  /// Bytes of slots that hold the tenant's extents.
  uint64_t used_bytes(std::string_view tenant) const;
  /// Metrics of space: dram_bytes_reserved, dram_bytes_used (slots), dram_bytes_payload (of
  /// extents), dram_bytes_pinned, dram_extents, dram_slabs and dram_slots_used by slot_bytes.
  /// Metrics of use: dram_unit_hits, dram_unit_misses, dram_evictions, dram_notes_dropped (reads
  /// hidden from the policy), dram_refused (extents without room), dram_quota_refused (extents of a
  /// tenant at its quota). Metrics of hints: dram_bytes_raised, dram_not_raised (extents beyond the
  /// share).
  void VisitMetrics(MetricsVisitor& visit) const;

  class Room;
  /// Reserves slots for a prefix of `extents`, as long as there is room. Reads only ids and sizes.
  /// The caller fills the bytes. No reader sees them before Publish.
  Room Reserve(std::span<const ExtentView> extents);
  /// Publishes the extents that `room` has slots for. `extents` are those, with checksums; their
  /// bytes are in the slots.
  void Publish(std::span<const ExtentView> extents, Room room);

  /// See DramIndex::Read.
  size_t ReadUnits(std::string_view tenant, std::span<const UnitAddress> units,
                   std::span<UnitBytes> out);

  /// Erases every extent of `segment`, but not its pins, before the segment is replaced.
  void DropExtents(const SegmentKey& segment);
  /// The extent in its slot; null when it is not there. The policy does not see this read.
  ResidentPtr Get(const ExtentId& id) const { return index_.Get(id); }
  /// See DramIndex::Walk.
  bool Walk(DramIndex::Cursor* cursor, std::vector<ExtentId>* out) const {
    return index_.Walk(cursor, out);
  }
  /// Erases `id` if its extent is still `resident`; returns whether it was. The segment's pins stay
  /// and cover the replacement.
  bool EraseExtent(const ExtentId& id, const ResidentPtr& resident);

  /// True when any extent of `segment` is there.
  bool HasAny(const SegmentKey& segment) const { return index_.HasAny(segment); }

  /// Keeps present and future extents of `segment` in DRAM until as many Unpin. `slot_bytes` covers
  /// all its extents. RESOURCE_EXHAUSTED when pins would hold more than their share.
  [[nodiscard]] Status Pin(const SegmentKey& segment, uint64_t slot_bytes);
  /// NOT_FOUND when it is not pinned.
  [[nodiscard]] Status Unpin(const SegmentKey& segment);

  /// Sets how soon extents of segments leave, present and future ones.
  void SetStandings(std::span<const StandingChange> changes);

  /// The arena, for other processes to read; see ArenaMemory::shared.
  std::optional<SharedMemoryView> shared_memory() const { return arena_->shared_memory(); }

  /// Description of the arena's memory; see ArenaMemory::mode.
  const std::string& mode() const { return arena_->mode(); }

 private:
  using ResidentToBe = std::shared_ptr<Resident>;

  DramTier(const Options& options, std::unique_ptr<Arena> arena, const Watermarks& watermarks,
           std::unique_ptr<EvictionPolicy> policy);

  /// Frees the slots of `residents`.
  void Release(std::span<const ResidentToBe> residents);
  StatusOr<ResidentToBe> Allocate(const ExtentView& extent) QUIRE_REQUIRES(mutex_);
  /// Returns a copy of `tenant` that lives as long as the tier.
  std::string_view Interned(std::string_view tenant) QUIRE_REQUIRES(mutex_);
  Status Charge(std::string_view tenant, uint64_t slot_bytes) QUIRE_REQUIRES(mutex_);
  void Publish(const ExtentView& extent, ResidentToBe resident) QUIRE_REQUIRES(mutex_);

  /// True when neither a reader nor a pin holds the extent. REQUIRES: it is in DRAM.
  bool MayLeave(const ExtentId& id) const QUIRE_REQUIRES(mutex_);
  /// Evicts the first free extent that `wanted` accepts.
  bool EvictOne(const EvictionPolicy::Evictable& wanted) QUIRE_REQUIRES(mutex_);
  bool MakeRoom(uint64_t bytes) QUIRE_REQUIRES(mutex_);
  void EvictToLowMark() QUIRE_REQUIRES(mutex_);
  bool CanEmptySlab(uint32_t slab) const QUIRE_REQUIRES(mutex_);
  void EvictSlab(uint32_t slab) QUIRE_REQUIRES(mutex_);
  void Evict(const ExtentId& id) QUIRE_REQUIRES(mutex_);
  void Drop(const ExtentId& id) QUIRE_REQUIRES(mutex_);
  /// Says that a segment with `resident` has come, or gone, with its first or last extent.
  void Tell(SegmentEventKind kind, const SegmentKey& segment, const Resident& resident);
  /// Passes recent reads to the policy.
  void TellPolicy() QUIRE_REQUIRES(mutex_);

  const Options options_;
  const std::shared_ptr<Arena> arena_;
  DramIndex index_;                          ///< Changed only under `mutex_`.
  std::atomic<bool> telling_policy_{false};  ///< A reader is passing notes to the policy.
  std::atomic<uint32_t> puts_under_way_{0};

  mutable Mutex mutex_;
  HintedEviction policy_ QUIRE_GUARDED_BY(mutex_);
  // Last extent published in each slot, [slab][slot]. Stale unless the extent still has that slot.
  std::vector<std::vector<ExtentId>> slab_extents_ QUIRE_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> tenants_
      QUIRE_GUARDED_BY(mutex_);  // every tenant that ever put
  PinTable pins_ QUIRE_GUARDED_BY(mutex_);
  QuotaTable quotas_ QUIRE_GUARDED_BY(mutex_);
  Watermarks watermarks_ QUIRE_GUARDED_BY(mutex_);

  Counter extents_, payload_bytes_, hits_, misses_, evictions_, refused_, quota_refused_;
};

/// Slots reserved for extents about to be put. Unpublished slots are freed at destruction. The tier
/// outlives it. Thread-safety: none.
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

  /// Number of extents with a slot.
  size_t size() const { return residents_.size(); }
  /// Memory for the bytes of an extent. Empty when it has no slot.
  std::span<std::byte> bytes(size_t extent) const {
    return extent < residents_.size() ? residents_[extent]->mutable_bytes()
                                      : std::span<std::byte>();
  }
  /// Reason why the others have no slot; OK when every extent has one.
  const Status& refusal() const { return refusal_; }

 private:
  friend class DramTier;
  explicit Room(DramTier* tier) : tier_(tier) {}

  DramTier* tier_;  ///< Null when no slot is to be freed.
  std::vector<ResidentToBe> residents_;
  Status refusal_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_DRAM_TIER_H_
