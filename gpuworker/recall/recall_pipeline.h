// SPDX-License-Identifier: Apache-2.0
//
// RecallPipeline: select, diff, fetch, convert. For one token of one layer it asks the policy for a
// selection, recalls the units that are missing (one call for the layer), puts them into their
// slots through the layout kernel, reading them where the reply has them
// (streamed_placement.h), and makes the selection active.
//
//   before attention   if a head blocks, a selection is made for all of them; the earlier step's
//                      prefetch is waited for; then the heads that block are recalled (one call,
//                      of their pages only) and waited for
//   after attention    where no head has blocked, the selection is made; that of the other heads is
//                      asked for, for the next step
//
// So a prefetch has a whole step's time. With an executor, units that have come are taken into
// their slots while other layers compute: whoever drives the pipeline looks after each layer
// whether the next ones' have. A layer has one recall under way at most.
//
// A selection that a device or a thread is still at (RetrievalPolicy::BeginSelect) is not waited
// for after attention: the rest of the layer is given to the device behind it, or computed beside
// it. It is looked at when the next layer asks, and asked for behind that layer's correction.
//
// Staleness. Every head has the position of the query whose selection it holds, and the policy
// compares with that query (SelectRequest::held). A head speculates on the selection of the token
// before, and blocks when that one has not been asked for.
//
// Deadline (RetrievalOptions::recall_deadline). Where the policy says MayBeLate, a layer's
// attention waits no longer than that: it goes on with the pages that it has. A head that went on
// without what it waited for blocks at the next token, without a deadline. So a head attends to the
// selection of its query of two tokens ago at the oldest, however slow the link. What is late is
// let come, and given up only where a newer selection, if this end knows it, has nothing of what it
// brings. Without a deadline, or where heads hold nothing to attend to instead, attention waits as
// long as the recall takes.
//
// Errors. A prefetch that failed is asked for again before the next attention, and waited for
// without a deadline. A recall that is waited for and fails leaves the token without its attention:
// the caller must not go on with this cache. A reply that contradicts the page table is
// FAILED_PRECONDITION. Units that do not match their checksums are a failure like others: none of
// the lane's slots is attended to any more, here and in the session's map. They are asked for again
// a few times, with the server told which they were (docs/design/0028-damage-in-memory.md).
//
// Thread-safety: none. Ownership: everything it is given outlives it.
#ifndef QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_
#define QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/status.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/cache/host_tier.h"
#include "gpuworker/device/device.h"
#include "gpuworker/recall/recall_channel.h"
#include "gpuworker/recall/streamed_placement.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

/// Totals. A layer-step is a step of a layer that a selection was made for.
struct RecallStats {
  uint64_t recalls = 0;           ///< Calls sent; a selection that is resident sends none.
  uint64_t bytes_moved = 0;       ///< Payload bytes that recalls brought.
  uint64_t selections = 0;        ///< Layer-steps.
  uint64_t units_selected = 0;    ///< Units of every selection, resident or not.
  uint64_t nan_scores = 0;        ///< Scores that were NaN, of selections made here.
  uint64_t units_missed = 0;      ///< Those of them that were brought.
  uint64_t units_landed = 0;      ///< Those of them that the server wrote into the staging area.
  uint64_t units_from_host = 0;   ///< Units selected that the host tier had.
  uint64_t units_damaged = 0;     ///< Units sent, or of the host tier, that did not match.
  uint64_t blocking_layers = 0;   ///< Layer-steps with a head that blocked.
  uint64_t blocking_heads = 0;    ///< Heads that blocked, over all layer-steps.
  uint64_t late_prefetches = 0;   ///< Layer-steps whose prefetch missed the deadline.
  uint64_t late_corrections = 0;  ///< Layer-steps that went on without a correction.
  /// Waiting for recalls and taking in what they brought: the host, and (PagedRun::Ran) attention
  /// on a device that the host is ahead of.
  Duration stalled = {};

  /// What was added since `before`.
  RecallStats operator-(const RecallStats& before) const;
};

class RecallPipeline {
 public:
  struct Dependencies {
    /// Of a session that brings what the policy asks for of a unit
    /// (RetrievalPolicy::recalled_part). Null when no layer has selectable pages.
    RecallChannel* channel = nullptr;
    BudgetCache* cache = nullptr;
    RetrievalPolicy* policy = nullptr;
    Device* device = nullptr;
    Clock* clock = nullptr;                     ///< The channel's client's.
    const RetrievalOptions* options = nullptr;  ///< Deadline; pooling and scale for the server.
    RecallStats* stats = nullptr;               ///< Added to; survives the pipeline.
    HostPages host = {};  ///< Units, as they come, kept in host memory; none without a tier.
    Executor* executor = nullptr;  ///< Takes units in while layers compute; may be null.
  };
  explicit RecallPipeline(const Dependencies& dependencies);

