// SPDX-License-Identifier: Apache-2.0
#include "client/session_state.h"

#include <algorithm>
#include <utility>

#include "client/caller.h"
#include "client/recall/landing_area.h"
#include "client/recall/recall_codec.h"
#include "client/recall/session_recall.h"
#include "common/wire/limits.h"
#include "quire/v1/session.pb.h"

namespace quire::internal {
namespace {

constexpr CallSpec kResync = {"quire.v1.Session/Resync", Repeat::kSafe};
constexpr CallSpec kClose = {"quire.v1.Session/Close", Repeat::kSafe};

/// Calls `visit` with every lane of the map.
template <typename Visit>
void VisitLanes(WorkerSlots* map, Visit visit) {
  for (uint32_t sequence = 0; sequence < map->end_sequence(); ++sequence) {
    if (!map->Has(sequence)) continue;
    for (const uint32_t layer : map->layers().layers()) visit(map->lane(sequence, layer));
  }
}

}  // namespace

Status SessionState::CheckOpen() const {
  return closed ? FailedPrecondition("the session is closed; open a new one") : OkStatus();
}

Status SessionState::CheckRecall(std::span<const LayerWant> wants,
                                 const RecallOptions& options) const {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  QUIRE_RETURN_IF_ERROR(CheckWants(wants, spec, slots));
  const auto* landing = static_cast<const LandingArea*>(options.landing);
  if (landing != nullptr && landing->session_ != this) {
    return InvalidArgument("the landing is of another session");
  }
  if (options.piece_bytes > 0 && (landing != nullptr || options.verify)) {
    return InvalidArgument(
        "units come in pieces to a caller that verifies them by itself, and not "
        "into a landing");
  }
  for (const LayerWant& want : wants) {
    if (landing != nullptr && want.sequence >= landing->num_sequences()) {
      return InvalidArgument("sequence ", want.sequence, " is not in the landing, which has ",
                             landing->num_sequences());
    }
    for (uint32_t i = 0; i < want.num_layers; ++i) {
      if (!slots.lane(want.sequence, want.layer + i).under_way) continue;
      return InvalidArgument("sequence ", want.sequence, ", layer ", want.layer + i,
                             ": a recall of it is under way; take its part or cancel it first");
    }
  }
  return options.timeout < Duration::zero() ? InvalidArgument("a recall's timeout is negative")
                                            : OkStatus();
}

TimePoint SessionState::DeadlineOf(const RecallOptions& options) const {
  return options.timeout == Duration::zero() ? caller->NewDeadline()
                                             : caller->NewDeadline(options.timeout);
}

void SessionState::Apply(const RecallPart& part) {
  for (const RecalledLane& lane : part.lanes) {
    if (slots.Has(lane.sequence)) ApplyLane(part, lane);
  }
}

void SessionState::ApplyLane(const RecallPart& part, const RecalledLane& lane) {
  WorkerSlots::Lane& state = slots.lane(lane.sequence, lane.layer);
  if (state.offered == lane.exchange) {
    for (const Placement& placement : part.PlacementsOf(lane)) slots.Place(placement);
    state.applied = lane.exchange;
    state.offered = 0;
  } else if (StillFits(part, lane)) {
    // A resync came between: the server took the units back, and hears of them with the next one.
    for (const Placement& placement : part.PlacementsOf(lane)) slots.Place(placement);
    state.applied = lane.exchange;
    needs_resync = true;
  } else if (state.applied != lane.exchange) {
    Forget(lane.sequence, lane.layer);  // Its units went over what came since.
  }
}

bool SessionState::StillFits(const RecallPart& part, const RecalledLane& lane) const {
  const WorkerSlots::Lane& state = slots.lane(lane.sequence, lane.layer);
  if (state.under_way || state.offered != 0 || state.applied >= lane.exchange) return false;
  const auto pages = slots.Pages(lane.sequence, lane.layer);
  const auto generations = slots.Generations(lane.sequence, lane.layer);
  const size_t lane_slots = slots.slots_per_head(lane.sequence);
  return std::ranges::all_of(part.PlacementsOf(lane), [&](const Placement& placement) {
    const size_t slot = placement.head * lane_slots + placement.slot;
    return pages[slot] == placement.replaced && generations[slot] + 1 == placement.generation;
  });
}

void SessionState::Forget(uint32_t sequence, uint32_t layer) {
  slots.Empty(sequence, layer);
  slots.lane(sequence, layer).offered = 0;
  needs_resync = true;
}

void SessionState::Report(const MismatchedUnit& unit) {
  if (mismatched.size() < wire::kMaxMismatchedUnits) mismatched.push_back(unit);
}

Status SessionState::Resync(TimePoint deadline) {
  for (SessionRecall* recall : under_way) recall->Abandon();
  needs_resync = true;
  VisitLanes(&slots, [](WorkerSlots::Lane& lane) { lane.offered = 0; });
  Status status;
  // When the reply to a first attempt is lost, its repetition is refused: the epoch has passed.
  for (int attempt = 0; attempt < 2; ++attempt) {
    v1::ResyncRequest request;
    request.set_session_id(id);
    request.set_epoch(++epoch);
    MapToProto(slots, &request);
    v1::ResyncReply reply;
    status = caller->Call(kResync, request, {}, deadline, &reply, nullptr);
    if (!IsFailedPrecondition(status)) break;
  }
  QUIRE_RETURN_IF_ERROR(status);
  needs_resync = false;
  return OkStatus();
}

Status SessionState::Close(TimePoint deadline) {
  closed = true;
  lease.reset();
  const std::vector<SessionRecall*> cancelled = under_way;  // Each takes itself out.
  for (SessionRecall* recall : cancelled) recall->Cancel();
  for (const auto& made : landings) {
    if (const auto landing = made.lock()) landing->End();
  }
  v1::CloseSessionRequest request;
  request.set_session_id(id);
  v1::CloseSessionReply reply;
  const Status status = caller->Call(kClose, request, {}, deadline, &reply, nullptr);
  return IsNotFound(status) ? OkStatus() : status;
}

}  // namespace quire::internal
