// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/shared_sessions.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/retry_hint.h"
#include "common/wire/limits.h"

namespace quire::worker {
namespace {

/// True if a session refused a sequence for want of room. A busy server gives a retry hint instead.
bool IsFull(const Status& status) {
  return IsResourceExhausted(status) && !RetryAfter(status).has_value();
}

}  // namespace

struct SharedSessions::Shared {
  Shared(Kind of, std::unique_ptr<ClientSession> opened)
      : kind(std::move(of)),
        session(std::move(opened)),
        staging(session.get()),
        group(session.get(), &staging) {}

  bool TakesIn(const Kind& asked) const {
    return !retired && seats < wire::kMaxSequences && kind == asked;
  }

  const Kind kind;
  const std::unique_ptr<ClientSession> session;
  StagingArea staging;
  RecallGroup group;
  uint32_t seats = 0;
  bool retired = false;  ///< Accepts no more sequences.
};

class SharedSessions::SharedSeat final : public SessionSeat {
 public:
  SharedSeat(SharedSessions* sessions, Shared* shared, uint32_t sequence)
      : sessions_(sessions),
        shared_(shared),
        sequence_(sequence),
        channel_(shared->group.Channel(sequence)) {
    ++shared_->seats;
  }
  ~SharedSeat() override { sessions_->Leave(shared_, sequence_); }

  ClientSession& session() override { return *shared_->session; }
  uint32_t sequence() const override { return sequence_; }
  RecallChannel& channel() override { return *channel_; }
  void Lose() override { shared_->retired = true; }

 private:
  SharedSessions* const sessions_;
  Shared* const shared_;
  const uint32_t sequence_;
  const std::unique_ptr<RecallChannel> channel_;
};

SharedSessions::SharedSessions(Client* client, const KvSpec* spec) : client_(client), spec_(spec) {}
SharedSessions::~SharedSessions() = default;

SharedSessions::Kind SharedSessions::KindFor(const LaneShape& shape) const {
  Kind kind{shape, client_->LandsDirectly()};
  uint32_t& slots = kind.shape.slots_per_head;
  slots =
      kind.lands ? std::bit_ceil(std::min(slots, wire::kMaxSlotsPerHead)) : wire::kMaxSlotsPerHead;
  return kind;
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Seat(const ContextRef& context,
                                                            const LaneShape& shape) {
  const SequenceSpec sequence = {.members = {{.context = context}},
                                 .slots_per_head = shape.slots_per_head};
  const Kind kind = KindFor(shape);
  for (const auto& shared : sessions_) {
    if (!shared->TakesIn(kind)) continue;
    auto joined = Join(shared.get(), sequence);
    if (IsFull(joined.status())) continue;
    if (!IsNotFound(joined.status())) return joined;
    // The context is gone, or the session is: a new session tells.
    Shared* const left = shared.get();
    auto opened = Open(kind, sequence);
    if (opened.ok()) left->retired = true;
    return opened;
  }
  return Open(kind, sequence);
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Join(Shared* shared,
                                                            const SequenceSpec& sequence) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t number, shared->session->AddSequence(sequence));
  return Take(shared, number);
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Take(Shared* shared, uint32_t sequence) {
  auto seat = std::make_unique<SharedSeat>(this, shared, sequence);
  if (shared->kind.lands) QUIRE_RETURN_IF_ERROR(shared->staging.Reserve(sequence));
  return std::unique_ptr<SessionSeat>(std::move(seat));
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Open(const Kind& kind,
                                                            const SequenceSpec& sequence) {
  QUIRE_ASSIGN_OR_RETURN(
      auto session, client_->OpenSession({&sequence, 1}, SessionOptionsOf(*spec_, kind.shape)));
  Shared* const shared =
      sessions_.emplace_back(std::make_unique<Shared>(kind, std::move(session))).get();
  return Take(shared, 0);
}

void SharedSessions::Leave(Shared* shared, uint32_t sequence) {
  --shared->seats;
  if (shared->seats > 0) {
    if (shared->retired) return;  // Its lanes end with the session.
    shared->retired = !shared->session->RemoveSequence(sequence).ok();
    return;
  }
  past_messages_ += shared->group.messages();
  past_lanes_ += shared->group.lanes();
  std::erase_if(sessions_, [&](const auto& candidate) { return candidate.get() == shared; });
}

void SharedSessions::Send() {
  for (const auto& shared : sessions_) shared->group.Send();
}

uint64_t SharedSessions::messages() const {
  uint64_t messages = past_messages_;
  for (const auto& shared : sessions_) messages += shared->group.messages();
  return messages;
}

uint64_t SharedSessions::lanes() const {
  uint64_t lanes = past_lanes_;
  for (const auto& shared : sessions_) lanes += shared->group.lanes();
  return lanes;
}

}  // namespace quire::worker
