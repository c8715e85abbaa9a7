// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/shared_sessions.h"

#include <algorithm>
#include <utility>

#include "common/wire/limits.h"

namespace quire::worker {

struct SharedSessions::Shared {
  Shared(SessionShape of, std::unique_ptr<ClientSession> opened)
      : shape(std::move(of)),
        session(std::move(opened)),
        staging(session.get()),
        group(session.get(), &staging) {}

  const SessionShape shape;
  const std::unique_ptr<ClientSession> session;
  StagingArea staging;
  RecallGroup group;
  uint32_t seats = 0;
  bool retired = false;  ///< Takes in nobody any more.
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

SharedSessions::Shared* SharedSessions::Find(const SessionShape& shape) {
  for (const auto& shared : sessions_) {
    if (shared->retired || shared->shape != shape) continue;
    if (shared->seats < wire::kMaxSequences) return shared.get();
  }
  return nullptr;
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Seat(const ContextRef& context,
                                                            const SessionShape& shape) {
  Shared* const shared = Find(shape);
  if (shared == nullptr) return Open(context, shape);
  auto joined = Join(shared, context);
  if (!absl::IsNotFound(joined.status())) return joined;
  // The context is gone, or the session is: a new session tells.
  auto opened = Open(context, shape);
  if (opened.ok()) shared->retired = true;
  return opened;
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Join(Shared* shared,
                                                            const ContextRef& context) {
  QUIRE_ASSIGN_OR_RETURN(const uint32_t sequence,
                         shared->session->AddSequence({.members = {{.context = context}}}));
  return Take(shared, sequence);
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Take(Shared* shared, uint32_t sequence) {
  auto seat = std::make_unique<SharedSeat>(this, shared, sequence);
  QUIRE_RETURN_IF_ERROR(shared->staging.Reserve(sequence));
  return std::unique_ptr<SessionSeat>(std::move(seat));
}

StatusOr<std::unique_ptr<SessionSeat>> SharedSessions::Open(const ContextRef& context,
                                                            const SessionShape& shape) {
  QUIRE_ASSIGN_OR_RETURN(auto session,
                         client_->OpenSession(context, SessionOptionsOf(*spec_, shape)));
  Shared* const shared =
      sessions_.emplace_back(std::make_unique<Shared>(shape, std::move(session))).get();
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
