// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_group.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace quire::worker {
namespace {

bool SameMessage(const RecallOptions& a, const RecallOptions& b) {
  return a.priority == b.priority && a.timeout == b.timeout && a.landing == b.landing &&
         a.verify == b.verify;
}

}  // namespace

/// The want of one sequence.
struct RecallGroup::Ticket {
  enum class State : uint8_t { kQueued, kSent, kCame, kTaken, kFailed, kGivenUp };
  LayerWant want;
  RecallOptions options;
  std::shared_ptr<SessionLanding> landing;  ///< From the options.
  State state = State::kQueued;
  std::shared_ptr<Message> message = nullptr;  ///< While sent.
  RecallPart part = {};                        ///< When it came.
  Status failure = {};
};

struct RecallGroup::Message {
  std::unique_ptr<PendingRecall> recall;  ///< Null when it is over.
  Tickets tickets;

  Tickets missing() const {
    Tickets missing;
    for (const auto& ticket : tickets) {
      if (ticket->state == Ticket::State::kSent) missing.push_back(ticket);
    }
    return missing;
  }
  /// Nothing of it will arrive any more.
  void End() {
    recall.reset();
    for (const auto& ticket : tickets) ticket->message.reset();
    tickets.clear();
  }
};

class RecallGroup::GroupRecall final : public ChannelRecall {
 public:
  GroupRecall(RecallGroup* group, std::shared_ptr<Ticket> ticket)
      : group_(group), ticket_(std::move(ticket)) {}
  ~GroupRecall() override { group_->GiveUp(*ticket_); }

  TimePoint deadline() const override {
    if (ticket_->state == Ticket::State::kQueued) group_->Send();
    return ticket_->message == nullptr ? TimePoint::max() : ticket_->message->recall->deadline();
  }
  StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) override {
    for (;;) {
      switch (ticket_->state) {
        case Ticket::State::kQueued:
          group_->Send();
          break;
        case Ticket::State::kSent:
          QUIRE_RETURN_IF_ERROR(group_->Receive(ticket_->message, deadline));
          break;
        case Ticket::State::kCame:
          ticket_->state = Ticket::State::kTaken;
          return std::optional<RecallPart>(std::move(ticket_->part));
        case Ticket::State::kTaken:
          return std::nullopt;
        case Ticket::State::kFailed:
        case Ticket::State::kGivenUp:
          return ticket_->failure;
      }
    }
  }

 private:
  RecallGroup* const group_;
  const std::shared_ptr<Ticket> ticket_;
};

class RecallGroup::GroupChannel final : public RecallChannel {
 public:
  GroupChannel(RecallGroup* group, uint32_t sequence) : group_(group), sequence_(sequence) {}

  StatusOr<std::unique_ptr<ChannelRecall>> Start(LayerWant want,
                                                 const RecallOptions& options) override {
    want.sequence = sequence_;
    RecallOptions whole = options;
    whole.piece_bytes = 0;  // A message has the lanes of several sequences.
    return std::unique_ptr<ChannelRecall>(
        new GroupRecall(group_, group_->Enqueue(std::move(want), whole)));
  }
  void Applied(const RecallPart& part) override { group_->session_->Applied(part); }
  void Invalidate(const RecallPart& part) override { group_->session_->Invalidate(part); }
  void Forget(uint32_t layer) override {
    group_->session_->Invalidate({.lanes = {{.sequence = sequence_, .layer = layer}}});
  }
  void Mismatched(MismatchedUnit unit) override {
    unit.sequence = sequence_;
    group_->session_->Mismatched(unit);
  }

 private:
  RecallGroup* const group_;
  const uint32_t sequence_;
};

std::unique_ptr<RecallChannel> RecallGroup::Channel(uint32_t sequence) {
  return std::make_unique<GroupChannel>(this, sequence);
}