  /// Call when the token's K and V are in the cache; `q` is its [n_q][d] query on the device, which
  /// stays until AfterAttention.
  [[nodiscard]] Status BeforeAttention(uint32_t layer, const float* q);
  /// BeforeAttention in two halves: the sequences of a batch all ask before any of them waits. The
  /// deadline counts from `began`, so that a layer has one for all of them; from now when not
  /// given.
  [[nodiscard]] Status Ask(uint32_t layer, const float* q, std::optional<TimePoint> began = {});
  [[nodiscard]] Status Await(uint32_t layer);
  /// False while what the layer has asked for ahead is on its way, so that Ask would wait for it.
  bool HasCome(uint32_t layer) const {
    return lanes_[layer].under_way == nullptr || lanes_[layer].came();
  }
  /// Call when its attention is done, with the same layer.
  [[nodiscard]] Status AfterAttention(uint32_t layer);
  /// Asks for what was begun to be selected after attention. Ask and Drain do; call it at the end
  /// of a step, behind which no layer asks.
  [[nodiscard]] Status AskForBegun();

  /// What a layer holds between two tokens, so that another cache can be brought to the same.
  struct LaneState {
    PageLists active;  ///< [n_kv] pages in attention; none for a layer without selectable pages.
    std::vector<uint64_t> held;  ///< [n_kv] the positions of the queries that selected them.
    std::vector<bool> late;      ///< [n_kv] heads that block at the next token.
    bool failed = false;         ///< All of them do.
  };
  /// Waits for what is under way, and returns every layer's state, [num_layers].
  StatusOr<std::vector<LaneState>> Drain();
  /// Recalls what `lanes`, of Drain, hold, into a cache without selected pages.
  [[nodiscard]] Status Restore(std::span<const LaneState> lanes);

 private:
  /// Until when something is waited for; nullopt: for as long as it takes.
  using Patience = std::optional<TimePoint>;
  enum class Purpose : uint8_t { kPrefetch, kCorrection };
  /// A recall that is to be asked for, or has been.
  struct Wish {
    LayerWant want;
    uint64_t position = 0;    ///< The query that selects has it.
    std::vector<bool> heads;  ///< [n_kv] those that it selects for; the others keep their pages.

    bool by_query() const { return !want.query.empty(); }
  };
  /// What a layer waits for, and what is to be asked for after its attention.
  struct Lane {
    std::unique_ptr<LaneRecall> under_way;
    std::optional<RecallPart> part;              ///< What under_way brings, while
    std::unique_ptr<StreamedPlacement> placing;  ///< it is put into its slots,
    uint64_t bytes_to_come = 0;                  ///< of which so much has not come.
    PageLists pages;        ///< To be active when it has come; none for a query.
    uint64_t position = 0;  ///< As in the wish that is under way.
    std::vector<bool> heads;
    /// Of `pages`, those that the host tier gave when the recall was sent: not sent with it.
    std::vector<HostPages::Unit> held_units;
    bool failed = false;  ///< A recall came to nothing; no slot pretends otherwise.
    std::optional<SelectRequest> unselected;  ///< Of a step in which no head blocks.
    std::optional<Wish> deferred;             ///< Leaves once nothing is under way.
    std::optional<Patience> awaited;          ///< Attention waits for what is under way.
    std::optional<Wish>
        again;       ///< For what is awaited, of all heads: when units of it are damaged.
    PageLists told;  ///< A query's selection of all heads, when some keep their pages.
    std::vector<uint64_t> held;      ///< [n_kv] as in LaneState.
    std::vector<uint64_t> expected;  ///< [n_kv] held, once what is under way has come.
    std::vector<bool> late;          ///< [n_kv] as in LaneState.

