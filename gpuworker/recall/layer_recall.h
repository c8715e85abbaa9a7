// SPDX-License-Identifier: Apache-2.0
//
// LayerRecall: the recall of one layer that is in flight, from the request to the active selection.
// At most one is in flight at a time.
//
//            Start                   Receive                  Finish
//   idle ──────────────► in flight ───────────► IsReady ────────────────► idle, selection active
//    └─ resident: selection active      │            │
//                                      Drop, or an error: idle, nothing of it active
//
// Receive puts units into their slots as they come; with an executor other layers may compute
// meanwhile. Wait is Receive and Finish. Until Finish the page table knows nothing of the units.
//
// Errors. A recall that fails leaves nothing in flight. failed() is true if another recall may
// succeed: after an error of the channel, or a checksum mismatch (DATA_LOSS). Damaged units leave
// the layer's slots empty, here and in the session's map, and are reported to the server
// (docs/design/0028-damage-in-memory.md). A reply that contradicts the page table is
// FAILED_PRECONDITION.
//
// Thread-safety: none. Ownership: everything it is given outlives it.
#ifndef QUIRE_GPUWORKER_RECALL_LAYER_RECALL_H_
#define QUIRE_GPUWORKER_RECALL_LAYER_RECALL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/threads/executor.h"
#include "common/page/unit_sizes.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/cache/host_tier.h"
#include "gpuworker/recall/host_units.h"
#include "gpuworker/recall/recall_channel.h"
#include "gpuworker/recall/recall_stats.h"
#include "gpuworker/recall/streamed_placement.h"
#include "gpuworker/retrieval/key_source.h"
#include "gpuworker/retrieval/options.h"
#include "quire/clock.h"
#include "quire/recall.h"
#include "quire/status.h"

namespace quire::worker {

/// A recall that is to be made.
struct PlannedRecall {
  LayerWant want;
  uint64_t position = 0;    ///< Position of the query that selects.
  std::vector<bool> heads;  ///< [n_kv] heads whose selection it brings; the others keep theirs.
};

class LayerRecall {
 public:
  struct Dependencies {
    /// Its session brings values where there are `keys`, otherwise whole units. Null for a cache
    /// without selectable pages.
    RecallChannel* channel = nullptr;
    BudgetCache* cache = nullptr;
    const KeySource* keys = nullptr;            ///< Fills in keys that recalls do not bring.
    Clock* clock = nullptr;                     ///< The channel's client's.
    const RetrievalOptions* options = nullptr;  ///< How units are taken in.
    RecallStats* stats = nullptr;               ///< Added to.
    HostPages host = {};           ///< Keeps units that come, and gives those that it has.
    Executor* executor = nullptr;  ///< Takes units in while layers compute; may be null.
  };
  /// Until when something is waited for; nullopt: as long as the recall takes.
  using Deadline = std::optional<TimePoint>;

  LayerRecall(const Dependencies* with, uint32_t layer);

  bool in_flight() const { return recall_ != nullptr; }
  /// All of it has come, so that Wait does not wait for the channel.
  bool IsReady() const { return part_ && bytes_to_come_ == 0; }
  /// [n_kv] heads that it selects for. Valid while in flight.
  const std::vector<bool>& heads() const { return heads_; }
  /// True when it brings none of `pages`, [n_kv] ascending. False where that is not known, since
  /// the server selects. Something is in flight.
  bool BringsNoneOf(std::span<const std::vector<uint32_t>> pages) const;

  /// [n_kv] positions of the queries that selected what each head holds; 0 for none.
  const std::vector<uint64_t>& held() const { return held_; }
  void set_held(std::vector<uint64_t> positions) { held_ = std::move(positions); }
  /// held(), once what is in flight has come.
  std::vector<uint64_t> ExpectedHeld() const;
  /// The last recall came to nothing, and the heads may not rely on what they hold.
  bool failed() const { return failed_; }
  void set_failed(bool failed) { failed_ = failed; }

  /// Sends `plan`, or makes its selection active when it is resident. Nothing is in flight.
  [[nodiscard]] Status Start(PlannedRecall plan, Priority priority);
  /// Takes in what comes until `deadline`. True when all has come, false when the deadline passed.
  /// Something is in flight.
  StatusOr<bool> Receive(Deadline deadline);
  /// Receives, and makes the selection active. Results as Receive.
  StatusOr<bool> Wait(Deadline deadline);
  /// Starts `plan` again after a recall that came damaged, at most a few times, and waits for it.
  [[nodiscard]] Status Retry(const PlannedRecall& plan);
  /// Makes the selection active for heads whose pages are resident. Something is in flight.
  [[nodiscard]] Status ActivateResident();
  /// Cancels what is in flight, and empties the slots of what has come of it.
  void Drop();
  /// A recall of what the server selected for heads that kept what they hold. Returned once, after
  /// a recall by query has ended; nullopt otherwise.
  std::optional<PlannedRecall> TakeFollowUp() { return std::exchange(follow_up_, std::nullopt); }

 private:
  /// True for a query whose selection is not for all heads.
  bool KeepsHeads() const;
  UnitPart PartRecalled() const;
  CodecSet CodecsRecalled() const;
  UnitSizes SizesRecalled() const;
  /// Size of the pieces that units are to come in; 0 for whole parts.
  uint32_t PieceBytes() const;
  /// Takes a part or a further piece of it.
  [[nodiscard]] Status Take(RecallPart part);
  [[nodiscard]] Status StartPlacing();
  /// Puts verified units of `arrived` into the host tier.
  std::function<void(size_t, const Payload&)> KeepInHost(const ArrivedUnits& arrived) const;
  /// Ends a recall that is ready.
  [[nodiscard]] Status Finish(Deadline deadline);
  void Count(const RecallPart& part);
  /// Payload bytes of all units of a part.
  uint64_t SentBytes(const RecallPart& part) const;
  /// Tells the host tier which units left their slots.
  void TouchEvicted(const RecallPart& part) const;
  /// Reports a damaged unit to the server that sent it, or drops it from the host tier.
  void ReportDamage(const RecallPart& part, const StreamedPlacement::Mismatch& mismatch) const;
  bool IsResident(uint32_t head, std::span<const uint32_t> pages) const;
  bool IsResident(const PageLists& pages) const;
  /// Makes `pages` the selection of `heads`.
  [[nodiscard]] Status Activate(const PageLists& pages, const std::vector<bool>& heads);

  const Dependencies* const with_;
  const uint32_t layer_;
  // In flight.
  std::unique_ptr<ChannelRecall> recall_;  ///< Null when idle.
  PageLists pages_;                        ///< To become active; none when the server selects.
  uint64_t position_ = 0;                  ///< PlannedRecall::position
  std::vector<bool> heads_;                ///< PlannedRecall::heads
  HostUnits host_units_;                   ///< Units that are not sent.
  // Arriving.
  std::optional<RecallPart> part_;              ///< Set once placements have come.
  std::unique_ptr<StreamedPlacement> placing_;  ///< Puts the units of `part_` into slots.
  uint64_t bytes_to_come_ = 0;                  ///< Missing bytes of `part_`.
  // Ended.
  std::optional<PlannedRecall> follow_up_;
  std::vector<uint64_t> held_;  ///< [n_kv]
  bool failed_ = false;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_LAYER_RECALL_H_
