// SPDX-License-Identifier: Apache-2.0
//
// SegmentLives: the rules of a stored segment's life (docs/design/0027):
//
//   named      documents refer to it: it stays
//   held       in use by a context, a session, a pin or a put in flight: it stays meanwhile
//   cached     neither: it leaves when room is needed, in the order of the eviction policy and
//              after the segments that continue it, or when it has been unused for long
//   marked     to be deleted: it leaves once it is neither named nor held. Naming or putting it
//              again cancels that
//   detached   cached, and the segment that it continues is not stored: it is unreachable and
//              leaves
//
// An incarnation distinguishes the bytes stored under a key now from earlier ones. It grows from
// put to put, also over restarts. A put that finds the bytes of a marked segment makes another
// incarnation of the same bytes. `WrittenAs` is the incarnation that the bytes were written with.
//
// Bookkeeping only: no I/O, no locks, no clock. Callers pass the time, which never decreases. Hold,
// Release, Name, Touch and changes of stored segments are O(log n) or better. Memory is bounded by
// the stored segments and those that documents refer to. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_SEGMENT_LIVES_H_
#define QUIRE_KVSERVER_STORE_POLICY_SEGMENT_LIVES_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kvserver/store/policy/eviction/eviction_policy.h"
#include "kvserver/store/policy/eviction/hinted_eviction.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/segment_events.h"

namespace quire::kvserver {

/// A segment that is stored, or about to be.
struct StoredSegment {
  SegmentKey key;
  std::string_view tenant = {};
  SegmentKey parent = kRootKey;
  uint64_t bytes = 0;            ///< Charged payload bytes on SSD.
  uint64_t incarnation = 0;      ///< From NextIncarnation, or as stored.
  double seconds_per_token = 0;  ///< As NewExtent::seconds_per_token.
  bool is_private = false;       ///< Marked for deletion from the start, permanently.
  bool listed = false;           ///< Look-ups find it, once it has an incarnation.
};

/// Reason for a segment's removal.
enum class RemovalReason : uint8_t { kMarked, kEvicted, kExpired, kDetached };

class SegmentLives {
 public:
  /// `eviction` orders cached segments for eviction, `raised` bounds those that leave last.
  explicit SegmentLives(std::unique_ptr<EvictionPolicy> eviction,
                        HintedEviction::Limits raised = {});

  // --- Stored segments.

  /// Adds or replaces a segment. Names and holds of a replaced one stay. Another incarnation
  /// cancels the mark.
  void Add(const StoredSegment& segment, TimePoint now);
  /// Removes a segment, whatever refers to it. Its names wait for the next Add. Ignores an unknown
  /// one.
  void Remove(const SegmentKey& key);
  /// Returns an incarnation greater than all so far, and at least `unix_micros`.
  uint64_t NextIncarnation(int64_t unix_micros);

  // --- Users of segments.

  /// Adds a hold. Returns false when it is not stored or is leaving.
  [[nodiscard]] bool Hold(const SegmentKey& key, TimePoint now);
  /// Releases one hold. Returns true when the segment may leave now because it is marked.
  bool Release(const SegmentKey& key, TimePoint now);
  /// Adds a referring document, which cancels the mark. Returns false as Hold does.
  [[nodiscard]] bool Name(const SegmentKey& key);
  /// Removes a referring document, if there is one, of a segment that is stored or not.
  void Unname(const SegmentKey& key, TimePoint now);
  /// Number of referring documents of each segment, stored or not. Missing segments have none.
  using Names = std::unordered_map<SegmentKey, uint64_t, SegmentKeyHash>;
  void RestoreNames(const Names& names, TimePoint now);
  /// Marks it for deletion. Returns its incarnation; nullopt when it is not stored.
  std::optional<uint64_t> Mark(const SegmentKey& key);
  /// Cancels the mark for deletion.
  void Unmark(const SegmentKey& key);
  /// Announces a rewrite of the bytes under this incarnation. Readers of the new bytes find
  /// WrittenAs changed.
  void Rewrite(const SegmentKey& key, uint64_t incarnation);
  /// Gives a segment that was put again another incarnation, and cancels the mark.
  void Renew(const SegmentKey& key, uint64_t incarnation);

  /// Marked segments of a chain, without private ones. A put that continues the chain cancels
  /// their deletion. nullopt when a segment of the chain is not stored.
  std::optional<std::vector<SegmentKey>> MarkedOfChain(const SegmentKey& tip) const;

