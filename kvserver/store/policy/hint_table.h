// SPDX-License-Identifier: Apache-2.0
//
// HintTable: conversations, the segments that each uses, and the standing of every segment. The
// last hints of a conversation hold for all its segments. A segment has the highest standing among
// its conversations. One that all of them have released is kReleased until it is used again.
//
// A conversation is forgotten when it is released, or has had no hint for kForgetAfter and keeps
// nothing. When a tenant has too many uses, its conversations with the oldest hints are forgotten.
// Forgotten segments are kNormal. Hints without a conversation make one of each segment.
//
// Bookkeeping only: no I/O, no locks, no clock. Callers pass the time, which never decreases.
// Memory is bounded by the uses of each tenant. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_POLICY_HINT_TABLE_H_
#define QUIRE_KVSERVER_STORE_POLICY_HINT_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvserver/store/policy/standing.h"
#include "quire/clock.h"
#include "quire/hints.h"
#include "quire/key.h"

namespace quire::kvserver {

class HintTable {
 public:
  using Changes = std::vector<StandingChange>;
  /// Segments of one conversation; the least recently used ones are forgotten.
  static constexpr size_t kMostSegments = 16384;
  static constexpr Duration kForgetAfter = std::chrono::hours(1);

  /// `most_uses`: pairs of a conversation and a segment, of each tenant.
  explicit HintTable(size_t most_uses = size_t{1} << 18) : most_uses_(most_uses) {}
  HintTable(const HintTable&) = delete;
  HintTable& operator=(const HintTable&) = delete;

  /// Notes a use of `segments`, in the order of their chain.
  Changes Note(std::string_view tenant, const Hints& hints, std::span<const SegmentKey> segments,
               TimePoint now);
  /// Ends a conversation; nullopt when there is none. Ends of chains come first among the changes,
  /// which are about all its segments that no other conversation uses.
  std::optional<Changes> Release(std::string_view tenant, std::string_view conversation);
  /// Ends keeps that are over, and forgets old conversations. Call it about once a second.
  Changes Expire(TimePoint now);

  /// Segments of a conversation, most recently used first, so that each chain's end comes before
  /// its beginning. Empty when there is none.
  std::vector<SegmentKey> SegmentsOf(std::string_view tenant, std::string_view conversation) const;

  size_t num_conversations() const { return num_conversations_; }
  /// Segments that have hints.
  size_t num_segments() const { return segments_.size(); }

 private:
  using Uses = std::list<SegmentKey>;  ///< Most recent first.
  struct Tenant;
  struct Conversation {
    Tenant* tenant = nullptr;
    std::string id;
    bool anonymous = false;
    Standing priority = Standing::kNormal;
    Standing standing = Standing::kNormal;  ///< Standing of its segments, as counted.
    TimePoint last_hint = {};
    TimePoint keep_until = {};
    TimePoint due = {};  ///< Its place in `due_`.
    Uses uses = {};
    std::unordered_map<SegmentKey, Uses::iterator, SegmentKeyHash> places = {};
    std::list<Conversation*>::iterator turn = {};  ///< Place in the tenant's order.
  };
  struct Tenant {
    std::map<std::string, Conversation, std::less<>> conversations = {};
    std::list<Conversation*> by_hint = {};  ///< Least recent hint first.
    size_t uses = 0;
  };
  /// Conversations of each standing that use a segment.
  using Counts = std::array<uint32_t, kNumStandings>;

  void NoteOne(Tenant& tenant, std::string id, bool anonymous, const Hints& hints,
               std::span<const SegmentKey> segments, TimePoint now, Changes* changes);
  Conversation& Find(Tenant& tenant, std::string id, bool anonymous);
  /// Sets the standing of a conversation for all its segments.
  void SetStanding(Conversation& conversation, Standing standing, Changes* changes);
  void SetDue(Conversation& conversation);
  /// Changes the counts of a segment and notes what becomes of it. `otherwise`: its standing
  /// without conversations.
  void Count(const SegmentKey& segment, std::optional<Standing> before,
             std::optional<Standing> after, Standing otherwise, Changes* changes);
  void DropUse(Conversation& conversation, Uses::iterator use, Standing otherwise,
               Changes* changes);
  void Forget(Conversation& conversation, Standing otherwise, Changes* changes);

  const size_t most_uses_;
  std::map<std::string, Tenant, std::less<>> tenants_;
  std::unordered_map<SegmentKey, Counts, SegmentKeyHash> segments_;
  std::set<std::pair<TimePoint, Conversation*>> due_;  ///< When each is to be looked at again.
  size_t num_conversations_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_HINT_TABLE_H_
