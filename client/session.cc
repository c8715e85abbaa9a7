// SPDX-License-Identifier: Apache-2.0
#include "client/session.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/call.h"
#include "client/recall_codec.h"
#include "client/validate.h"
#include "common/page/layout.h"
#include "common/wire/limits.h"
#include "kernels/api/page_digest.h"
#include "quire/v1/session.pb.h"

namespace quire {
namespace {

constexpr CallSpec kRemoveSequence = {"quire.v1.Session/RemoveSequence", Repeat::kSafe};
constexpr CallSpec kResync = {"quire.v1.Session/Resync", Repeat::kSafe};
constexpr CallSpec kDigests = {"quire.v1.Session/Digests", Repeat::kSafe};
constexpr CallSpec kClose = {"quire.v1.Session/Close", Repeat::kSafe};

constexpr Duration kCloseInDestructor = std::chrono::seconds(1);

/// Puts the lanes of `part` behind those of `result`.
void AppendPart(RecallPart part, RecallResult* result) {
  const size_t shift = result->placements.size();
  for (RecalledLane& lane : part.lanes) {
    lane.first_placement += shift;
    lane.end_placement += shift;
    result->lanes.push_back(std::move(lane));
  }
  result->placements.insert(result->placements.end(), part.placements.begin(),
                            part.placements.end());
  for (const size_t held : part.held) result->held.push_back(held + shift);
  result->checksums.insert(result->checksums.end(), part.checksums.begin(), part.checksums.end());
  result->payload.Append(part.payload);
  result->good_until = std::min(result->good_until, part.good_until);
  result->landed_bytes += part.landed_bytes;
}

/// Calls `visit` with every lane of the map.
template <typename Visit>
void VisitLanes(ResidentMap* map, Visit visit) {
  for (uint32_t sequence = 0; sequence < map->end_sequence(); ++sequence) {
    if (!map->Has(sequence)) continue;
    for (const uint32_t layer : map->layers().layers()) visit(map->lane(sequence, layer));
  }
}

}  // namespace

ClientSession::ClientSession(Client* client, uint64_t id, uint64_t epoch, KvSpec spec,
                             UnitPart part, ResidentMap map,
                             std::vector<std::vector<SessionMember>> sequences)
    : client_(client),
      id_(id),
      spec_(std::move(spec)),
      unit_bytes_(UnitBytes(spec_, part)),
      members_(std::move(sequences)),
      epoch_(epoch),
      map_(std::move(map)) {}

ClientSession::~ClientSession() {
  if (closed_) return;
  // A session that cannot be closed now ends on the server when it has idled too long.
  (void)CloseBefore(client_->options_.clock->Now() + kCloseInDestructor);
}

std::string_view ClientSession::transport_name() const {
  return client_->data_transport_capabilities().name;
}

Status ClientSession::CheckOpen() const {
  return closed_ ? FailedPrecondition("the session is closed; open a new one") : OkStatus();
}

Status ClientSession::CheckRecall(std::span<const LayerWant> wants,
                                  const RecallOptions& options) const {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  QUIRE_RETURN_IF_ERROR(CheckWants(wants, spec_, map_));
  const SessionLanding* landing = options.landing;
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
      if (!map_.lane(want.sequence, want.layer + i).under_way) continue;
      return InvalidArgument("sequence ", want.sequence, ", layer ", want.layer + i,
                             ": a recall of it is under way; take its part or cancel it first");
    }
  }
  return options.timeout < Duration::zero() ? InvalidArgument("a recall's timeout is negative")
                                            : OkStatus();
}

TimePoint ClientSession::DeadlineOf(const RecallOptions& options) const {
  return options.timeout == Duration::zero() ? client_->NewDeadline()
                                             : client_->NewDeadline(options.timeout);
}

StatusOr<std::unique_ptr<PendingRecall>> ClientSession::Start(std::vector<LayerWant> wants,
                                                              const RecallOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckRecall(wants, options));
  auto recall = std::unique_ptr<PendingRecall>(
      new PendingRecall(this, std::move(wants), {}, options, DeadlineOf(options)));
  QUIRE_RETURN_IF_ERROR(recall->Launch());
  return recall;
}

