// SPDX-License-Identifier: Apache-2.0
//
// SegmentKeeper: carries out the rules of SegmentLives. It counts names and holds, and removes
// segments from every tier. When a put finds no room on SSD it evicts cached segments before it
// refuses.
//
// A removal is one commit of the database; a crash leaves the segment whole or gone. It holds the
// segment's writer lock, so no put, promotion or other removal of the segment runs meanwhile.
//
// Thread-safety: all methods may be called concurrently. Lock order: `evict_mutex_`, a KeyedLock
// guard, then `mutex_`, which is held over no I/O. Methods that remove segments take writer locks,
// so their caller must hold none. Charge and MakeRoom only try free ones.
#ifndef QUIRE_KVSERVER_STORE_SPACE_SEGMENT_KEEPER_H_
#define QUIRE_KVSERVER_STORE_SPACE_SEGMENT_KEEPER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/events/segment_event_log.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/policy/segment_lives.h"
#include "kvserver/store/space/segment_hold.h"
#include "kvserver/store/space/space_accounts.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/store_latencies.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class SegmentKeeper final : public SegmentHold::Owner {
 public:
  /// Parts of the store; all outlive the keeper.
  struct Parts {
    Database* database = nullptr;
    SegmentCatalog* catalog = nullptr;
    DigestStore* digests = nullptr;
    DramTier* dram = nullptr;
    SsdTier* ssd = nullptr;
    KeyedLock* writers = nullptr;
    SpaceAccounts* space = nullptr;
    FaultPoints* faults = nullptr;  ///< May be null.
    Health* health = nullptr;
    StoreLatencies* latencies = nullptr;
    Clock* clock = nullptr;
    SegmentEventLog* events = nullptr;  ///< Told of segments that come and go; may be null.
  };
  /// `eviction` orders cached segments, and `raised` bounds those that leave last. `cached_ttl` is
  /// their longest unused time; zero: until room is needed.
  SegmentKeeper(const Parts& parts, std::unique_ptr<EvictionPolicy> eviction,
                HintedEviction::Limits raised, Duration cached_ttl)
      : parts_(parts),
        cached_ttl_(cached_ttl),
        lives_(std::move(eviction), std::move(raised)),
        noted_until_(parts.clock->Now()) {}

  /// Adds a segment found at open, with the wall-clock time of its last use. Call it in order of
  /// use, before anything else.
  void Restore(const StoredSegment& segment, int64_t last_use_micros) QUIRE_EXCLUDES(mutex_);

  // --- For puts; the caller has the segment's writer lock.

  /// Holds a segment about to be put, stored or not.
  SegmentHold HoldForPut(const StoredSegment& segment) QUIRE_EXCLUDES(mutex_);
  /// Removes a new segment whose put has failed.
  void Withdraw(const SegmentKey& key) QUIRE_EXCLUDES(mutex_);
  /// Adds the segment as stored. REQUIRES: its old bytes, if any, can be read no more.
  void AddStored(const StoredSegment& segment) QUIRE_EXCLUDES(mutex_);
  /// Call before any tier gets other bytes of the segment. WrittenAs differs from then on, and
  /// again from AddStored on. Meanwhile readers may still get the old bytes.
  void BeginRewrite(const SegmentKey& key) QUIRE_EXCLUDES(mutex_);
  /// Returns an unused incarnation.
  uint64_t NextIncarnation() QUIRE_EXCLUDES(mutex_);
  bool IsStored(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  bool IsMarked(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  /// As SegmentLives; NOT_FOUND for nullopt.
  [[nodiscard]] StatusOr<std::vector<SegmentKey>> MarkedOfChain(const SegmentKey& tip) const
      QUIRE_EXCLUDES(mutex_);
  /// Renews a segment that was put again. REQUIRES: this incarnation is committed.
  void Renew(const SegmentKey& key, uint64_t incarnation) QUIRE_EXCLUDES(mutex_);
  /// Charged bytes; 0 when it is not stored.
  uint64_t BytesOf(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  /// As SpaceAccounts::Charge, evicting cached segments when there is no room.
  [[nodiscard]] Status Charge(std::string_view tenant, uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Evicts one cached segment. Returns false when there is none.
  bool MakeRoom() QUIRE_EXCLUDES(mutex_);
  /// Evicts a share of the cached segments, when single ones free too little. Returns the number.
  uint64_t EvictShare() QUIRE_EXCLUDES(mutex_);

  // --- For users of segments. See PageStore.

  StatusOr<SegmentHold> Hold(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  void ReleaseSegments(std::span<const SegmentKey> keys) override QUIRE_EXCLUDES(mutex_);
  [[nodiscard]] Status Name(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  void Unname(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  std::vector<uint64_t> Mark(std::string_view tenant, std::span<const SegmentKey> keys)
      QUIRE_EXCLUDES(mutex_);
  void Unmark(std::string_view tenant, std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  [[nodiscard]] Status RemoveMarked(const SegmentKey& key, uint64_t incarnation)
      QUIRE_EXCLUDES(mutex_);
  std::vector<uint64_t> Incarnations(std::span<const SegmentKey> keys) const QUIRE_EXCLUDES(mutex_);
  std::vector<uint64_t> WrittenAs(std::span<const SegmentKey> keys) const QUIRE_EXCLUDES(mutex_);
  uint64_t num_replaced() const { return num_replaced_.load(std::memory_order_acquire); }
  void RestoreNames(const SegmentLives::Names& names) QUIRE_EXCLUDES(mutex_);
  uint64_t CountNames(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  /// True when a document refers to a segment that is not stored.
  bool MissesNamed() const QUIRE_EXCLUDES(mutex_);
  /// See SegmentLives::List.
  std::vector<ListedSegment> List(std::string_view tenant, const SegmentKey& after,
                                  size_t limit) const QUIRE_EXCLUDES(mutex_);
  /// Sets how soon segments leave among the cached ones.
  void SetStandings(std::span<const StandingChange> changes) QUIRE_EXCLUDES(mutex_);
  /// Removes it now, or once it is not held. NOT_FOUND when it is not stored.
  [[nodiscard]] Status Delete(const SegmentKey& key) QUIRE_EXCLUDES(mutex_);
  StatusOr<uint64_t> Sweep() QUIRE_EXCLUDES(mutex_);
  /// Writes down the last uses of cached segments since the last call, without a sync
  /// (last_uses.h). Sweep calls it once a minute.
  [[nodiscard]] Status NoteUses() QUIRE_EXCLUDES(mutex_);

  /// segments, segments_cached, segments_held, segments_replaced, ssd_bytes_cached,
  /// ssd_bytes_raised, ssd_not_raised, deletes, cached_evictions, cached_expired,
  /// segments_detached.
  void VisitMetrics(MetricsVisitor& visit) const QUIRE_EXCLUDES(mutex_);

 private:
  /// Removes the segment. Returns false when the rules do not allow it for this reason
  /// (SegmentLives::BeginRemoval).
  StatusOr<bool> Remove(const SegmentKey& key, RemovalReason why) QUIRE_EXCLUDES(mutex_);
  /// As Remove. REQUIRES: the caller holds the writer lock.
  StatusOr<bool> RemoveLocked(const SegmentKey& key, RemovalReason why) QUIRE_EXCLUDES(mutex_);
  Status Erase(const SegmentKey& key, const std::string& tenant, uint64_t bytes);
  bool EvictOne(std::optional<std::string_view> tenant) QUIRE_EXCLUDES(mutex_);
  uint64_t RemoveAll(std::span<const SegmentKey> keys, RemovalReason why, Status* first_failure)
      QUIRE_EXCLUDES(mutex_);
  /// Some of the segments whose record is in memory alone: in turn all of them.
  std::vector<SegmentKey> NextInMemory() QUIRE_EXCLUDES(mutex_);
  /// Removes those of them whose bytes have left DRAM.
  uint64_t RemoveGone(Status* first_failure) QUIRE_EXCLUDES(mutex_);
  /// Cached segments last used before this time have expired.
  TimePoint ExpiredBefore() const { return parts_.clock->Now() - cached_ttl_; }

  const Parts parts_;
  const Duration cached_ttl_;
  Mutex evict_mutex_;  ///< Serialises evictions: waiting callers use the room of the first.
  mutable Mutex mutex_;
  SegmentLives lives_ QUIRE_GUARDED_BY(mutex_);
  std::vector<SegmentKey> in_memory_ QUIRE_GUARDED_BY(mutex_);  ///< Still to come in NextInMemory.
  TimePoint noted_until_ QUIRE_GUARDED_BY(mutex_);              ///< Earlier uses are written down.
  std::atomic<uint64_t> num_replaced_{0};                       ///< Copy of lives_'s count.
  Counter deletes_, evictions_, expired_, detached_, replaced_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SPACE_SEGMENT_KEEPER_H_
