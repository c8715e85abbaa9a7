// SPDX-License-Identifier: Apache-2.0
//
// Session: one worker reading contexts for the sequences of a batch. It has a lane for each
// sequence and managed layer, and answers recalls with the missing units, each placed into a named
// slot. ExchangeState orders a lane's recalls, SlotMap has its slots, LaneClaims its users.
// RecallRun answers. This class checks requests, resolves them, and keeps the epoch.
//
// Thread-safety: safe for concurrent use. Calls on different lanes run concurrently. On one lane
// one call works and few wait (RESOURCE_EXHAUSTED with a retry hint for more). Ownership: shared
// with the calls that use it; `shared` outlives it; keeps its contexts alive. Errors: a refused
// call changes nothing. FAILED_PRECONDITION: another epoch, or out of order.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_H_
#define QUIRE_KVSERVER_SESSION_SESSION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/session/content_scores.h"
#include "kvserver/session/lane_claims.h"
#include "kvserver/session/recall.h"
#include "kvserver/session/recall_run.h"
#include "kvserver/session/recall_scratch_pool.h"
#include "kvserver/session/session_landings.h"
#include "kvserver/session/session_sequence.h"
#include "kvserver/session/session_shape.h"
#include "kvserver/session/unit_cut.h"
#include "quire/payload.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Shared state of one server's sessions. Thread-safe.
struct SessionShared {
  RecallParts recall;
  Executor* executor = nullptr;  ///< Runs the background reading of held digests.
  std::shared_ptr<DigestHolderCounters> held_digests = std::make_shared<DigestHolderCounters>();
  RecallScratchPool scratch;
  Counter resyncs;
};

class Session {
 public:
  /// Calls of one session that work at a time. As many may wait for their lanes.
  static constexpr uint32_t kMaxWorking = 32;

  struct Limits {
    uint64_t max_map_bytes = uint64_t{64} << 20;  ///< Limit of the resident maps of all sequences.
  };
  Session(SessionShared* shared, SessionShape shape, const Limits& limits);

  const SessionShape& shape() const { return shape_; }
  uint64_t epoch() const QUIRE_EXCLUDES(mutex_);
  /// Slots per head of each sequence, by number; 0 for an unused number.
  std::vector<uint32_t> SlotsOfSequences() const QUIRE_EXCLUDES(mutex_);

  /// Adds a sequence of at least one member with `slots_per_head` empty slots (0: all of the
  /// session's). Returns its number, the lowest free one. Starts to hold the digests that the shape
  /// asks for. INVALID_ARGUMENT for more slots than the session has; RESOURCE_EXHAUSTED for one
  /// sequence too many, or maps that are too large.
  [[nodiscard]] StatusOr<uint32_t> AddSequence(std::vector<MemberContext> members,
                                               uint32_t slots_per_head = 0) QUIRE_EXCLUDES(mutex_);
  /// Removes a sequence. Waits until `deadline` for calls that use its lanes. NOT_FOUND when there
  /// is none.
  [[nodiscard]] Status RemoveSequence(uint32_t sequence, TimePoint deadline) QUIRE_EXCLUDES(mutex_);

  /// As SessionLandings::Use, for a recall with a reply into a landing.
  [[nodiscard]] Status UseLanding(const std::shared_ptr<CallLanding>& landing) {
    return landings_.Use(landing);
  }
  /// Stops writes to its landings when it is closed, even by calls in flight.
  void EndLandings() { landings_.End(); }

