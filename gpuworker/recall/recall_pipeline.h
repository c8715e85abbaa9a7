// SPDX-License-Identifier: Apache-2.0
//
// RecallPipeline: the dialogue with a policy. For one token of one layer it asks the policy for a
// selection and has the missing units recalled (layer_recall.h).
//
//   before attention   NeedsBlocking; if a head blocks, Select for all heads, wait for the earlier
//                      step's prefetch, then recall the pages of the heads that block and wait
//   after attention    where no head has blocked, Select; then prefetch the other heads' pages for
//                      the next step
//
// A prefetch has a whole step's time. With an executor, arrived units are placed while other layers
// compute. After each layer the pipeline checks the next layers' recalls.
//
// Deferral. A selection that a device or a thread works on (RetrievalPolicy::BeginSelect) is not
// waited for after attention. The next layer's Ask collects it and sends its prefetch, behind that
// layer's own correction.
//
// Staleness. Every head has the position of the query whose selection it holds, and the policy
// compares with that query (SelectRequest::held). A head speculates on the selection of the token
// before, and blocks when that one has not been asked for.
//
// Deadline (RetrievalOptions::recall_deadline). Where the policy says MayBeLate, attention waits no
// longer than that and goes on with the pages that it has. A head that went on without what it
// waited for blocks at the next token, without a deadline. No head attends to a selection of more
// than two tokens ago, however slow the link. A late recall goes on, and is dropped only when a
// newer selection, known here, needs nothing of it. Without a deadline, or where heads hold nothing
// to attend to instead, attention waits as long as the recall takes.
//
// Errors. A failed prefetch is repeated before the next attention, without a deadline. When a
// recall that attention waits for fails, the token has no attention: the caller must not go on with
// this cache. Damaged units are recalled again a few times first.
//
// Thread-safety: none. Ownership: everything it is given outlives it.
#ifndef QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_
#define QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/threads/executor.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/cache/host_tier.h"
#include "gpuworker/device/device.h"
#include "gpuworker/device/joint_work.h"
#include "gpuworker/recall/layer_recall.h"
#include "gpuworker/recall/recall_channel.h"
#include "gpuworker/recall/recall_stats.h"
#include "gpuworker/retrieval/policy.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::worker {

class RecallPipeline {
 public:
  struct Dependencies {
    /// Its session brings the policy's recalled_part of a unit. Null when no layer has selectable
    /// pages.
    RecallChannel* channel = nullptr;
    BudgetCache* cache = nullptr;
    RetrievalPolicy* policy = nullptr;
    Device* device = nullptr;
    Clock* clock = nullptr;                     ///< The channel's client's.
    const RetrievalOptions* options = nullptr;  ///< Deadline; pooling and scale for the server.
    RecallStats* stats = nullptr;               ///< Added to; survives the pipeline.
    HostPages host = {};                        ///< Keeps units that come; nothing without a tier.
    Executor* executor = nullptr;  ///< Takes units in while layers compute; may be null.
  };
  explicit RecallPipeline(const Dependencies& dependencies);
  RecallPipeline(const RecallPipeline&) = delete;
  RecallPipeline& operator=(const RecallPipeline&) = delete;

  /// Adds to `work` what Ask takes on the device. Call it before that, when the token is in the
  /// table; launch `work` in between. With a deadline Ask does all itself: time tells first which
  /// query there is to compare with.
  [[nodiscard]] Status Prepare(uint32_t layer, const float* q, JointWork* work);
  /// Call when the token's K and V are in the cache; `q` is its [n_q][d] query on the device, which
  /// stays until AfterAttention.
  [[nodiscard]] Status BeforeAttention(uint32_t layer, const float* q);
  /// BeforeAttention in two halves: the sequences of a batch all ask before any of them waits. The
  /// deadline counts from `began`, so that a layer has one for all of them; from now when not
  /// given.
  [[nodiscard]] Status Ask(uint32_t layer, const float* q, std::optional<TimePoint> began = {});
  [[nodiscard]] Status Await(uint32_t layer);
  /// Call after Ask(layer) in a step of one token. For a policy that selects without queries, asks
  /// for all later layers that will have the same candidates. Their Ask then does nothing.
  [[nodiscard]] Status AskAhead(uint32_t layer);
  /// False while a prefetch of the layer is on its way, so that Ask would wait for it.
  bool IsReady(uint32_t layer) const {
    const LayerRecall& recall = lanes_[layer].recall;
    return !recall.in_flight() || recall.IsReady();
  }
  /// Call when its attention is done, with the same layer.
  [[nodiscard]] Status AfterAttention(uint32_t layer);
  /// Sends the prefetch of a selection that is being made (Deferral). Ask and Drain do; call it at
  /// the end of a step, when no further layer asks.
  [[nodiscard]] Status FlushDeferred();

