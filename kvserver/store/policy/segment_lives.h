// SPDX-License-Identifier: Apache-2.0
//
// SegmentLives: which stored segments stay, and which leave when. The rules of a segment's life in
// one place (docs/design/0027):
//
//   named      documents refer to it: it stays
//   held       a context, a session, a put under way or a pin uses it: it stays meanwhile
//   cached     neither: it leaves when room is needed, in the order of the eviction policy and
//   after
//              the segments that continue it, or when nobody has used it for long
//   forsaken   a delete wants it gone: it leaves as soon as nobody names or holds it. Naming or
//              putting it again takes that back
//   detached   cached, and the segment that it continues is not stored: nobody can find it, and it
//              leaves
//
// An incarnation tells what is stored under a key now from what was stored there before. It grows
// from one put to the next, also over restarts. A put that finds the bytes of a segment that a
// delete wants gone makes another incarnation of the same bytes; `WrittenAs` tells which one the
// bytes came with.
//
// Bookkeeping only: no I/O, no locks, no clock: calls say what time it is, which does not go back.
// Hold, Release, Name, Touch and the changes of what is stored are O(log n) or better. Memory is
// bounded by the stored segments. Thread-safety: none.
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

#include "kvserver/store/policy/eviction_policy.h"
#include "quire/clock.h"
#include "quire/key.h"

namespace quire::kvserver {

/// A segment that is stored, or about to be.
struct StoredSegment {
  SegmentKey key;
  std::string_view tenant = {};
  SegmentKey parent = kRootKey;
  uint64_t bytes = 0;            ///< Payload on SSD that it is charged with.
  uint64_t incarnation = 0;      ///< From NextIncarnation, or as it was stored.
  double seconds_per_token = 0;  ///< As NewExtent::seconds_per_token.
  bool is_private = false;       ///< Forsaken from the beginning, and for good.
};

/// Why a segment leaves.
enum class Leaving : uint8_t { kForsaken, kEvicted, kExpired, kDetached };

class SegmentLives {
 public:
  /// `eviction`: the order in which cached segments make room.
  explicit SegmentLives(std::unique_ptr<EvictionPolicy> eviction);

  // --- What is stored.

  /// Adds a segment. One that is there is replaced: names and holds stay, and under another
  /// incarnation nobody wants it gone any more.
  void Add(const StoredSegment& segment, TimePoint now);
  /// It is not stored any more, whatever refers to it. Nothing happens when it is not there.
  void Remove(const SegmentKey& key);
  /// An incarnation greater than all so far, and not less than `unix_micros`.
  uint64_t NextIncarnation(int64_t unix_micros);

  // --- Who needs it.

  /// False when it is not stored or is leaving.
  [[nodiscard]] bool Hold(const SegmentKey& key, TimePoint now);
  /// Takes one hold back. True when it may leave now because it is forsaken.
  bool Release(const SegmentKey& key, TimePoint now);
  /// One more document refers to it, which takes a Forsake back. False as for Hold.
  [[nodiscard]] bool Name(const SegmentKey& key);
  /// One document less refers to it; nothing happens when none does.
  void Unname(const SegmentKey& key, TimePoint now);
  /// How many documents refer to each segment; to all others none does.
  using Names = std::unordered_map<SegmentKey, uint64_t, SegmentKeyHash>;
  void RestoreNames(const Names& names, TimePoint now);
  /// A delete wants it gone. Its incarnation, or nullopt when it is not stored.
  std::optional<uint64_t> Forsake(const SegmentKey& key);
  /// Takes a Forsake back.
  void Want(const SegmentKey& key);
  /// Other bytes are about to be written under this incarnation, where there are some. Readers who
  /// find the new ones find that WrittenAs has changed.
  void Rewrite(const SegmentKey& key, uint64_t incarnation);
  /// It was put again: from now on it has another incarnation, and nobody wants it gone.
  void Renew(const SegmentKey& key, uint64_t incarnation);

  /// The segments of a chain that a delete wants gone, without private ones. A put that continues
  /// the chain takes the delete back. nullopt when a segment of the chain is not stored.
  std::optional<std::vector<SegmentKey>> ForsakenOfChain(const SegmentKey& tip) const;

