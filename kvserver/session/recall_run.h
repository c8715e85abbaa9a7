// SPDX-License-Identifier: Apache-2.0
//
// RecallRun: one accepted recall, from its first lane to its last part. It selects, plans, reads
// and writes, lane by lane in the order asked. Parts are whole lanes. A part is written when it is
// large enough or the next lane does not fit. The first layers thus leave while later ones are
// planned.
//
// Its lanes stay claimed until their part has been written. Otherwise a landing could receive an
// old unit after one of a newer recall. Written changes are pending, arrived or not. When a recall
// ends early, unwritten lanes keep only the acknowledgement that it carried.
//
// RecallScratch is reusable memory of recalls, so that a recall allocates only what its reply
// keeps. Thread-safety: none. Ownership: all arguments outlive a run.
#ifndef QUIRE_KVSERVER_SESSION_RECALL_RUN_H_
#define QUIRE_KVSERVER_SESSION_RECALL_RUN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/latency_histogram.h"
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

/// Shared state and counters of one server's recalls. Thread-safe.
struct RecallParts {
  PageStore* store = nullptr;
  Selector* selector = nullptr;
  std::shared_ptr<DigestResidency> residency;
  uint64_t max_reply_bytes = 0;  ///< Limit of the payload of one part, or of one digests reply.
  Counter recalls;
  Counter stopped;
  Counter units_wanted;
  Counter units_sent;
  Counter bytes_wanted;
  Counter bytes_sent;
  Counter rolled_back;
  Counter replaced;
  LatencyHistogram plan_times;
};

/// One want of a recall with its resolved objects.
struct RecallTarget {
  const WantedLayers* want = nullptr;
  SessionSequencePtr sequence;
  uint32_t first_member = 0;  ///< Index of its first member in RecallScratch::members.
  uint32_t num_members = 0;
  std::vector<uint32_t> lanes;  ///< [layers] Index of each in the session's managed layers.
};

struct RecallScratch {
  std::vector<RecallTarget> targets;
  std::vector<MemberView> members;
  std::vector<uint32_t> sent_pages;    ///< Pages of one head of a lane, without held ones.
  std::vector<uint32_t> member_pages;  ///< Pages of the members of one target.
  SlotMap::Scratch plan;
  UnitGather gather;
  PageQuery query;
  PageLists to_place;  ///< Pages of a lane, without kept heads.
  std::vector<DigestBlocks> digests;
  std::vector<LanePlacement> part;  ///< Lanes of the current part; reused entries after them.

  /// Releases everything shared.
  void Clear();
  /// Approximate bytes kept for the next recall.
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

  /// Answers the targets of the scratch, whose lanes are claimed in this order and have accepted
  /// the recall. Errors: CheckWanted's; NOT_FOUND and DATA_LOSS from reading; RESOURCE_EXHAUSTED
  /// for an indivisible reply that does not fit in a part; the sink's. None has a retry hint after
  /// the first part.
  [[nodiscard]] Status Run();

 private:
  Status AnswerLanes();
  Status AnswerLane(const RecallTarget& target, uint32_t index);
  /// Plans a lane after those in the part.
  Status PlanLane(const RecallTarget& target, uint32_t index);
  /// Returns the pages of the lane: the want's own, or `*selected`.
  StatusOr<const PageLists*> SelectPages(const RecallTarget& target, uint32_t index,
                                         PageLists* selected);
  /// Returns `selected` without kept heads, in the scratch.
  const PageLists* WithoutKept(const QueryWant& want, const PageLists& selected);
  /// Returns digests of a candidate range, and holds them for the lane if there is room. `digests`
  /// are the lane's, of this member and kind.
  StatusOr<DigestBlocks> DigestsOf(const MemberView& member, const DigestRange& range,
                                   SessionLane::MemberDigests& digests);
  /// Counts the units that a lane places as uses of their pages.
  static void CountUses(std::span<const MemberView> members, std::span<const uint32_t> pages);
  /// Adds the last planned lane to the part.
  void AddToPart(const RecallTarget& target, uint32_t index);
  std::span<const MemberView> MembersOf(const RecallTarget& target) const {
    return std::span(scratch_.members).subspan(target.first_member, target.num_members);
  }
  Caller CallerOf() const { return {shape_.tenant, args_.priority, args_.waits}; }
  /// Pages placed in a head of a lane whose units the worker does not hold; valid until the next
  /// call.
  std::span<const uint32_t> PagesToSend(const WantedLayers& want, uint32_t head,
                                        std::span<const uint32_t> placed);
  /// Bytes of a lane that count against a part's bound.
  uint64_t CostOf(const LanePlacement& lane) const;
  bool MayCut() const { return parts_written_ + 1 < reply_.max_parts; }
  /// Reads and writes the lanes of the part.
  Status WritePart();
  /// SessionSequence::CheckBytes of all targets. OK means that earlier reads are of the right
  /// bytes.
  Status CheckBytes();
  /// INTERNAL for a unit of another size than its codec has.
  Status AppendUnits(LanePlacement& lane, std::span<UnitBytes> units, ReplyPart* part) const;
  /// Adds a unit to the runs of codecs, where the worker accepts any.
  void AddCodec(UnitCodec codec, ReplyPart* part) const;
  /// Undoes the lanes of unwritten parts.
  void AbandonUnwritten();

  RecallParts& parts_;
  const SessionShape& shape_;
  const UnitCut& cut_;  ///< Cut of the shape.
  const RecallArgs& args_;
  const ReplyShape& reply_;
  RecallSink& sink_;
  LaneClaims::Claim& claim_;
  RecallScratch& scratch_;
  Duration planning_{0};
  size_t in_part_ = 0;       ///< Lanes in the part. One more may be planned.
  uint64_t part_cost_ = 0;   ///< CostOf of those lanes.
  uint64_t part_bytes_ = 0;  ///< Payload bytes of those lanes.
  size_t lanes_written_ = 0;
  uint32_t parts_written_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_RECALL_RUN_H_
