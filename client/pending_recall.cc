// SPDX-License-Identifier: Apache-2.0
#include "client/pending_recall.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/call.h"
#include "client/recall_codec.h"
#include "client/session.h"
#include "client/validate.h"
#include "common/base/retry_hint.h"
#include "common/wire/message.h"
#include "quire/v1/session.pb.h"

namespace quire {
namespace {

constexpr std::string_view kRecall = "quire.v1.Session/Recall";

}  // namespace

PendingRecall::PendingRecall(ClientSession* session, std::vector<LayerWant> owned,
                             std::span<const LayerWant> wants, const RecallOptions& options,
                             TimePoint deadline)
    : session_(session),
      owned_(std::move(owned)),
      lanes_(LanesOf(owned_.empty() ? wants : owned_)),
      options_(options),
      deadline_(deadline),
      jitter_(session->client_->next_jitter_seed_.fetch_add(1, std::memory_order_relaxed)),
      attempts_(session->client_->options_.retry, jitter_, session->client_->server_, deadline),
      not_before_(TimePoint::min()) {
  for (const WantedLane& lane : lanes_) {
    session_->map_.lane(lane.want->sequence, lane.layer).under_way = true;
  }
  session_->under_way_.push_back(this);
}

PendingRecall::~PendingRecall() { Cancel(); }

Landing* PendingRecall::ChooseLanding() const {
  if (options_.landing == nullptr) return nullptr;
  DirectLanding& direct = *options_.landing->direct_;
  return direct.MayStillLand(MissingLanes()) ? nullptr : direct.get();
}

DirectLanding::Lanes PendingRecall::MissingLanes() const {
  DirectLanding::Lanes indices;
  for (const WantedLane& lane : missing()) {
    indices.push_back(options_.landing->LaneIndex(lane.want->sequence, lane.layer));
  }
  return indices;
}

Status PendingRecall::Launch() {
  if (const Status sent = Send(); !sent.ok()) OnFailure(sent);
  return end_;
}

StatusOr<std::optional<RecallPart>> PendingRecall::Next(TimePoint deadline) {
  while (!ended_) {
    if (missing().empty() && call_ == nullptr) {
      End(OkStatus());
      break;
    }
    QUIRE_RETURN_IF_ERROR(WaitForAttempt(deadline));
    Status status = session_->needs_resync_ && OnlyLooks(deadline) ? OkStatus() : Send();
    if (status.ok() && call_ == nullptr) {
      return DeadlineExceeded(kRecall, ": the session has to be synchronised first, which waits");
    }
    if (status.ok()) {
      auto part = Receive(deadline);
      if (part.ok()) return part;
      status = part.status();
    }
    const TimePoint now = session_->client_->options_.clock->Now();
    if (absl::IsDeadlineExceeded(status) && now >= deadline && now < deadline_) return status;
    OnFailure(status);
  }
  QUIRE_RETURN_IF_ERROR(end_);
  return std::nullopt;
}

bool PendingRecall::OnlyLooks(TimePoint deadline) const {
  const TimePoint now = session_->client_->options_.clock->Now();
  return now >= deadline && now < deadline_;
}

Status PendingRecall::WaitForAttempt(TimePoint deadline) {
  Clock& clock = *session_->client_->options_.clock;
  if (call_ != nullptr || clock.Now() >= not_before_) return OkStatus();
  clock.Sleep(std::min(not_before_, deadline) - clock.Now());
  if (clock.Now() >= not_before_) return OkStatus();
  return DeadlineExceeded(kRecall,
                          ": no part until the deadline, before which it was not to be "
                          "asked for again");
}

Status PendingRecall::Send() {
  if (session_->needs_resync_) {
    // A resync has made its own attempts, and one that is refused is not cured by another.
    if (const Status synced = session_->Resync(deadline_); !synced.ok()) {
      End(synced);
      return synced;
    }
  }
  if (call_ != nullptr) return OkStatus();
  v1::RecallRequest request;
  request.set_session_id(session_->id_);
  request.set_epoch(session_->epoch_);
  exchange_ = session_->next_exchange_++;
  request.set_exchange(exchange_);
  landing_ = ChooseLanding();
  request.set_place(landing_ != nullptr);
  LanesToProto(missing(), session_->map_, &request);
  told_ = std::exchange(session_->mismatched_, {});
  MismatchedToProto(told_, &request);
  mismatched_ = false;
  // What was offered and not applied is given up: the server takes it back.
  for (const WantedLane& lane : missing()) {
    session_->map_.lane(lane.want->sequence, lane.layer).offered = 0;
  }
  call_over_ = false;
  CallMessage message;
  QUIRE_RETURN_IF_ERROR(
      Annotate(wire::Encode(request, &message.control), "the request to ", kRecall));
  const Client::Options& client = session_->client_->options_;
  asked_at_ = client.clock->Now();
  const Duration left = deadline_ - asked_at_;
  if (left <= Duration::zero()) return DeadlineExceeded(kRecall, ": no time is left");
  QUIRE_ASSIGN_OR_RETURN(call_,
                         client.data_transport->Start(kRecall, std::move(message),
                                                      {.tenant = client.tenant,
                                                       .timeout = left,
                                                       .priority = options_.priority,
                                                       .landing = landing_,
                                                       .piece_bytes = options_.piece_bytes}));
  return OkStatus();
}

StatusOr<std::optional<RecallPart>> PendingRecall::Receive(TimePoint deadline) {
  auto body = call_->Next(std::min(deadline, deadline_));
  // After DEADLINE_EXCEEDED it may go on, and bytes may land.
  call_over_ = !absl::IsDeadlineExceeded(body.status()) && !(body.ok() && body->has_value());
  QUIRE_RETURN_IF_ERROR(body.status());
  session_->client_->server_.Note(OkStatus(), TimePoint());
  if (!body->has_value() && missing().empty()) {
    End(OkStatus());
    return std::nullopt;
  }
  if (body->has_value()) told_.clear();  // The server has done what there was to do.
  auto part = body->has_value() ? Take(**std::move(body)) : StatusOr<RecallPart>(EndsEarly());
  if (part.ok()) {
    part->CountLeasesFrom(asked_at_);
    return std::optional<RecallPart>(*std::move(part));
  }
  session_->needs_resync_ = true;
  // Nothing of the reply is readable.
  if (absl::IsInternal(part.status())) return part.status();
  return BadReply(kRecall, Message(part.status()));
}

Status PendingRecall::EndsEarly() const {
  return DataLoss("it ends after ", arrived_, " of ", lanes_.size(), " lanes");
}

StatusOr<RecallPart> PendingRecall::Take(CallMessage body) {
  if (in_pieces_ > 0) return TakePiece(std::move(body));
  v1::RecallReply reply;
  QUIRE_RETURN_IF_ERROR(DecodeReply(kRecall, body.control, &reply));
  std::vector<MismatchedUnit> mismatched;
  StatusOr<RecallPart> taken = PartFromProto(reply, std::move(body),
                                             {.epoch = session_->epoch_,
                                              .exchange = exchange_,
                                              .lanes = missing(),
                                              .unit_bytes = session_->unit_bytes_,
                                              .map = &session_->map_,
                                              .landing = options_.landing,
                                              .mismatched = &mismatched,
                                              .verify = options_.verify});
  for (const MismatchedUnit& unit : mismatched) session_->Mismatched(unit);
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

StatusOr<RecallPart> PendingRecall::TakePiece(CallMessage body) {
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

void PendingRecall::Arrive(size_t count) {
  for (const WantedLane& lane : missing().first(count)) {
    ResidentMap::Lane& state = session_->map_.lane(lane.want->sequence, lane.layer);
    state.under_way = false;
    state.offered = exchange_;
  }
  arrived_ += count;
}

void PendingRecall::OnFailure(const Status& status) {
  if (ended_) return;
  Abandon();
  if (missing().empty() && !absl::IsDataLoss(status)) return End(OkStatus());
  const Client::Options& client = session_->client_->options_;
  if (absl::IsFailedPrecondition(status)) {
    session_->needs_resync_ = true;
    if (resynced_) return End(status);
    resynced_ = true;
    return;
  }
  // The server hears of it with the next attempt, and mends what it has.
  if (mismatched_ && ++rechecks_ <= kMaxRechecks) return;
  // Mismatched units that were told without an answer are told again with a later request.
  if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) {
    for (const MismatchedUnit& unit : std::exchange(told_, {})) session_->Mismatched(unit);
  }
  // Parts have come, so the server was not out of reach of this request for good.
  const bool overloaded_midway = arrived_ > 0 && absl::IsResourceExhausted(status);
  const bool passes = overloaded_midway || IsRetriable(status, Repeat::kSafe);
  if (!passes) return End(status);
  const auto next = attempts_.Next(status, client.clock->Now());
  if (absl::IsDeadlineExceeded(next.status())) return End(Annotate(next.status(), kRecall));
  if (!next.ok()) return End(next.status());
  not_before_ = *next;
}

void PendingRecall::Abandon() {
  if (call_ == nullptr) return;
  if (!call_over_) call_->Cancel();
  if (!call_over_ && landing_ != nullptr) {
    options_.landing->direct_->Leave(std::move(call_), MissingLanes());
  }
  for (const WantedLane& lane : missing().first(in_pieces_)) {
    session_->Forget(lane.want->sequence, lane.layer);
  }
  in_pieces_ = 0;
  bytes_to_come_ = 0;
  call_.reset();
}

void PendingRecall::Cancel() {
  if (ended_) return;
  Abandon();
  End(Status(StatusCode::kCancelled, "the recall was cancelled"));
}

void PendingRecall::End(Status status) {
  ended_ = true;
  call_.reset();
  end_ = std::move(status);
  for (const WantedLane& lane : missing()) {
    session_->map_.lane(lane.want->sequence, lane.layer).under_way = false;
  }
  std::erase(session_->under_way_, this);
}

}  // namespace quire
