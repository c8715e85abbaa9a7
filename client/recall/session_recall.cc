// SPDX-License-Identifier: Apache-2.0
#include "client/recall/session_recall.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/caller.h"
#include "client/recall/landing_area.h"
#include "client/recall/recall_codec.h"
#include "client/session_state.h"
#include "client/validate.h"
#include "common/base/retry_hint.h"
#include "common/wire/message.h"
#include "quire/v1/session.pb.h"

namespace quire::internal {
namespace {

constexpr std::string_view kRecall = "quire.v1.Session/Recall";

}  // namespace

SessionRecall::SessionRecall(SessionState* session, std::vector<LayerWant> owned,
                             std::span<const LayerWant> wants, const RecallOptions& options,
                             TimePoint deadline)
    : session_(session),
      owned_(std::move(owned)),
      lanes_(LanesOf(owned_.empty() ? wants : owned_)),
      options_(options),
      area_(static_cast<LandingArea*>(options.landing)),
      deadline_(deadline),
      jitter_(session->caller->NewJitterSeed()),
      attempts_(session->caller->options().retry, jitter_, session->caller->server(), deadline),
      not_before_(TimePoint::min()) {
  for (const WantedLane& lane : lanes_) {
    session_->slots.lane(lane.want->sequence, lane.layer).under_way = true;
  }
  session_->under_way.push_back(this);
}

SessionRecall::~SessionRecall() { Cancel(); }

Landing* SessionRecall::ChooseLanding() const {
  if (area_ == nullptr) return nullptr;
  DirectLanding& direct = *area_->direct_;
  return direct.MayStillLand(MissingLanes()) ? nullptr : direct.get();
}

DirectLanding::Lanes SessionRecall::MissingLanes() const {
  DirectLanding::Lanes indices;
  for (const WantedLane& lane : missing()) {
    indices.push_back(area_->LaneIndex(lane.want->sequence, lane.layer));
  }
  return indices;
}

Status SessionRecall::Launch() {
  span_ = ChildOfCurrent(kRecall, SpanKind::kClient);
  span_.Count("quire.lanes", lanes_.size());
  if (!lanes_.empty()) span_.Count("quire.layer", lanes_.front().layer);
  if (const Status sent = Send(); !sent.ok()) OnFailure(sent);
  return end_;
}

StatusOr<std::optional<RecallPart>> SessionRecall::Next(TimePoint deadline) {
  while (!ended_) {
    if (missing().empty() && call_ == nullptr) {
      End(OkStatus());
      break;
    }
    QUIRE_RETURN_IF_ERROR(WaitForAttempt(deadline));
    Status status = session_->needs_resync && IsPoll(deadline) ? OkStatus() : Send();
    if (status.ok() && call_ == nullptr) {
      return DeadlineExceeded(kRecall, ": the session has to be synchronised first, which waits");
    }
    if (status.ok()) {
      auto part = Receive(deadline);
      if (part.ok()) return part;
      status = part.status();
    }
    const TimePoint now = session_->caller->options().clock->Now();
    if (IsDeadlineExceeded(status) && now >= deadline && now < deadline_) return status;
    OnFailure(status);
  }
  QUIRE_RETURN_IF_ERROR(end_);
  return std::nullopt;
}

bool SessionRecall::IsPoll(TimePoint deadline) const {
  const TimePoint now = session_->caller->options().clock->Now();
  return now >= deadline && now < deadline_;
}

Status SessionRecall::WaitForAttempt(TimePoint deadline) {
  Clock& clock = *session_->caller->options().clock;
  if (call_ != nullptr || clock.Now() >= not_before_) return OkStatus();
  clock.Sleep(std::min(not_before_, deadline) - clock.Now());
  if (clock.Now() >= not_before_) return OkStatus();
  return DeadlineExceeded(kRecall,
                          ": no part until the deadline, before which it was not to be "
                          "asked for again");
}

Status SessionRecall::Send() {
  if (session_->needs_resync) {
    // A resync has made its own attempts, and one that is refused is not cured by another.
    if (const Status synced = session_->Resync(deadline_); !synced.ok()) {
      End(synced);
      return synced;
    }
  }
  if (call_ != nullptr) return OkStatus();
  v1::RecallRequest request;
  request.set_session_id(session_->id);
  request.set_epoch(session_->epoch);
  exchange_ = session_->next_exchange++;
  request.set_exchange(exchange_);
  landing_ = ChooseLanding();
  request.set_place(landing_ != nullptr);
  LanesToProto(missing(), session_->slots, &request);
  told_ = std::exchange(session_->mismatched, {});
  MismatchedToProto(told_, &request);
  mismatched_ = false;
  // Drops the placements that were offered and not applied. The server takes them back.
  for (const WantedLane& lane : missing()) {
    session_->slots.lane(lane.want->sequence, lane.layer).offered = 0;
  }
  call_over_ = false;
  CallMessage message;
  QUIRE_RETURN_IF_ERROR(
      Annotate(wire::Encode(request, &message.control), "the request to ", kRecall));
  const Client::Options& client = session_->caller->options();
  asked_at_ = client.clock->Now();
  const Duration left = deadline_ - asked_at_;
  if (left <= Duration::zero()) return DeadlineExceeded(kRecall, ": no time is left");
  QUIRE_ASSIGN_OR_RETURN(call_, client.data_transport->Start(kRecall, std::move(message),
                                                             {.tenant = client.tenant,
                                                              .timeout = left,
                                                              .priority = options_.priority,
                                                              .landing = landing_,
                                                              .piece_bytes = options_.piece_bytes,
                                                              .trace = span_.context()}));
  return OkStatus();
}

StatusOr<std::optional<RecallPart>> SessionRecall::Receive(TimePoint deadline) {
  auto body = call_->Next(std::min(deadline, deadline_));
  // After DEADLINE_EXCEEDED it may go on, and bytes may land.
  call_over_ = !IsDeadlineExceeded(body.status()) && !(body.ok() && body->has_value());
  QUIRE_RETURN_IF_ERROR(body.status());
  session_->caller->server().Note(OkStatus(), TimePoint());
  if (!body->has_value() && missing().empty()) {
    End(OkStatus());
    return std::nullopt;
  }
  if (body->has_value()) told_.clear();  // The server has done what there was to do.
  auto part = body->has_value() ? Take(**std::move(body)) : StatusOr<RecallPart>(EarlyEnd());
  if (part.ok()) {
    part->valid_until = part->payload.LentUntil(asked_at_);
    return std::optional<RecallPart>(*std::move(part));
  }
  session_->needs_resync = true;
  // Nothing of the reply is readable.
  if (IsInternal(part.status())) return part.status();
  return BadReply(kRecall, Message(part.status()));
}

Status SessionRecall::EarlyEnd() const {
  return DataLoss("it ends after ", arrived_, " of ", lanes_.size(), " lanes");
}

StatusOr<RecallPart> SessionRecall::Take(CallMessage body) {
  if (in_pieces_ > 0) return TakePiece(std::move(body));
  v1::RecallReply reply;
  QUIRE_RETURN_IF_ERROR(DecodeReply(kRecall, body.control, &reply));
  std::vector<MismatchedUnit> mismatched;
  StatusOr<RecallPart> taken = PartFromProto(reply, std::move(body),
                                             {.epoch = session_->epoch,
                                              .exchange = exchange_,
                                              .lanes = missing(),
                                              .sizes = session_->unit_sizes,
                                              .map = &session_->slots,
                                              .landing = area_,
                                              .mismatched = &mismatched,
                                              .verify = options_.verify});
  for (const MismatchedUnit& unit : mismatched) session_->Report(unit);
  mismatched_ = !mismatched.empty();
  QUIRE_ASSIGN_OR_RETURN(RecallPart part, std::move(taken));
  bytes_to_come_ = part.bytes_to_come;
  if (bytes_to_come_ > 0) {
    in_pieces_ = part.lanes.size();
  } else {
    Arrive(part.lanes.size());
  }
  return part;
}

StatusOr<RecallPart> SessionRecall::TakePiece(CallMessage body) {
  const uint64_t bytes = body.payload.size_bytes();
  if (bytes == 0 || bytes + body.bytes_to_come != bytes_to_come_ || !body.control.empty()) {
    return DataLoss("a piece of ", bytes, " bytes before ", body.bytes_to_come, " others; ",
                    bytes_to_come_, " are to come");
  }
  bytes_to_come_ = body.bytes_to_come;
  if (bytes_to_come_ == 0) Arrive(std::exchange(in_pieces_, 0));
  RecallPart piece;
  piece.payload = std::move(body.payload);
  piece.bytes_to_come = bytes_to_come_;
  return piece;
}

void SessionRecall::Arrive(size_t count) {
  for (const WantedLane& lane : missing().first(count)) {
    WorkerSlots::Lane& state = session_->slots.lane(lane.want->sequence, lane.layer);
    state.under_way = false;
    state.offered = exchange_;
  }
  arrived_ += count;
}

void SessionRecall::OnFailure(const Status& status) {
  if (ended_) return;
  Abandon();
  if (missing().empty() && !IsDataLoss(status)) return End(OkStatus());
  const Client::Options& client = session_->caller->options();
  if (IsFailedPrecondition(status)) {
    session_->needs_resync = true;
    if (resynced_) return End(status);
    resynced_ = true;
    return;
  }
  // The server hears of it with the next attempt, and mends what it has.
  if (mismatched_ && ++rechecks_ <= kMaxRechecks) return;
  // Mismatched units reported without an answer are reported again with a later request.
  if (!IsDataLoss(status) && !IsNotFound(status)) {
    for (const MismatchedUnit& unit : std::exchange(told_, {})) session_->Report(unit);
  }
  // Parts have come, so the server was not out of reach of this request for good.
  const bool overloaded_midway = arrived_ > 0 && IsResourceExhausted(status);
  const bool passes = overloaded_midway || IsRetriable(status, Repeat::kSafe);
  if (!passes) return End(status);
  const auto next = attempts_.Next(status, client.clock->Now());
  if (IsDeadlineExceeded(next.status())) return End(Annotate(next.status(), kRecall));
  if (!next.ok()) return End(next.status());
  not_before_ = *next;
}

void SessionRecall::Abandon() {
  if (call_ == nullptr) return;
  if (!call_over_) call_->Cancel();
  if (!call_over_ && landing_ != nullptr) {
    area_->direct_->Leave(std::move(call_), MissingLanes());
  }
  for (const WantedLane& lane : missing().first(in_pieces_)) {
    session_->Forget(lane.want->sequence, lane.layer);
  }
  in_pieces_ = 0;
  bytes_to_come_ = 0;
  call_.reset();
}

void SessionRecall::Cancel() {
  if (ended_) return;
  Abandon();
  End(Status(StatusCode::kCancelled, "the recall was cancelled"));
}

void SessionRecall::End(Status status) {
  ended_ = true;
  call_.reset();
  end_ = std::move(status);
  span_.End(end_);
  for (const WantedLane& lane : missing()) {
    session_->slots.lane(lane.want->sequence, lane.layer).under_way = false;
  }
  std::erase(session_->under_way, this);
}

}  // namespace quire::internal
