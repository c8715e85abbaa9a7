// SPDX-License-Identifier: Apache-2.0
//
// NodeSession: a ClientSession on one server. Thread-safety and ownership: as ClientSession.
#ifndef QUIRE_CLIENT_NODE_SESSION_H_
#define QUIRE_CLIENT_NODE_SESSION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/session_state.h"
#include "quire/session.h"
#include "quire/status.h"

namespace quire::internal {

class NodeSession final : public ClientSession {
 public:
  explicit NodeSession(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
  ~NodeSession() override;

  using ClientSession::Digests;
  using ClientSession::MakeLanding;
  using ClientSession::members;
  using ClientSession::Recall;
  using ClientSession::Renew;
  using ClientSession::Start;
  std::span<const SessionMember> members(uint32_t sequence) const override;
  uint32_t slots_per_head() const override;
  uint32_t slots_per_head(uint32_t sequence) const override;
  uint64_t unit_bytes() const override;
  uint64_t unit_bytes(UnitCodec codec) const override;
  std::span<const int32_t> ResidentPages(uint32_t sequence, uint32_t layer) const override;
  std::string_view transport_name() const override;
  StatusOr<uint32_t> AddSequence(const SequenceSpec& sequence) override;
  Status RemoveSequence(uint32_t sequence) override;
  StatusOr<std::unique_ptr<PendingRecall>> Start(std::vector<LayerWant> wants,
                                                 const RecallOptions& options) override;
  StatusOr<RecallResult> Recall(std::span<const LayerWant> wants,
                                const RecallOptions& options) override;
  void Applied(const RecallPart& part) override;
  Status Renew(RecallPart* part, Duration timeout) override;
  void Invalidate(const RecallPart& part) override;
  void Mismatched(const MismatchedUnit& unit) override;
  StatusOr<std::unique_ptr<SessionLanding>> MakeLanding(uint32_t num_sequences) override;
  bool LandsDirectly() const override;
  StatusOr<Payload> Digests(std::span<const uint32_t> layers, uint32_t first_page,
                            uint32_t end_page, uint32_t sequence, uint32_t member,
                            DigestKind kind) override;
  StatusOr<std::vector<float>> ScorePages(const ContentScoring& wanted) override;
  Status Close() override;

 private:
  const std::unique_ptr<SessionState> state_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_NODE_SESSION_H_
