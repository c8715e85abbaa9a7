// SPDX-License-Identifier: Apache-2.0
//
// SegmentKeeper: keeps what SegmentLives decides: counts who needs a segment, and removes from
// every tier those that are to leave. It evicts cached segments when a put finds no room on SSD,
// before anybody is refused.
//
// A removal is one commit of the database; a crash leaves the segment whole or gone. It holds the
// segment's writer lock, so that no put, promotion or other removal of the segment runs meanwhile.
//
// Thread-safety: all methods may be called concurrently. Lock order: `evict_mutex_`, a KeyedLock
// guard, then `mutex_`, which is held over no I/O. Methods that remove segments take writer locks:
// the caller has none, except for Charge and MakeRoom, which only try those that are free.
#ifndef QUIRE_KVSERVER_STORE_SEGMENT_KEEPER_H_
#define QUIRE_KVSERVER_STORE_SEGMENT_KEEPER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/counters.h"
#include "common/base/health.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/payload/fault_points.h"
#include "kvserver/store/policy/segment_lives.h"
#include "kvserver/store/segment_hold.h"
#include "kvserver/store/space_accounts.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/store_latencies.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class SegmentKeeper final : public SegmentHold::Owner {
 public:
  /// Parts of the store that it works on; all outlive the keeper.
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
  };
  /// `eviction`: the order of cached segments. `cached_ttl`: how long they stay unused; zero: until
  /// room is needed.
  SegmentKeeper(const Parts& parts, std::unique_ptr<EvictionPolicy> eviction, Duration cached_ttl)
      : parts_(parts),
        cached_ttl_(cached_ttl),
        lives_(std::move(eviction)),
        noted_until_(parts.clock->Now()) {}

  /// The segment was stored when the store was opened, and used last at that time of the wall
  /// clock. Call it in the order of use, before anything else.
  void Restored(const StoredSegment& segment, int64_t last_use_micros) QUIRE_EXCLUDES(mutex_);

  // --- For puts; the caller has the segment's writer lock.

  /// Holds a segment that is about to be put, stored or not.
  SegmentHold HoldForPut(const StoredSegment& segment) QUIRE_EXCLUDES(mutex_);
  /// The put of a segment that was not stored has failed.
  void Withdraw(const SegmentKey& key) QUIRE_EXCLUDES(mutex_);
  /// The segment is stored from now on, as `segment` says.
  void Stored(const StoredSegment& segment) QUIRE_EXCLUDES(mutex_);
  /// Before any tier has other bytes than those that it may have.
  void Rewriting(const SegmentKey& key, uint64_t incarnation) QUIRE_EXCLUDES(mutex_);
  /// An incarnation that was never given.
  uint64_t NextIncarnation() QUIRE_EXCLUDES(mutex_);
  bool IsStored(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  bool IsForsaken(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  /// As SegmentLives; NOT_FOUND for nullopt.
  [[nodiscard]] StatusOr<std::vector<SegmentKey>> ForsakenOfChain(const SegmentKey& tip) const
      QUIRE_EXCLUDES(mutex_);
  /// The segment was put again, which was committed under this incarnation.
  void Renew(const SegmentKey& key, uint64_t incarnation) QUIRE_EXCLUDES(mutex_);
  /// Bytes that the segment is charged with; 0 when it is not stored.
  uint64_t BytesOf(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  /// As SpaceAccounts::Charge, evicting cached segments when there is no room.
  [[nodiscard]] Status Charge(std::string_view tenant, uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Evicts one cached segment; false when there is none.
  bool MakeRoom() QUIRE_EXCLUDES(mutex_);
  /// Evicts a share of the cached segments, for room that takes many to make. Returns the number.
  uint64_t EvictShare() QUIRE_EXCLUDES(mutex_);

  // --- For those who need segments. See PageStore.

  StatusOr<SegmentHold> Hold(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  void ReleaseSegments(std::span<const SegmentKey> keys) override QUIRE_EXCLUDES(mutex_);
  [[nodiscard]] Status Name(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  void Unname(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  std::vector<uint64_t> Forsake(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  void Want(std::span<const SegmentKey> keys) QUIRE_EXCLUDES(mutex_);
  [[nodiscard]] Status RemoveForsaken(const SegmentKey& key, uint64_t incarnation)
      QUIRE_EXCLUDES(mutex_);
  std::vector<uint64_t> Incarnations(std::span<const SegmentKey> keys) const QUIRE_EXCLUDES(mutex_);
  std::vector<uint64_t> WrittenAs(std::span<const SegmentKey> keys) const QUIRE_EXCLUDES(mutex_);
  uint64_t num_replaced() const { return num_replaced_.load(std::memory_order_acquire); }
  void RestoreNames(const SegmentLives::Names& names) QUIRE_EXCLUDES(mutex_);
  uint64_t CountNames(const SegmentKey& key) const QUIRE_EXCLUDES(mutex_);
  /// Removes it now, or as soon as nobody holds it. NOT_FOUND when it is not stored.
  [[nodiscard]] Status Delete(const SegmentKey& key) QUIRE_EXCLUDES(mutex_);
  StatusOr<uint64_t> Sweep() QUIRE_EXCLUDES(mutex_);
  /// Writes down when cached segments were used last, of those that were since the call before,
  /// without a sync (last_uses.h). Sweep does it once a minute.
  [[nodiscard]] Status NoteUses() QUIRE_EXCLUDES(mutex_);

  /// segments, segments_cached, segments_held, segments_replaced, ssd_bytes_cached, deletes,
  /// cached_evictions, cached_expired, segments_detached.
  void VisitMetrics(MetricsVisitor& visit) const QUIRE_EXCLUDES(mutex_);

 private:
  /// Whether it is gone; false when the rules do not let it leave for this reason
  /// (SegmentLives::Leave).
  StatusOr<bool> Remove(const SegmentKey& key, Leaving why) QUIRE_EXCLUDES(mutex_);
  /// The same for who has the writer lock.
  StatusOr<bool> RemoveLocked(const SegmentKey& key, Leaving why) QUIRE_EXCLUDES(mutex_);
  Status Erase(const SegmentKey& key, const std::string& tenant, uint64_t bytes);
  bool EvictOne(std::optional<std::string_view> tenant) QUIRE_EXCLUDES(mutex_);
  uint64_t RemoveAll(std::span<const SegmentKey> keys, Leaving why, Status* first_failure)
      QUIRE_EXCLUDES(mutex_);
  /// Cached segments that were last used before this have expired.
  TimePoint ExpiredBefore() const { return parts_.clock->Now() - cached_ttl_; }

  const Parts parts_;
  const Duration cached_ttl_;
  Mutex evict_mutex_;  ///< One evicts at a time: the others find the room that it made.
  mutable Mutex mutex_;
  SegmentLives lives_ QUIRE_GUARDED_BY(mutex_);
  TimePoint noted_until_ QUIRE_GUARDED_BY(mutex_);  ///< Uses before are written down.
  std::atomic<uint64_t> num_replaced_{0};           ///< Of lives_.
  Counter deletes_, evictions_, expired_, detached_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SEGMENT_KEEPER_H_
