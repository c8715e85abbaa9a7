// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/session_source.h"

#include <utility>

namespace quire::worker {
namespace {

class OwnSeat final : public SessionSeat {
 public:
  explicit OwnSeat(std::unique_ptr<ClientSession> session)
      : session_(std::move(session)),
        staging_(session_.get()),
        channel_(session_.get(), &staging_, 0) {}
  Status Reserve() { return staging_.Reserve(0); }
  ClientSession& session() override { return *session_; }
  uint32_t sequence() const override { return 0; }
  RecallChannel& channel() override { return channel_; }
  void Lose() override {}  // Closing a session waits for a moment at most.

 private:
  const std::unique_ptr<ClientSession> session_;
  StagingArea staging_;
  SessionChannel channel_;
};

}  // namespace

SessionOptions SessionOptionsOf(const KvSpec& spec, const LaneShape& shape) {
  SessionOptions options{
      .spec = spec, .slots_per_head = shape.slots_per_head, .managed_layers = shape.layers};
  options.part = shape.part;
  options.codecs = shape.codecs;
  if (shape.held_digests) options.hold_digests.emplace().kind = *shape.held_digests;
  return options;
}

StatusOr<std::unique_ptr<SessionSeat>> OwnSessions::Seat(const ContextRef& context,
                                                         const LaneShape& shape) {
  QUIRE_ASSIGN_OR_RETURN(auto session,
                         client_->OpenSession(context, SessionOptionsOf(*spec_, shape)));
  auto seat = std::make_unique<OwnSeat>(std::move(session));
  QUIRE_RETURN_IF_ERROR(seat->Reserve());
  return std::unique_ptr<SessionSeat>(std::move(seat));
}

}  // namespace quire::worker
