// SPDX-License-Identifier: Apache-2.0
#include "client/spanning/spanning_recall.h"

#include <algorithm>
#include <utility>

namespace quire::internal {
namespace {

/// `part`, of one lane, under the session's number of its sequence.
RecallPart Renumbered(RecallPart part, uint32_t sequence) {
  for (RecalledLane& lane : part.lanes) lane.sequence = sequence;
  for (Placement& placement : part.placements) placement.sequence = sequence;
  return part;
}

}  // namespace

SpanningRecall::SpanningRecall(SpanningSession* session, std::span<const LayerWant> wants)
    : session_(*session) {
  for (const LayerWant& want : wants) {
    if (session_.sequences_[want.sequence].places.spans()) {
      AddSpanning(want);
    } else {
      AddWhole(want);
    }
  }
  for (const Lane& lane : lanes_) {
    session_.slots_.lane(lane.planned.sequence, lane.planned.layer).under_way = true;
  }
}

size_t SpanningRecall::StreamOf(const std::shared_ptr<Part>& part) {
  const auto stream = std::ranges::find(streams_, part, &Stream::part);
  const auto index = static_cast<size_t>(stream - streams_.begin());
  if (stream == streams_.end()) streams_.push_back({part, {}, nullptr, {}});
  return index;
}

void SpanningRecall::AddWhole(const LayerWant& want) {
  const SpanningSession::Share& share = session_.sequences_[want.sequence].shares.front();
  const size_t stream = StreamOf(share.part);
  streams_[stream].wants.push_back(want);
  streams_[stream].wants.back().sequence = share.sequence;
  for (uint32_t i = 0; i < want.num_layers; ++i) {
    lanes_.push_back({.planned = {.sequence = want.sequence, .layer = want.layer + i},
                      .spans = false,
                      .streams = {stream}});
  }
}

void SpanningRecall::AddSpanning(const LayerWant& want) {
  const SpanningSession::Sequence& sequence = session_.sequences_[want.sequence];
  for (uint32_t layer = want.layer; layer < want.layer + want.num_layers; ++layer) {
    Lane lane{.planned = {.sequence = want.sequence,
                          .layer = layer,
                          .exchange = session_.next_exchange_++,
                          .held = want.held},
              .spans = true,
              .streams = {}};
    SpanningSession::SpanningLane& state = session_.lane(want.sequence, layer);
    // Placements that were not applied by now are taken back, as a server does.
    state.map.Rollback();
    session_.slots_.lane(want.sequence, layer).offered = 0;
    PlanLane(sequence.places, want.pages, &state.map, &lane.planned);
    state.planned = lane.planned.exchange;
    for (size_t fragment = 0; fragment < sequence.shares.size(); ++fragment) {
      PageLists& pages = lane.planned.wanted[fragment];
      lane.streams.push_back(kNothing);
      if (pages.num_heads() == 0) continue;
      const SpanningSession::Share& share = sequence.shares[fragment];
      lane.streams.back() = StreamOf(share.part);
      streams_[lane.streams.back()].wants.push_back(
          {.sequence = share.sequence, .layer = layer, .pages = std::move(pages)});
    }
    lanes_.push_back(std::move(lane));
  }
}

Status SpanningRecall::Launch(const RecallOptions& options) {
  RecallOptions whole = options;
  whole.piece_bytes = 0;
  for (Stream& stream : streams_) {
    auto recall = stream.part->session->Start(std::move(stream.wants), whole);
    if (!recall.ok()) {
      session_.nodes_.NoteEnd(stream.part->address, recall.status());
      End(recall.status());
      return end_;
    }
    stream.recall = *std::move(recall);
    deadline_ = std::min(deadline_, stream.recall->deadline());
  }
  return OkStatus();
}

StatusOr<std::optional<RecallPart>> SpanningRecall::Next(TimePoint deadline) {
  if (!ended_ && arrived_ == lanes_.size()) End(OkStatus());
  if (ended_) {
    QUIRE_RETURN_IF_ERROR(end_);
    return std::nullopt;
  }
  Lane& lane = lanes_[arrived_];
  for (const size_t index : lane.streams) {
    if (index == kNothing) continue;
    Stream& stream = streams_[index];
    const Status came = Await(stream, deadline);
    if (came.ok()) continue;
    if (IsPassing(stream, came)) return came;
    session_.nodes_.NoteEnd(stream.part->address, came);
    End(Annotate(came, "node at ", stream.part->address));
    return end_;
  }
  auto part = Take(lane);
  if (!part.ok()) {
    End(part.status());
    return end_;
  }
  ++arrived_;
  WorkerSlots::Lane& state = session_.slots_.lane(lane.planned.sequence, lane.planned.layer);
  state.under_way = false;
  if (lane.spans) state.offered = part->lanes.front().exchange;
  return std::optional<RecallPart>(*std::move(part));
}

Status SpanningRecall::Await(Stream& stream, TimePoint deadline) {
  while (stream.lanes.empty()) {
    QUIRE_ASSIGN_OR_RETURN(std::optional<RecallPart> part, stream.recall->Next(deadline));
    if (!part) return DataLoss("its reply ends before all of its lanes");
    if (part->lanes.size() == 1) {
      stream.lanes.push_back(*std::move(part));
      continue;
    }
    for (const RecalledLane& lane : part->lanes) {
      stream.lanes.push_back(LanePart(*stream.part->session, *part, lane));
    }
  }
  return OkStatus();
}

bool SpanningRecall::IsPassing(const Stream& stream, const Status& status) const {
  return IsDeadlineExceeded(status) && session_.clock_.Now() < stream.recall->deadline();
}

StatusOr<RecallPart> SpanningRecall::TakePiece(Stream& stream, uint32_t sequence, uint32_t layer) {
  RecallPart piece = std::move(stream.lanes.front());
  stream.lanes.pop_front();
  const RecalledLane& lane = piece.lanes.front();
  if (lane.sequence == sequence && lane.layer == layer) return piece;
  return DataLoss("node at ", stream.part->address, " sent lanes in another order than asked");
}

StatusOr<RecallPart> SpanningRecall::Take(Lane& lane) {
  const SpanningSession::Sequence& sequence = session_.sequences_[lane.planned.sequence];
  std::vector<RecallPart> pieces(lane.streams.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (lane.streams[i] == kNothing) continue;
    QUIRE_ASSIGN_OR_RETURN(pieces[i], TakePiece(streams_[lane.streams[i]],
                                                sequence.shares[i].sequence, lane.planned.layer));
  }
  if (!lane.spans) return Renumbered(std::move(pieces.front()), lane.planned.sequence);
  return MergeLane(sequence.places, session_.sizes_, std::move(lane.planned), pieces);
}

void SpanningRecall::Cancel() {
  if (!ended_) End(Status(StatusCode::kCancelled, "the recall was cancelled"));
}

void SpanningRecall::End(Status status) {
  ended_ = true;
  end_ = std::move(status);
  streams_.clear();
  for (size_t i = arrived_; i < lanes_.size(); ++i) {
    const PlannedLane& lane = lanes_[i].planned;
    session_.slots_.lane(lane.sequence, lane.layer).under_way = false;
  }
}

}  // namespace quire::internal