StatusOr<RecallResult> ClientSession::Recall(std::span<const LayerWant> wants,
                                             const RecallOptions& options) {
  RecallOptions whole = options;
  whole.piece_bytes = 0;
  QUIRE_RETURN_IF_ERROR(CheckRecall(wants, whole));
  PendingRecall recall(this, {}, wants, whole, DeadlineOf(whole));
  RecallResult result;
  for (;;) {
    auto part = recall.Next();
    QUIRE_RETURN_IF_ERROR(part.status());
    if (!part->has_value()) return result;
    AppendPart(**std::move(part), &result);
  }
}

Status ClientSession::Renew(RecallPart* part, Duration timeout) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  Clock& clock = *client_->options_.clock;
  const TimePoint asked = clock.Now();
  for (const auto& lease : part->payload.leases()) {
    const Duration left = timeout - (clock.Now() - asked);
    QUIRE_RETURN_IF_ERROR(lease->Renew(std::max(left, Duration::zero())));
  }
  part->CountLeasesFrom(asked);
  return OkStatus();
}

void ClientSession::Applied(const RecallPart& part) {
  for (const RecalledLane& lane : part.lanes) {
    if (map_.Has(lane.sequence)) ApplyLane(part, lane);
  }
}

void ClientSession::Spoiled(const RecallPart& part) {
  for (const RecalledLane& lane : part.lanes) {
    if (map_.Has(lane.sequence)) Forget(lane.sequence, lane.layer);
  }
}

void ClientSession::ApplyLane(const RecallPart& part, const RecalledLane& lane) {
  ResidentMap::Lane& state = map_.lane(lane.sequence, lane.layer);
  if (state.offered == lane.exchange) {
    for (const Placement& placement : part.PlacementsOf(lane)) map_.Place(placement);
    state.applied = lane.exchange;
    state.offered = 0;
  } else if (FitsStill(part, lane)) {
    // A resync came between: the server took the units back, and hears of them with the next one.
    for (const Placement& placement : part.PlacementsOf(lane)) map_.Place(placement);
    state.applied = lane.exchange;
    needs_resync_ = true;
  } else if (state.applied != lane.exchange) {
    Forget(lane.sequence, lane.layer);  // Its units went over what came since.
  }
}

bool ClientSession::FitsStill(const RecallPart& part, const RecalledLane& lane) const {
  const ResidentMap::Lane& state = map_.lane(lane.sequence, lane.layer);
  if (state.under_way || state.offered != 0 || state.applied >= lane.exchange) return false;
  const auto pages = map_.Pages(lane.sequence, lane.layer);
  const auto generations = map_.Generations(lane.sequence, lane.layer);
  const size_t slots = map_.slots_per_head(lane.sequence);
  return std::ranges::all_of(part.PlacementsOf(lane), [&](const Placement& placement) {
    const size_t slot = placement.head * slots + placement.slot;
    return pages[slot] == placement.replaced && generations[slot] + 1 == placement.generation;
  });
}

void ClientSession::Forget(uint32_t sequence, uint32_t layer) {
  map_.Empty(sequence, layer);
  map_.lane(sequence, layer).offered = 0;
  needs_resync_ = true;
}

void ClientSession::Mismatched(const MismatchedUnit& unit) {
  if (mismatched_.size() < wire::kMaxMismatchedUnits) mismatched_.push_back(unit);
}

Status ClientSession::Resync(TimePoint deadline) {
  for (PendingRecall* recall : under_way_) recall->Abandon();
  needs_resync_ = true;
  VisitLanes(&map_, [](ResidentMap::Lane& lane) { lane.offered = 0; });
  Status status;
  // When the reply to a first attempt is lost, its repetition is refused: the epoch has passed.
  for (int attempt = 0; attempt < 2; ++attempt) {
    v1::ResyncRequest request;
    request.set_session_id(id_);
    request.set_epoch(++epoch_);
    MapToProto(map_, &request);
    v1::ResyncReply reply;
    status = client_->Call(kResync, request, {}, deadline, &reply, nullptr);
    if (!absl::IsFailedPrecondition(status)) break;
  }
  QUIRE_RETURN_IF_ERROR(status);
  needs_resync_ = false;
  return OkStatus();
}

bool ClientSession::LandsDirectly() const {
  return client_->data_transport_capabilities().direct_landing;
}

StatusOr<std::unique_ptr<SessionLanding>> ClientSession::MakeLanding(uint32_t num_sequences) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  QUIRE_ASSIGN_OR_RETURN(auto landing,
                         SessionLanding::Create(this, client_->options_.data_transport, map_,
                                                unit_bytes_, num_sequences));
  std::erase_if(landings_, [](const auto& made) { return made.expired(); });
  landings_.push_back(landing->direct_);
  return landing;
}