  /// Answers a recall to `sink`, in parts as `reply` allows. INVALID_ARGUMENT for lanes, pages and
  /// queries outside the session; NOT_FOUND once segments of a sequence were damaged and replaced
  /// (SessionSequence::CheckBytes). Lanes of written parts stay placed when a later one fails.
  [[nodiscard]] Status Recall(const RecallArgs& args, const ReplyShape& reply, RecallSink& sink)
      QUIRE_EXCLUDES(mutex_);
  /// Replaces the maps; lanes that are not named become empty. INVALID_ARGUMENT when a map does not
  /// fit its sequence.
  [[nodiscard]] Status Resync(uint64_t epoch, std::span<const LaneMap> lanes, TimePoint deadline)
      QUIRE_EXCLUDES(mutex_);
  /// Digests [layers][pages][n_kv][DigestElements] of pages [first_page, end_page), in place.
  [[nodiscard]] StatusOr<Payload> Digests(uint32_t sequence, uint32_t member,
                                          std::span<const uint32_t> layers, uint32_t first_page,
                                          uint32_t end_page,
                                          DigestKind kind = DigestKind::kMinMax) const
      QUIRE_EXCLUDES(mutex_);
  /// Scores of pages by content, [ranges][layers][pages]. Errors are those of ScoreContent.
  [[nodiscard]] StatusOr<std::vector<float>> ScorePages(const ContentQuery& query) const
      QUIRE_EXCLUDES(mutex_);

 private:
  /// Null when the shape asks for none.
  std::shared_ptr<const DigestHolder> HoldDigests(std::span<const MemberContext> members) const;
  /// Appends the lanes' numbers, sequence * num_managed + index. INVALID_ARGUMENT for an unmanaged
  /// layer, an impossible sequence, or more lanes than the session can have.
  Status AppendNumbers(const AppliedLanes& lanes, std::vector<uint32_t>* numbers) const;
  uint32_t max_lanes() const { return SessionShape::kMaxSequences * shape_.num_managed(); }

  Status CheckEpoch(uint64_t epoch) const QUIRE_REQUIRES(mutex_);
  /// RESOURCE_EXHAUSTED when there is no room for a sequence of `slots` slots.
  Status CheckRoom(uint32_t slots) const QUIRE_REQUIRES(mutex_);
  StatusOr<SessionSequencePtr> Find(uint32_t sequence) const QUIRE_REQUIRES(mutex_);

  /// Resolves the wants. REQUIRES: their lanes are claimed.
  Status FindTargets(const RecallArgs& args, RecallScratch& scratch) const QUIRE_EXCLUDES(mutex_);
  Status CheckWant(const RecallTarget& target, RecallScratch& scratch) const;
  Status CheckUnits(const RecallTarget& target, std::span<const uint32_t> member_pages) const;
  Status CheckQuery(const RecallTarget& target, RecallScratch& scratch) const;
  /// Verifies and repairs mismatched units. Returns errors only of units in wanted lanes.
  Status RecheckMismatched(const RecallArgs& args) const QUIRE_EXCLUDES(mutex_);
  StatusOr<SessionSequencePtr> FindMismatched(const MismatchedUnit& unit) const
      QUIRE_EXCLUDES(mutex_);
  /// Accepts the recall in every lane, or in none.
  Status TakeRecall(const RecallArgs& args, const RecallScratch& scratch);
  /// Claims the lanes of a recall.
  StatusOr<LaneClaims::Claim> TakeLanes(const RecallArgs& args, const ReplyShape& reply,
                                        RecallSink& sink, std::vector<uint32_t> numbers);
  Status CheckMap(const LaneMap& map, const SessionSequence& sequence) const;
  Status CheckHead(std::span<const int32_t> pages, std::span<const uint32_t> member_pages) const;

  SessionShared& shared_;
  const SessionShape shape_;
  const Limits limits_;
  const UnitCut unit_cut_;
  std::vector<int32_t> layer_index_;  ///< Layer -> index in managed_layers, -1 when not managed.
  LaneClaims claims_;
  SessionLandings landings_;

  mutable Mutex mutex_;  ///< Held only for look-ups and changes of the fields below.
  /// Changes only while the whole session is claimed.
  uint64_t epoch_ QUIRE_GUARDED_BY(mutex_) = 1;
  /// By number; null for an unused one. A sequence is removed while its lanes are claimed.
  std::vector<SessionSequencePtr> sequences_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_H_