std::shared_ptr<RecallGroup::Ticket> RecallGroup::Enqueue(LayerWant want,
                                                          const RecallOptions& options) {
  auto ticket = std::make_shared<Ticket>(
      Ticket{.want = std::move(want), .options = options, .landing = staging_->landing()});
  ticket->options.landing = ticket->landing.get();
  queue_.push_back(ticket);
  return ticket;
}

void RecallGroup::Send() {
  SendAll(std::exchange(again_, {}));
  SendAll(std::exchange(queue_, {}));
}

void RecallGroup::SendAll(Tickets waiting) {
  std::ranges::stable_sort(waiting, std::greater<>(),
                           [](const auto& ticket) { return ticket->options.priority; });
  while (!waiting.empty()) {
    const RecallOptions& options = waiting.front()->options;
    const auto rest = std::stable_partition(
        waiting.begin(), waiting.end(),
        [&](const auto& ticket) { return SameMessage(ticket->options, options); });
    SendTogether(Tickets(waiting.begin(), rest));
    waiting.erase(waiting.begin(), rest);
  }
}

void RecallGroup::SendTogether(const Tickets& tickets) {
  std::vector<LayerWant> wants;
  for (const auto& ticket : tickets) wants.push_back(ticket->want);
  auto recall = session_->Start(std::move(wants), tickets.front()->options);
  ++messages_;
  lanes_ += tickets.size();
  auto message = std::make_shared<Message>();
  message->tickets = tickets;
  for (const auto& ticket : tickets) {
    ticket->state = Ticket::State::kSent;
    ticket->message = message;
  }
  if (!recall.ok()) return OnFailure(message, recall.status());
  message->recall = *std::move(recall);
}

Status RecallGroup::Receive(std::shared_ptr<Message> message, TimePoint deadline) {
  auto part = message->recall->Next(deadline);
  if (part.ok() && part->has_value()) {
    Distribute(*message, **std::move(part));
    if (message->missing().empty()) message->End();
    return OkStatus();
  }
  const bool goes_on = IsDeadlineExceeded(part.status()) && deadline < message->recall->deadline();
  if (goes_on) return part.status();
  OnFailure(message,
            part.ok() ? Internal("a shared recall ended without all of its lanes") : part.status());
  return OkStatus();
}

void RecallGroup::Distribute(const Message& message, RecallPart part) {
  for (const RecalledLane& lane : part.lanes) {
    const auto ticket = std::ranges::find_if(message.tickets, [&](const auto& candidate) {
      return candidate->want.sequence == lane.sequence && candidate->want.layer == lane.layer &&
             candidate->state == Ticket::State::kSent;
    });
    if (ticket == message.tickets.end()) continue;
    (*ticket)->part = LanePart(*session_, part, lane);
    (*ticket)->state = Ticket::State::kCame;
  }
}

void RecallGroup::OnFailure(std::shared_ptr<Message> message, const Status& status) {
  const Tickets missing = message->missing();
  message->End();
  if (missing.size() == 1) {
    missing.front()->state = Ticket::State::kFailed;
    missing.front()->failure = status;
    return;
  }
  for (const auto& ticket : missing) SendTogether({ticket});
}

void RecallGroup::GiveUp(Ticket& ticket) {
  const Ticket::State was = std::exchange(ticket.state, Ticket::State::kGivenUp);
  ticket.failure = Status(StatusCode::kCancelled, "the recall was given up");
  if (was == Ticket::State::kQueued) {
    const auto is_it = [&](const auto& queued) { return queued.get() == &ticket; };
    std::erase_if(queue_, is_it);
    std::erase_if(again_, is_it);
    return;
  }
  if (was != Ticket::State::kSent) return;
  const std::shared_ptr<Message> message = ticket.message;
  const Tickets missing = message->missing();
  message->End();
  for (const auto& other : missing) {
    other->state = Ticket::State::kQueued;
    again_.push_back(other);
  }
}

}  // namespace quire::worker
