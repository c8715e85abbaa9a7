// SPDX-License-Identifier: Apache-2.0
//
// RecallRun: one recall that was taken, from its first lane to its last part. It selects, plans,
// reads and writes, lane by lane in the order asked. Parts are whole lanes: a part is written when
// it is large enough or when the next lane does not fit in it, so the first layers leave while the
// later ones are planned.
//
// Its lanes stay claimed until the part that they are in has been written: a write with landings
// that came after one of a newer recall would put an old unit into a slot. What has been written is
// pending, whether it arrives or not. When a recall ends early, the lanes that were not written are
// as if it had not come, but for what it said was applied.
//
// RecallScratch is the memory that recalls use one after the other, so that a recall allocates only
// what its reply takes along. Thread-safety: none. Ownership: everything passed in outlives a run.
#ifndef QUIRE_KVSERVER_SESSION_RECALL_RUN_H_
#define QUIRE_KVSERVER_SESSION_RECALL_RUN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/counters.h"
#include "common/base/latency_histogram.h"
#include "kvserver/select/digest_blocks.h"
#include "kvserver/select/digest_residency.h"
#include "kvserver/select/selector.h"
#include "kvserver/session/lane_claims.h"
#include "kvserver/session/recall.h"
#include "kvserver/session/session_sequence.h"
#include "kvserver/session/session_shape.h"
#include "kvserver/session/unit_cut.h"
#include "kvserver/session/unit_gather.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

/// What recalls of one server share and count. Thread-safe.
struct RecallParts {
  PageStore* store = nullptr;
  Selector* selector = nullptr;
  std::shared_ptr<DigestResidency> residency;
  uint64_t max_reply_bytes = 0;  ///< Payload of one part, or of one digests reply.
  Counter recalls;
  Counter stopped;
  Counter units_wanted;
  Counter units_sent;
  Counter rolled_back;
  Counter replaced;
  LatencyHistogram plan_times;
};

/// One want of a recall: what it is about, resolved.
struct RecallTarget {
  const WantedLayers* want = nullptr;
  SessionSequencePtr sequence;
  uint32_t first_member = 0;  ///< Its members are so many from RecallScratch::members on.
  uint32_t num_members = 0;
  std::vector<uint32_t> lanes;  ///< [layers] Index of each in the session's managed layers.
};

struct RecallScratch {
  std::vector<RecallTarget> targets;
  std::vector<MemberView> members;
  std::vector<uint32_t> sent_pages;    ///< Of one head of a lane, without those held.
  std::vector<uint32_t> member_pages;  ///< Pages of the members of one target.
  ServerLaneMap::Scratch plan;
  UnitGather gather;
  PageQuery query;
  PageLists to_place;  ///< Of a lane, without the heads that keep what they hold.
  std::vector<DigestBlocks> digests;
  std::vector<LanePlacement> part;  ///< Lanes of the part that is being made, and room.

  /// Lets go of everything that is shared.
  void Clear();
  /// What is kept for the next recall, about.
  size_t capacity_bytes() const;
};

class RecallRun {
 public:
  RecallRun(RecallParts& parts, const SessionShape& shape, const UnitCut& cut,
            const RecallArgs& args, const ReplyShape& reply, RecallSink& sink,
            LaneClaims::Claim& claim, RecallScratch& scratch)
      : parts_(parts),
        shape_(shape),
        cut_(cut),
        args_(args),
        reply_(reply),
        sink_(sink),
        claim_(claim),
        scratch_(scratch) {}

  /// Answers the targets of the scratch, whose lanes are claimed in this order and have taken the
  /// recall. Errors: CheckWanted's; NOT_FOUND and DATA_LOSS from reading; RESOURCE_EXHAUSTED for a
  /// lane, or what cannot be cut, that does not fit in a part; the sink's. None has a retry hint
  /// after the first part.
  [[nodiscard]] Status Run();

 private:
  Status AnswerLanes();
  Status AnswerLane(const RecallTarget& target, uint32_t index);
  /// Plans a lane behind those that are in the part.
  Status PlanLane(const RecallTarget& target, uint32_t index);
  /// What the lane wants: the want's own pages, or `*selected`.
  StatusOr<const PageLists*> SelectPages(const RecallTarget& target, uint32_t index,
                                         PageLists* selected);
  /// `selected` without the heads that keep what they hold; in the scratch.
  const PageLists* WithoutKept(const QueryWant& want, const PageLists& selected);
  /// Digests of a candidate range, held for the lane from now on if there is room: `digests` are
  /// the lane's own of this member and kind.
  StatusOr<DigestBlocks> DigestsOf(const MemberView& member, const DigestRange& range,
                                   SessionLane::MemberDigests& digests);
  /// Takes the lane that was planned last into the part.
  void AddToPart(const RecallTarget& target, uint32_t index);
  std::span<const MemberView> MembersOf(const RecallTarget& target) const {
    return std::span(scratch_.members).subspan(target.first_member, target.num_members);
  }
  Caller CallerOf() const { return {shape_.tenant, args_.priority}; }
  /// Of the pages placed in a head of a lane, those whose units the worker does not hold; valid
  /// until the next call.
  std::span<const uint32_t> PagesToSend(const WantedLayers& want, uint32_t head,
                                        std::span<const uint32_t> placed);
  /// Bytes that a lane takes of a part's bound.
  uint64_t CostOf(const LanePlacement& lane) const;
  bool MayCut() const { return parts_written_ + 1 < reply_.max_parts; }
  /// Reads and writes the lanes that are in the part.
  Status WritePart();
  /// As SessionSequence::CheckBytes, of all targets. What was read before is of those bytes.
  Status CheckBytes();
  void AppendUnits(LanePlacement& lane, std::span<UnitBytes> units, ReplyPart* part) const;
  /// The lanes of no part that was written are as before.
  void AbandonUnwritten();

  RecallParts& parts_;
  const SessionShape& shape_;
  const UnitCut& cut_;  ///< Of the shape.
  const RecallArgs& args_;
  const ReplyShape& reply_;
  RecallSink& sink_;
  LaneClaims::Claim& claim_;
  RecallScratch& scratch_;
  Duration planning_{0};
  size_t in_part_ = 0;       ///< Lanes in the part; one more may be planned.
  uint64_t part_cost_ = 0;   ///< CostOf them.
  uint64_t part_bytes_ = 0;  ///< Their payload.
  size_t lanes_written_ = 0;
  uint32_t parts_written_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_RECALL_RUN_H_
