// SPDX-License-Identifier: Apache-2.0
//
// SpanningSession: a ClientSession over contexts on several nodes. It has a session of one node, a
// part, on each node that its sequences read. A recall goes to each part once, with all that it
// asks of it; the parts answer side by side.
//
// A sequence whose members lie on one node is a sequence of that part: its node selects, keeps its
// resident maps and hears what was applied. A sequence that spans nodes has its maps here, where
// selections are compared with them exactly as a server does (lane_merge.h). Its nodes send what
// they are asked for, and keep no map of it.
//
// A part is lost like a session of one node: recalls of its sequences fail, and those of others go
// on. A sequence that is opened again may lie on other nodes then.
//
// A recall by query of a sequence that spans nodes is UNIMPLEMENTED: the caller selects, by scores
// (score_merge.h) or digests.
//
// Units come in messages, without landings and not in pieces. Lanes come one by one, in the order
// asked.
//
// Thread-safety: as ClientSession. Ownership: what it is given outlives it.
#ifndef QUIRE_CLIENT_SPANNING_SPANNING_SESSION_H_
#define QUIRE_CLIENT_SPANNING_SPANNING_SESSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/recall/worker_slots.h"
#include "client/spanning/lane_merge.h"
#include "client/spanning/sequence_places.h"
#include "client/spanning/session_nodes.h"
#include "common/page/slot_map.h"
#include "common/page/unit_sizes.h"
#include "quire/clock.h"
#include "quire/session.h"
#include "quire/status.h"

namespace quire::internal {

class SpanningSession final : public ClientSession {
 public:
  /// Opens the sequences, 1 to 256, which are numbered in this order. Errors: those of
  /// Client::OpenSession and SessionNodes::NodeOf.
  static StatusOr<std::unique_ptr<ClientSession>> Open(SessionNodes* nodes, Clock* clock,
                                                       std::span<const SequenceSpec> sequences,
                                                       const SessionOptions& options);
  ~SpanningSession() override;

  using ClientSession::Digests;
  using ClientSession::MakeLanding;
  using ClientSession::members;
  using ClientSession::Recall;
  using ClientSession::Renew;
  using ClientSession::Start;
  std::span<const SessionMember> members(uint32_t sequence) const override {
    return sequences_[sequence].members;
  }
  uint32_t slots_per_head() const override { return options_.slots_per_head; }
  uint32_t slots_per_head(uint32_t sequence) const override {
    return slots_.slots_per_head(sequence);
  }
  uint64_t unit_bytes() const override { return sizes_.raw(); }
  uint64_t unit_bytes(UnitCodec codec) const override { return sizes_.Of(codec); }
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
  /// UNIMPLEMENTED.
  StatusOr<std::unique_ptr<SessionLanding>> MakeLanding(uint32_t num_sequences) override;
  bool LandsDirectly() const override { return false; }
  StatusOr<Payload> Digests(std::span<const uint32_t> layers, uint32_t first_page,
                            uint32_t end_page, uint32_t sequence, uint32_t member,
                            DigestKind kind) override;
  StatusOr<std::vector<float>> ScorePages(const ContentScoring& wanted) override;
  Status Close() override;

 private:
  friend class SpanningRecall;
  /// The session on one node.
  struct Part {
    std::string address;
    std::unique_ptr<ClientSession> session;
  };
  /// The sequence of a part that a sequence of the session is there.
  struct Share {
    std::shared_ptr<Part> part;
    uint32_t sequence = 0;  ///< Number there.
  };
  /// A lane of a sequence that spans nodes.
  struct SpanningLane {
    SlotMap map;
    uint64_t planned = 0;  ///< Exchange whose placements are in the map and not committed; 0: none.
  };
  struct Sequence {
    std::vector<SessionMember> members;
    SequencePlaces places;
    std::vector<Share> shares;        ///< One for each fragment of the places.
    std::vector<SpanningLane> lanes;  ///< [managed layers] of a sequence that spans nodes.
  };

  SpanningSession(SessionNodes* nodes, Clock* clock, const SessionOptions& options,
                  ManagedLayers layers);

  Status CheckOpen() const;
  Status CheckRecall(std::span<const LayerWant> wants, const RecallOptions& options) const;
  /// Opens `sequence` where its members lie now.
  StatusOr<Sequence> Seat(const SequenceSpec& sequence);
  StatusOr<Sequence> SeatOn(const SequenceSpec& sequence,
                            std::span<const SessionNodes::Node> nodes);
  /// Takes what was seated of a sequence out of parts that others use.
  static void Leave(const Sequence& sequence);
  /// The sequence of a fragment, in the part of its node or a new one.
  StatusOr<Share> SeatAt(const SequenceSpec& sequence, const SessionNodes::Node& node);
  /// The part of a node while sequences use it; null for none.
  std::shared_ptr<Part> PartOf(const std::string& address);
  SpanningLane& lane(uint32_t sequence, uint32_t layer) {
    return sequences_[sequence].lanes[slots_.layers().IndexOf(layer)];
  }
  /// Takes the slots of a lane that spans nodes to be empty.
  void Forget(uint32_t sequence, uint32_t layer);
  void ApplyLane(const RecallPart& part, const RecalledLane& lane);
  /// `lane` as its part names it.
  RecallPart LocalPart(const RecallPart& part, const RecalledLane& lane) const;

  SessionNodes& nodes_;
  Clock& clock_;
  const SessionOptions options_;
  const UnitSizes sizes_;
  std::map<std::string, std::weak_ptr<Part>> parts_;  ///< By address.
  std::vector<Sequence> sequences_;
  /// All sequences. Pages and progress are those of lanes that span nodes.
  WorkerSlots slots_;
  uint64_t next_exchange_ = 1;
  bool closed_ = false;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SPANNING_SPANNING_SESSION_H_