    bool came() const { return part && bytes_to_come == 0; }
    /// Whether heads keep what they hold while a query selects.
    bool keeps_heads() const;
  };
  /// How long attention that `request` is for waits, from `began` on.
  Patience PatienceOf(const SelectRequest& request, TimePoint began) const;
  /// A selection for the token that the layer has just taken.
  SelectRequest RequestFor(uint32_t layer, const float* q) const;
  /// Heads, [n_kv], that may not speculate at `position`, whatever the policy says.
  std::vector<bool> MustBlock(const Lane& lane, uint64_t position) const;
  /// Computes lane.expected.
  static void Expect(Lane& lane);
  /// Has the heads whose part of what is under way is resident attend to it.
  [[nodiscard]] Status ActivateResident(uint32_t layer);
  /// The deadline has passed for what is under way, and for the correction of heads that `turned`.
  void GoOnWithout(Lane& lane, const std::vector<bool>& turned);
  /// Asks for what this token's attention waits for.
  [[nodiscard]] Status AskForLayer(uint32_t layer, const float* q, TimePoint began);
  /// Takes in what the step before asked for. Sets Lane::failed when it came to nothing.
  [[nodiscard]] Status TakePrefetched(uint32_t layer, Patience patience);
  StatusOr<Selection> Select(const SelectRequest& request);
  /// Asks for `wish` again after a recall that came damaged, a few times, and waits for it. As
  /// Wait.
  StatusOr<bool> AskAgain(const Wish& wish);
  /// A wish for what `lane` holds.
  Wish WishOf(uint32_t layer, const LaneState& lane) const;
  /// Asks for what must precede attention: the selection of heads that block, at least one.
  [[nodiscard]] Status Correct(const SelectRequest& request, Selection selection,
                               const std::vector<bool>& blocking, Patience patience);
  /// Asks for the next step's pages.
  [[nodiscard]] Status Prefetch(uint32_t layer);
  /// Selects for a step in which no head has blocked, to be asked for.
  [[nodiscard]] Status Speculate(uint32_t layer);
  /// Whether a newer selection has nothing of what the lane's prefetch brings.
  bool IsUseless(const Lane& lane, uint32_t layer, const Selection& newer) const;
  /// A wish for `selection` of `heads`.
  StatusOr<Wish> MakeWish(const SelectRequest& request, Selection selection,
                          std::vector<bool> heads) const;
  std::vector<bool> AllHeads() const;
  /// True for a layer that a selection is made for.
  bool Selects(uint32_t layer) const;
  /// Asks for `wish`, or makes it active when it is resident.
  [[nodiscard]] Status Start(Wish wish, Purpose purpose);
  /// Waits for what is under way and takes it in. True when it has come, false when the deadline
  /// passed first. After an error nothing is under way; Lane::failed tells whether it may be made
  /// up for.
  StatusOr<bool> Wait(uint32_t layer, Patience patience);
  /// Waits until `deadline` for all of what is under way, and has it put into its slots as it
  /// comes. As Wait.
  StatusOr<bool> Receive(uint32_t layer, Patience deadline);
  /// Begins to put a part into its slots, or goes on with a piece.
  [[nodiscard]] Status Take(uint32_t layer, RecallPart part);
  /// Gives up what is under way, and what has come of it.
  void Drop(uint32_t layer);
  /// Of what recalls bring of a unit.
  uint64_t UnitBytesRecalled() const;
  /// Whether units are to come in pieces, and of how many bytes; 0 for whole parts.
  uint32_t PieceBytes(uint32_t layer) const;
  /// Receives what has come for the layers after `layer`, as far as it has, without waiting.
  [[nodiscard]] Status ReceiveArrived(uint32_t layer);
  /// Takes the units of `want` that the host tier has, and says in the want that they are held.
  std::vector<HostPages::Unit> TakeFromHost(LayerWant* want) const;
  /// Puts what the recall of the lane brought in order with what the lane holds, for its slots.
  StatusOr<ArrivedUnits> Gather(uint32_t layer) const;
  /// Tells the host tier what left the slots.
  void KeepEvicted(uint32_t layer, const RecallPart& part);
  /// Begins to put lane.part into its slots, as far as it has come.
  [[nodiscard]] Status StartPlacing(uint32_t layer);
  /// Takes in the part that is being put into its slots.
  [[nodiscard]] Status Settle(uint32_t layer, Patience patience);
  /// A unit of `part` does not match its checksum: the server is told of what it sent, and what the
  /// host tier had is dropped there.
  void TellDamage(uint32_t layer, const RecallPart& part,
                  const StreamedPlacement::Mismatch& mismatch) const;
  bool IsResident(const LayerWant& want) const;
  bool IsResident(uint32_t layer, uint32_t head, std::span<const uint32_t> pages) const;
  /// Makes `pages` the selection of `heads`, chosen by the query of `position`.
  [[nodiscard]] Status Activate(uint32_t layer, const PageLists& pages, uint64_t position,
                                const std::vector<bool>& heads);

  const Dependencies with_;
  std::vector<Lane> lanes_;        ///< [num_layers]
  std::optional<uint32_t> begun_;  ///< The layer whose selection the device is at.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_RECALL_PIPELINE_H_
