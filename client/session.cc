// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <utility>

#include "client/caller.h"
#include "client/node_session.h"
#include "client/recall/landing_area.h"
#include "client/recall/part_pieces.h"
#include "client/recall/recall_codec.h"
#include "client/recall/session_recall.h"
#include "client/session_state.h"
#include "client/validate.h"
#include "common/wire/limits.h"
#include "kernels/api/page_digest.h"
#include "quire/layout.h"
#include "quire/v1/session.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kRemoveSequence = {"quire.v1.Session/RemoveSequence", Repeat::kSafe};
constexpr CallSpec kDigests = {"quire.v1.Session/Digests", Repeat::kSafe};
constexpr CallSpec kScorePages = {"quire.v1.Session/ScorePages", Repeat::kSafe};

constexpr Duration kCloseInDestructor = std::chrono::seconds(1);

Status CheckScoring(const SessionState& state, const ContentScoring& wanted) {
  if (!state.slots.Has(wanted.sequence)) {
    return InvalidArgument("scores of sequence ", wanted.sequence,
                           ", which the session does not have");
  }
  for (const CandidateRange& range : wanted.candidates) {
    if (range.member < state.members[wanted.sequence].size() &&
        range.first_page <= range.end_page && range.end_page <= wire::kMaxContextPages) {
      continue;
    }
    return InvalidArgument("scores of pages [", range.first_page, ", ", range.end_page,
                           ") of member ", range.member, ", which sequence ", wanted.sequence,
                           " does not have");
  }
  const uint64_t floats = wanted.candidates.size() * wanted.layers.size() *
                          state.spec.num_kv_heads * uint64_t{state.spec.key_dim()};
  if (wanted.queries.size() == floats) return OkStatus();
  return InvalidArgument("queries of ", wanted.queries.size(),
                         " floats; [candidates][layers][n_kv][key_dim] is ", floats);
}

}  // namespace

NodeSession::~NodeSession() {
  if (state_->closed) return;
  // A session that cannot be closed now ends on the server when it has idled too long.
  (void)state_->Close(state_->caller->options().clock->Now() + kCloseInDestructor);
}

std::string_view NodeSession::transport_name() const {
  return state_->caller->data_transport().capabilities().name;
}

std::span<const SessionMember> NodeSession::members(uint32_t sequence) const {
  return state_->members[sequence];
}

uint32_t NodeSession::slots_per_head() const { return state_->slots.slots_per_head(); }

uint32_t NodeSession::slots_per_head(uint32_t sequence) const {
  return state_->slots.slots_per_head(sequence);
}

uint64_t NodeSession::unit_bytes() const { return state_->unit_sizes.raw(); }

uint64_t NodeSession::unit_bytes(UnitCodec codec) const { return state_->unit_sizes.Of(codec); }

std::span<const int32_t> NodeSession::ResidentPages(uint32_t sequence, uint32_t layer) const {
  return state_->slots.Pages(sequence, layer);
}

StatusOr<std::unique_ptr<PendingRecall>> NodeSession::Start(std::vector<LayerWant> wants,
                                                            const RecallOptions& options) {
  QUIRE_RETURN_IF_ERROR(state_->CheckRecall(wants, options));
  auto recall =
      std::make_unique<SessionRecall>(state_.get(), std::move(wants), std::span<const LayerWant>(),
                                      options, state_->DeadlineOf(options));
  QUIRE_RETURN_IF_ERROR(recall->Launch());
  return recall;
}

StatusOr<RecallResult> NodeSession::Recall(std::span<const LayerWant> wants,
                                           const RecallOptions& options) {
  RecallOptions whole = options;
  whole.piece_bytes = 0;
  QUIRE_RETURN_IF_ERROR(state_->CheckRecall(wants, whole));
  SessionRecall recall(state_.get(), {}, wants, whole, state_->DeadlineOf(whole));
  RecallResult result;
  for (;;) {
    auto part = recall.Next();
    QUIRE_RETURN_IF_ERROR(part.status());
    if (!part->has_value()) return result;
    AppendPart(**std::move(part), &result);
  }
}

Status NodeSession::Renew(RecallPart* part, Duration timeout) {
  QUIRE_RETURN_IF_ERROR(state_->CheckOpen());
  return RenewLeases(part, timeout, *state_->caller->options().clock);
}

void NodeSession::Applied(const RecallPart& part) { state_->Apply(part); }

void NodeSession::Invalidate(const RecallPart& part) {
  for (const RecalledLane& lane : part.lanes) {
    if (state_->slots.Has(lane.sequence)) state_->Forget(lane.sequence, lane.layer);
  }
}

void NodeSession::Mismatched(const MismatchedUnit& unit) { state_->Report(unit); }

bool NodeSession::LandsDirectly() const {
  return state_->caller->data_transport().capabilities().direct_landing;
}

StatusOr<std::unique_ptr<SessionLanding>> NodeSession::MakeLanding(uint32_t num_sequences) {
  QUIRE_RETURN_IF_ERROR(state_->CheckOpen());
  QUIRE_ASSIGN_OR_RETURN(
      auto landing, LandingArea::Create(state_.get(), state_->caller->options().data_transport,
                                        state_->slots, state_->unit_sizes.raw(), num_sequences));
  std::erase_if(state_->landings, [](const auto& made) { return made.expired(); });
  state_->landings.push_back(landing->direct_);
  return landing;
}