Status ClientSession::RemoveSequence(uint32_t sequence) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  if (!map_.Has(sequence)) {
    return InvalidArgument("the session has no sequence ", sequence);
  }
  for (const uint32_t layer : map_.layers().layers()) {
    if (!map_.lane(sequence, layer).under_way) continue;
    return InvalidArgument("sequence ", sequence, ", layer ", layer,
                           ": a recall of it is under way; cancel it first");
  }
  v1::RemoveSequenceRequest request;
  request.set_session_id(id_);
  request.set_sequence(sequence);
  v1::RemoveSequenceReply reply;
  const Status status =
      client_->Call(kRemoveSequence, request, {}, client_->NewDeadline(), &reply, nullptr);
  if (!status.ok() && !absl::IsNotFound(status)) {
    // The server may have done it all the same: no resync names a lane that it may not have.
    for (const uint32_t layer : map_.layers().layers()) {
      Forget(sequence, layer);
      map_.lane(sequence, layer).applied = 0;
    }
    return status;
  }
  map_.RemoveSequence(sequence);
  std::erase_if(mismatched_, [&](const auto& unit) { return unit.sequence == sequence; });
  members_[sequence].clear();
  return OkStatus();
}

StatusOr<Payload> ClientSession::Digests(std::span<const uint32_t> layers, uint32_t first_page,
                                         uint32_t end_page, uint32_t sequence, uint32_t member,
                                         DigestKind kind) {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  if (!map_.Has(sequence) || member >= members_[sequence].size()) {
    return InvalidArgument("digests of member ", member, " of sequence ", sequence,
                           ", which the session does not have");
  }
  if (layers.empty() || layers.size() > spec_.num_layers || first_page >= end_page ||
      end_page > wire::kMaxContextPages) {
    return InvalidArgument("digests of ", layers.size(), " layers and pages [", first_page, ", ",
                           end_page, "): ask for 1 to ", spec_.num_layers,
                           " layers and at least one page");
  }
  if (!kernels::HasDigest(spec_, kind)) {
    return InvalidArgument("digest kind ", static_cast<int>(kind),
                           " is unknown, or pairs channels of keys that have ", spec_.key_dim());
  }
  v1::DigestsRequest request;
  request.set_session_id(id_);
  request.mutable_layers()->Add(layers.begin(), layers.end());
  request.set_first_page(first_page);
  request.set_end_page(end_page);
  request.set_sequence(sequence);
  request.set_member(member);
  request.set_kind(static_cast<v1::DigestKind>(kind));
  const uint64_t bytes =
      layers.size() * uint64_t{end_page - first_page} * kernels::PageDigestBytes(spec_, kind);
  const TimePoint deadline = client_->NewDeadline();
  for (uint32_t rechecks = 0;; ++rechecks) {
    v1::DigestsReply reply;
    Payload payload;
    QUIRE_RETURN_IF_ERROR(client_->Call(kDigests, request, {}, deadline, &reply, &payload));
    if (payload.size_bytes() != bytes) {
      return BadReply(kDigests.method, payload.size_bytes(), " bytes of digests instead of ",
                      bytes);
    }
    if (PayloadCrc32c(payload) == reply.payload_crc32c()) return payload;
    // The server verifies digests before it sends them: asking again is all there is to say.
    if (rechecks == kMaxRechecks) {
      return BadReply(kDigests.method, "the digests do not match their checksum");
    }
  }
}

Status ClientSession::Close() {
  QUIRE_RETURN_IF_ERROR(CheckOpen());
  return CloseBefore(client_->NewDeadline());
}

Status ClientSession::CloseBefore(TimePoint deadline) {
  closed_ = true;
  lease_.reset();
  const std::vector<PendingRecall*> under_way = under_way_;
  for (PendingRecall* recall : under_way) recall->Cancel();
  for (const auto& made : landings_) {
    if (const auto landing = made.lock()) landing->End();
  }
  v1::CloseSessionRequest request;
  request.set_session_id(id_);
  v1::CloseSessionReply reply;
  const Status status = client_->Call(kClose, request, {}, deadline, &reply, nullptr);
  return absl::IsNotFound(status) ? OkStatus() : status;
}

}  // namespace quire