  /// The selection of a layer between two tokens, from which another cache can be restored.
  struct LaneState {
    PageLists active;  ///< [n_kv] pages in attention; none for a layer without selectable pages.
    std::vector<uint64_t> held;  ///< [n_kv] the positions of the queries that selected them.
    std::vector<bool> late;      ///< [n_kv] heads that block at the next token.
    bool failed = false;         ///< All of them do.
  };
  /// Waits for recalls in flight, and returns every layer's state, [num_layers].
  StatusOr<std::vector<LaneState>> Drain();
  /// Recalls what `states`, from Drain, hold, into a cache without selected pages.
  [[nodiscard]] Status Restore(std::span<const LaneState> states);

  // Between two tokens. After an error the cache is good for nothing.

  /// Gives a layer that is whole the slots of its budget (BudgetCache::SetWhole), and recalls what
  /// is selected there.
  [[nodiscard]] Status LeaveDevice(uint32_t layer);
  /// Makes a layer whole, with what is selected. The caller fills its candidates before the next
  /// token.
  [[nodiscard]] Status MakeWhole(uint32_t layer);

 private:
  using Deadline = LayerRecall::Deadline;
  struct Lane {
    LayerRecall recall;
    std::optional<SelectRequest> unselected = {};  ///< A step in which no head blocks.
    std::optional<PlannedRecall> next = {};        ///< Leaves once nothing is in flight.
    std::optional<Deadline> awaited = {};          ///< Set while attention waits for `recall`.
    std::optional<PlannedRecall> retry = {};       ///< For all heads, if units come damaged.
    std::vector<uint64_t> expected = {};           ///< LayerRecall::ExpectedHeld
    std::vector<bool> late;                        ///< [n_kv] as in LaneState.
    bool asked_ahead = false;                      ///< AskAhead has asked for the coming step.
  };
  /// Until when attention that `request` is for waits, from `began` on.
  Deadline DeadlineOf(const SelectRequest& request, TimePoint began) const;
  /// A selection for the token that the layer has just taken.
  SelectRequest RequestFor(uint32_t layer, const float* q) const;
  /// Heads, [n_kv], that may not speculate at `position`, whatever the policy says.
  std::vector<bool> MustBlock(const Lane& lane, uint64_t position) const;
  /// Notes that the deadline has passed for the prefetch in flight, and for the correction of heads
  /// that `turned`.
  void OnDeadlinePassed(Lane& lane, const std::vector<bool>& turned);
  /// Asks for what this token's attention waits for.
  [[nodiscard]] Status AskForLayer(uint32_t layer, const float* q, TimePoint began);
  /// Selects for heads that block, and recalls for them behind the prefetch in flight.
  [[nodiscard]] Status AskForBlocking(const SelectRequest& request, std::vector<bool> blocking,
                                      Deadline deadline);
  /// Waits for the prefetch of the step before. LayerRecall::failed when it came to nothing.
  [[nodiscard]] Status FinishPrefetch(uint32_t layer, Deadline deadline);
  StatusOr<Selection> Select(const SelectRequest& request);
  /// State of a layer that selects, without anything in flight.
  LaneState StateOf(uint32_t layer) const;
  /// Recalls what `state` holds; EndRestore waits for it.
  [[nodiscard]] Status BeginRestore(uint32_t layer, const LaneState& state);
  [[nodiscard]] Status EndRestore(uint32_t layer, const LaneState& state);
  /// A recall of what `state` holds.
  PlannedRecall PlanOf(uint32_t layer, const LaneState& state) const;
  /// Recalls what must precede attention: the selection of heads that block, at least one.
  [[nodiscard]] Status Correct(const SelectRequest& request, Selection selection,
                               const std::vector<bool>& blocking, Deadline deadline);
  /// Recalls the next step's pages.
  [[nodiscard]] Status Prefetch(uint32_t layer);
  /// Selects for a step in which no head has blocked, and plans the recall.
  [[nodiscard]] Status Speculate(uint32_t layer);
  /// A recall of `selection` for `heads`.
  StatusOr<PlannedRecall> Plan(const SelectRequest& request, Selection selection,
                               std::vector<bool> heads) const;
  std::vector<bool> AllHeads() const;
  /// True for a layer that a selection is made for.
  bool Selects(uint32_t layer) const;
  /// Receives what has come for the layers after `layer`, without waiting.
  [[nodiscard]] Status ReceiveArrived(uint32_t layer);

  const Dependencies with_;
  const LayerRecall::Dependencies with_recall_;
  std::vector<Lane> lanes_;           ///< [num_layers]
  std::optional<uint32_t> deferred_;  ///< The layer whose selection is being made.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_