  bool IsStored(const SegmentKey& key) const { return entries_.contains(key); }
  bool IsForsaken(const SegmentKey& key) const;
  bool IsNamed(const SegmentKey& key) const { return CountNames(key) > 0; }
  /// Documents that refer to it; 0 when it is not stored.
  uint64_t CountNames(const SegmentKey& key) const;
  std::optional<uint64_t> IncarnationOf(const SegmentKey& key) const;
  /// The incarnation that its bytes were written as; nullopt when it is not stored. For a segment
  /// that is held all the time, another value means that damaged or lost bytes were replaced.
  std::optional<uint64_t> WrittenAs(const SegmentKey& key) const;
  /// Times that the bytes of a stored segment were replaced.
  uint64_t num_replaced() const { return num_replaced_; }
  /// Empty when it is not stored, or its record is damaged.
  std::string TenantOf(const SegmentKey& key) const;
  /// Bytes that the segment is charged with; 0 when it is not stored.
  uint64_t BytesOf(const SegmentKey& key) const;

  // --- Who leaves.

  /// Whether a cached segment may be chosen.
  using Wanted = std::function<bool(const SegmentKey& key, std::string_view tenant)>;
  /// The cached segment that makes room first among those that `wanted` agrees to; nullopt when
  /// there is none.
  std::optional<SegmentKey> Victim(const Wanted& wanted);
  /// At most `limit` cached segments that nobody has used since `before`, longest ago first. One
  /// that others continue is among them only when these are unused, too.
  std::vector<SegmentKey> UnusedSince(TimePoint before, size_t limit) const;
  struct Use {
    SegmentKey key;
    TimePoint last_use;
    uint64_t incarnation = 0;
  };
  /// Segments without names that were used at `since` or later, but for private ones, longest ago
  /// first.
  std::vector<Use> UsedSince(TimePoint since) const;
  /// At most `limit` segments that are forsaken, and may leave; and those that are detached.
  std::vector<SegmentKey> Forsaken(size_t limit) const { return FreeOnes(forsaken_, limit); }
  std::vector<SegmentKey> Detached(size_t limit) const { return FreeOnes(detached_, limit); }
  /// Begins to remove the segment when the rules let it leave for this reason; false otherwise.
  /// Until Remove or Stay nobody can hold or name it. `unused_since`: what makes it expired.
  [[nodiscard]] bool Leave(const SegmentKey& key, Leaving why,
                           TimePoint unused_since = TimePoint::max());
  /// It could not be removed.
  void Stay(const SegmentKey& key);

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
    bool forsaken = false;
    bool leaving = false;
    bool evicted = false;  ///< It leaves to make room.
    TimePoint last_use;
    Order::iterator place = {};  ///< In by_use_; of one without names.
  };
  using Entries = std::unordered_map<SegmentKey, Entry, SegmentKeyHash>;
  using Keys = std::unordered_set<SegmentKey, SegmentKeyHash>;

  Entry* Find(const SegmentKey& key);
  const Entry* Find(const SegmentKey& key) const;
  /// Whether nobody needs it.
  static bool IsFree(const Entry& entry) { return entry.names == 0 && entry.holds == 0; }
  bool IsContinued(const SegmentKey& key) const { return children_.contains(key); }
  /// Whether a segment that continues it is needed, or was used at `since` or later.
  bool IsContinuedSince(const SegmentKey& key, TimePoint since) const;
  bool IsDetached(const Entry& entry) const {
    return entry.parent != kRootKey && !entries_.contains(entry.parent);
  }
  std::vector<SegmentKey> FreeOnes(const Keys& keys, size_t limit) const;
  void Touch(const SegmentKey& key, Entry& entry, TimePoint now);
  /// Begins or ends to count as one without names.
  void EnterCache(const SegmentKey& key, Entry& entry, TimePoint now);
  void LeaveCache(const SegmentKey& key, Entry& entry);

  const std::unique_ptr<EvictionPolicy> eviction_;  ///< Of segments without names, as layer 0.
  Entries entries_;
  Order by_use_;  ///< Segments without names, used longest ago first.
  std::unordered_map<SegmentKey, Keys, SegmentKeyHash> children_;  ///< By parent, stored or not.
  Keys forsaken_;
  Keys detached_;
  uint64_t cached_bytes_ = 0;
  size_t num_held_ = 0;
  uint64_t last_incarnation_ = 0;
  uint64_t num_replaced_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_SEGMENT_LIVES_H_