  bool IsStored(const SegmentKey& key) const { return entries_.contains(key); }
  bool IsMarked(const SegmentKey& key) const;
  bool IsNamed(const SegmentKey& key) const { return CountNames(key) > 0; }
  /// Number of referring documents; 0 when it is not stored.
  uint64_t CountNames(const SegmentKey& key) const;
  std::optional<uint64_t> IncarnationOf(const SegmentKey& key) const;
  /// Incarnation that its bytes were written with; nullopt when it is not stored. If it changes
  /// while the segment is held, damaged or lost bytes were replaced.
  std::optional<uint64_t> WrittenAs(const SegmentKey& key) const;
  /// Number of times that bytes of a stored segment were replaced.
  uint64_t num_replaced() const { return num_replaced_; }
  /// True when a document refers to a segment that is not stored.
  bool misses_named() const { return !awaited_.empty(); }
  /// Empty when it is not stored, or its record is damaged.
  std::string TenantOf(const SegmentKey& key) const;
  /// False for a stored segment of another tenant. True when its record is damaged.
  bool MayBelongTo(std::string_view tenant, const SegmentKey& key) const;
  /// True for a stored segment that look-ups find.
  bool IsListed(const SegmentKey& key) const;
  /// The tenant's segments that look-ups find, in order of keys behind `after`, at most `limit`.
  /// O(n) in the stored segments. Leaves in_dram unset.
  std::vector<ListedSegment> List(std::string_view tenant, const SegmentKey& after,
                                  size_t limit) const;
  /// Charged bytes; 0 when it is not stored.
  uint64_t BytesOf(const SegmentKey& key) const;

  // --- Removal.

  /// Sets how soon the segment leaves among the cached ones, stored or not.
  void SetStanding(const StandingChange& change);
  uint64_t raised_bytes() const { return eviction_.raised_bytes(); }
  uint64_t not_raised() const { return eviction_.not_raised(); }

  /// Filter for cached segments.
  using Wanted = std::function<bool(const SegmentKey& key, std::string_view tenant)>;
  /// Returns the first cached segment, in eviction order, that `wanted` accepts; nullopt when there
  /// is none.
  std::optional<SegmentKey> Victim(const Wanted& wanted);
  /// At most `limit` cached segments unused since `before`, oldest use first. A continued segment
  /// counts only when its continuations are unused, too.
  std::vector<SegmentKey> UnusedSince(TimePoint before, size_t limit) const;
  struct Use {
    SegmentKey key;
    TimePoint last_use;
    uint64_t incarnation = 0;
  };
  /// Unnamed segments used at `since` or later, without private ones, oldest use first.
  std::vector<Use> UsedSince(TimePoint since) const;
  /// At most `limit` marked, or detached, segments that may leave.
  std::vector<SegmentKey> Marked(size_t limit) const { return FreeOnes(marked_, limit); }
  std::vector<SegmentKey> Detached(size_t limit) const { return FreeOnes(detached_, limit); }
  /// Begins to remove the segment if the rules allow it for this reason; returns false otherwise.
  /// It can be neither held nor named until Remove or CancelRemoval. `unused_since` is the limit of
  /// an expiry.
  [[nodiscard]] bool BeginRemoval(const SegmentKey& key, RemovalReason why,
                                  TimePoint unused_since = TimePoint::max());
  /// Cancels a removal that failed.
  void CancelRemoval(const SegmentKey& key);

  size_t size() const { return entries_.size(); }
  size_t num_cached() const { return by_use_.size(); }
  uint64_t cached_bytes() const { return cached_bytes_; }
  size_t num_held() const { return num_held_; }

 private:
  using Order = std::list<SegmentKey>;
  struct Entry {
    std::string tenant;
    SegmentKey parent;
    uint64_t bytes = 0;
    uint64_t incarnation = 0;
    uint64_t written_as = 0;
    uint64_t names = 0;
    uint64_t holds = 0;
    double seconds_per_token = 0;
    bool is_private = false;
    bool listed = false;
    bool marked = false;
    bool leaving = false;
    bool evicted = false;  ///< Is leaving to make room.
    TimePoint last_use;
    Order::iterator place = {};  ///< Position in by_use_; for unnamed segments.
  };
  using Entries = std::unordered_map<SegmentKey, Entry, SegmentKeyHash>;
  using Keys = std::unordered_set<SegmentKey, SegmentKeyHash>;

  Entry* Find(const SegmentKey& key);
  const Entry* Find(const SegmentKey& key) const;
  /// True when it is neither named nor held.
  static bool IsFree(const Entry& entry) { return entry.names == 0 && entry.holds == 0; }
  bool IsContinued(const SegmentKey& key) const { return children_.contains(key); }
  /// True when a continuation is needed, or was used at `since` or later.
  bool IsContinuedSince(const SegmentKey& key, TimePoint since) const;
  bool IsDetached(const Entry& entry) const {
    return entry.parent != kRootKey && !entries_.contains(entry.parent);
  }
  std::vector<SegmentKey> FreeOnes(const Keys& keys, size_t limit) const;
  void Touch(const SegmentKey& key, Entry& entry, TimePoint now);
  /// Adds it to the unnamed segments, or removes it.
  void EnterCache(const SegmentKey& key, Entry& entry, TimePoint now);
  void LeaveCache(const SegmentKey& key, Entry& entry);
  static NewExtent ExtentOf(const SegmentKey& key, const Entry& entry);

  HintedEviction eviction_;  ///< Unnamed segments, as layer 0.
  Entries entries_;
  Names awaited_;  ///< Names of segments that are not stored.
  Order by_use_;   ///< Unnamed segments, least recently used first.
  std::unordered_map<SegmentKey, Keys, SegmentKeyHash> children_;  ///< By parent, stored or not.
  Keys marked_;
  Keys detached_;
  uint64_t cached_bytes_ = 0;
  size_t num_held_ = 0;
  uint64_t last_incarnation_ = 0;
  uint64_t num_replaced_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_SEGMENT_LIVES_H_
