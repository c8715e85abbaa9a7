// SPDX-License-Identifier: Apache-2.0
//
// SessionState: state that a ClientSession and its recalls share. It has the session's identity on
// the server, the slots of its lanes, the recalls in flight, and the landings. Ownership: a
// ClientSession has one; the Caller outlives it. Thread-safety: none; it belongs to the thread of
// its session.
#ifndef QUIRE_CLIENT_SESSION_STATE_H_
#define QUIRE_CLIENT_SESSION_STATE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client/caller.h"
#include "client/recall/direct_landing.h"
#include "client/recall/worker_slots.h"
#include "common/page/unit_sizes.h"
#include "quire/clock.h"
#include "quire/kv_spec.h"
#include "quire/recall.h"
#include "quire/session.h"
#include "quire/status.h"
#include "quire/units.h"

namespace quire::internal {

class SessionRecall;

class SessionState {
 public:
  SessionState(Caller* made_by, uint64_t session_id, uint64_t first_epoch, const KvSpec& kv_spec,
               const UnitSizes& sizes, WorkerSlots empty_slots,
               std::vector<std::vector<SessionMember>> sequences)
      : caller(made_by),
        id(session_id),
        spec(kv_spec),
        unit_sizes(sizes),
        members(std::move(sequences)),
        epoch(first_epoch),
        slots(std::move(empty_slots)) {}
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  Status CheckOpen() const;
  /// True when a recall of `wants` may be started: valid, and of lanes without a recall in flight.
  Status CheckRecall(std::span<const LayerWant> wants, const RecallOptions& options) const;
  TimePoint DeadlineOf(const RecallOptions& options) const;
  /// Sends every lane's slots under a higher epoch. Recalls in flight are abandoned first.
  Status Resync(TimePoint deadline);
  /// Takes the slots of a lane to be empty: their content is unknown.
  void Forget(uint32_t sequence, uint32_t layer);
  /// Commits the lanes of a part to the slots, unless they were superseded.
  void Apply(const RecallPart& part);
  /// Keeps a unit to report with the next request.
  void Report(const MismatchedUnit& unit);
  /// Cancels recalls, ends landings and ends the session on the server; OK when it is gone.
  Status Close(TimePoint deadline);

  Caller* const caller;
  const uint64_t id;
  const KvSpec spec;
  const UnitSizes unit_sizes;
  std::vector<std::vector<SessionMember>> members;  ///< By sequence.
  uint64_t epoch;
  uint64_t next_exchange = 1;
  bool needs_resync = false;
  bool closed = false;
  WorkerSlots slots;
  std::vector<MismatchedUnit> mismatched;  ///< Not reported yet; bounded.
  std::vector<SessionRecall*> under_way;
  std::vector<std::weak_ptr<DirectLanding>> landings;
  std::shared_ptr<const void> lease;  ///< Renewed while it is here (lease_keeper.h).

 private:
  void ApplyLane(const RecallPart& part, const RecalledLane& lane);
  /// True when a lane is unchanged since the part's placements, after a resync.
  bool StillFits(const RecallPart& part, const RecalledLane& lane) const;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SESSION_STATE_H_