Status NodeSession::RemoveSequence(uint32_t sequence) {
  QUIRE_RETURN_IF_ERROR(state_->CheckOpen());
  if (!state_->slots.Has(sequence)) {
    return InvalidArgument("the session has no sequence ", sequence);
  }
  for (const uint32_t layer : state_->slots.layers().layers()) {
    if (!state_->slots.lane(sequence, layer).under_way) continue;
    return InvalidArgument("sequence ", sequence, ", layer ", layer,
                           ": a recall of it is under way; cancel it first");
  }
  v1::RemoveSequenceRequest request;
  request.set_session_id(state_->id);
  request.set_sequence(sequence);
  v1::RemoveSequenceReply reply;
  const Status status = state_->caller->Call(kRemoveSequence, request, {},
                                             state_->caller->NewDeadline(), &reply, nullptr);
  if (!status.ok() && !IsNotFound(status)) {
    // The server may have done it all the same: no resync names a lane that it may not have.
    for (const uint32_t layer : state_->slots.layers().layers()) {
      state_->Forget(sequence, layer);
      state_->slots.lane(sequence, layer).applied = 0;
    }
    return status;
  }
  state_->slots.RemoveSequence(sequence);
  std::erase_if(state_->mismatched, [&](const auto& unit) { return unit.sequence == sequence; });
  state_->members[sequence].clear();
  return OkStatus();
}

StatusOr<Payload> NodeSession::Digests(std::span<const uint32_t> layers, uint32_t first_page,
                                       uint32_t end_page, uint32_t sequence, uint32_t member,
                                       DigestKind kind) {
  QUIRE_RETURN_IF_ERROR(state_->CheckOpen());
  if (!state_->slots.Has(sequence) || member >= state_->members[sequence].size()) {
    return InvalidArgument("digests of member ", member, " of sequence ", sequence,
                           ", which the session does not have");
  }
  if (layers.empty() || layers.size() > state_->spec.num_layers || first_page >= end_page ||
      end_page > wire::kMaxContextPages) {
    return InvalidArgument("digests of ", layers.size(), " layers and pages [", first_page, ", ",
                           end_page, "): ask for 1 to ", state_->spec.num_layers,
                           " layers and at least one page");
  }
  if (!kernels::HasDigest(state_->spec, kind)) {
    return InvalidArgument("digest kind ", static_cast<int>(kind),
                           " is unknown, or not one of keys of this spec");
  }
  v1::DigestsRequest request;
  request.set_session_id(state_->id);
  request.mutable_layers()->Add(layers.begin(), layers.end());
  request.set_first_page(first_page);
  request.set_end_page(end_page);
  request.set_sequence(sequence);
  request.set_member(member);
  request.set_kind(static_cast<v1::DigestKind>(kind));
  const uint64_t bytes = layers.size() * uint64_t{end_page - first_page} *
                         kernels::PageDigestBytes(state_->spec, kind);
  const TimePoint deadline = state_->caller->NewDeadline();
  for (uint32_t rechecks = 0;; ++rechecks) {
    v1::DigestsReply reply;
    Payload payload;
    QUIRE_RETURN_IF_ERROR(state_->caller->Call(kDigests, request, {}, deadline, &reply, &payload));
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

StatusOr<std::vector<float>> NodeSession::ScorePages(const ContentScoring& wanted) {
  QUIRE_RETURN_IF_ERROR(state_->CheckOpen());
  QUIRE_RETURN_IF_ERROR(CheckScoring(*state_, wanted));
  v1::ScorePagesRequest request;
  request.set_session_id(state_->id);
  request.set_sequence(wanted.sequence);
  request.mutable_layers()->Add(wanted.layers.begin(), wanted.layers.end());
  uint64_t pages = 0;
  for (const CandidateRange& range : wanted.candidates) {
    v1::CandidateRange& candidates = *request.add_candidates();
    candidates.set_member(range.member);
    candidates.set_first_page(range.first_page);
    candidates.set_end_page(range.end_page);
    pages += range.end_page - range.first_page;
  }
  request.set_queries(wanted.queries.data(), wanted.queries.size() * sizeof(float));
  v1::ScorePagesReply reply;
  QUIRE_RETURN_IF_ERROR(state_->caller->Call(kScorePages, request, {},
                                             state_->caller->NewDeadline(), &reply, nullptr));
  const uint64_t expected = pages * wanted.layers.size();
  if (static_cast<uint64_t>(reply.scores_size()) != expected) {
    return BadReply(kScorePages.method, reply.scores_size(), " scores instead of ", expected);
  }
  return std::vector<float>(reply.scores().begin(), reply.scores().end());
}

Status NodeSession::Close() {
  QUIRE_RETURN_IF_ERROR(state_->CheckOpen());
  return state_->Close(state_->caller->NewDeadline());
}

}  // namespace quire
