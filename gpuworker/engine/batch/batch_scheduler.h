// SPDX-License-Identifier: Apache-2.0
//
// BatchScheduler: which sequences run in the next step of a batch, and how many tokens of each. A
// pure decision: it moves no bytes, waits for nothing, and whoever asks carries it out.
//
// Rank. Sequences are served in the order in which they came, except that a level of priority is
// worth a head start of kHeadStart sequences. Ranks never change, so whoever came long enough ago
// goes first: nobody starves, whatever the priorities of those who come later.
//
// A step, in order of rank:
//   1. Sequences that run go on, and those that wait start, while there are places, tokens and slot
//      memory for them. One that waits and does not fit lets nobody who waits behind it pass; those
//      that run are not held up by it.
//   2. One that ran and has no room any more is preempted: it gives its slots back and waits in its
//      rank. Memory is given in order of rank, so the last to come is the first to go.
//   3. Each gets one token of the step; what is left goes to those that have more to run (prompts),
//      in order of rank.
// A sequence starts only where everybody's next page would still fit, so that it is not preempted
// in the step after.
//
// Units: tokens; slot memory in bytes. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_SCHEDULER_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_SCHEDULER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "gpuworker/memory/slot_demand.h"
#include "gpuworker/memory/slot_memory.h"
#include "quire/status.h"

namespace quire::worker {

struct BatchLimits {
  uint32_t max_running = 8;    ///< Sequences that have slots; at most step_tokens.
  uint32_t max_waiting = 64;   ///< Sequences that have not started yet.
  uint32_t step_tokens = 128;  ///< Tokens of one step, over all sequences.
  /// Slot memory of all sequences. Digests are not of it: 3 % of a document's cache where the
  /// policy scores here (spec H7), once for all sequences over it.
  uint64_t slot_bytes = uint64_t{4} << 30;
  /// When layers that select are off the device. They have all their pages there otherwise, within
  /// slot_bytes.
  OffloadRule offload = OffloadRule::kAlways;
  /// In place of slot_bytes: device memory of the model, of what steps work in, and of slots. Slots
  /// get what the others, as measured, leave of it. 0: not given.
  uint64_t device_bytes = 0;
};

/// INVALID_ARGUMENT naming the limit that is out of range.
Status Validate(const BatchLimits& limits);

class BatchScheduler {
 public:
  using Id = uint64_t;
  static constexpr uint64_t kHeadStart = 16;
  static constexpr uint32_t kMaxPriority = 15;

  /// `limits` are valid.
  explicit BatchScheduler(const BatchLimits& limits) : limits_(limits) {}

  struct Request {
    uint32_t priority = 0;  ///< 0 to kMaxPriority, higher goes first.
    SlotDemand demand;
    /// Below `dense_tokens` the prompt attends densely and takes `dense`. It is charged for
    /// `demand` where that is more, since it takes that next. No step crosses `dense_tokens`. The
    /// dense prompt fits alone.
    SlotDemand dense = {};
    uint64_t dense_tokens = 0;
    uint64_t num_tokens = 0;       ///< Tokens at the start.
    uint64_t pending = 0;          ///< Tokens to run after those; at least one.
    uint64_t most_tokens = 0;      ///< Most tokens that it can ever have.
    uint32_t max_step_tokens = 1;  ///< Most of its tokens in a step that is not dense.

    bool is_dense() const { return num_tokens < dense_tokens; }
    /// Bytes that it is charged for once it has `tokens`.
    uint64_t BytesAt(uint64_t tokens) const {
      const uint64_t within_budget = demand.Bytes(tokens);
      return is_dense() ? std::max(dense.Bytes(tokens), within_budget) : within_budget;
    }
  };
  /// Queues a sequence. INVALID_ARGUMENT for a priority out of range. RESOURCE_EXHAUSTED when it
  /// could not run even alone, naming what would fit, and with a retry hint when enough are
  /// waiting.
  StatusOr<Id> Add(const Request& request);

  struct Share {
    Id id = 0;
    uint32_t tokens = 0;
    friend bool operator==(const Share&, const Share&) = default;
  };
  struct Plan {
    std::vector<Id> preempt;  ///< Release their slots first.
    std::vector<Id> start;    ///< Take slots, for the first time or again; all of them run.
    std::vector<Share> run;
    bool empty() const { return run.empty(); }
  };
  /// Decides a step, and assumes that it is carried out. Empty only when there is no sequence.
  Plan Next();
  /// The slots of the sequences that run in a plan of Next, the first of their ranks first. Valid
  /// until a sequence changes.
  std::vector<SequenceLoad> Loads(const Plan& plan) const;

  // Results of a sequence that ran.

  /// The sequence has run `tokens` more. It has `pending` left to run, at least one.
  void OnStepDone(Id id, uint64_t tokens, uint64_t pending);
  /// It lost what it ran: it waits, in its rank, to run `pending` after `num_tokens`; without
  /// dense steps when `dense_tokens` is 0.
  void Restart(Id id, uint64_t num_tokens, uint64_t pending, uint64_t dense_tokens);
  /// It is over, wherever it was.
  void Remove(Id id);

  size_t running() const;
  size_t waiting() const;    ///< Sequences that have not started.
  size_t preempted() const;  ///< Sequences that had slots, and wait for new ones.
  /// Memory of the slots in use, with the last `offloaded` layers off.
  uint64_t slot_bytes(uint32_t offloaded = UINT32_MAX) const;

 private:
  enum class Phase : uint8_t { kWaiting, kRunning, kPreempted };
  struct Sequence {
    Id id = 0;
    Phase phase = Phase::kWaiting;
    Request request;  ///< num_tokens and pending as they are now.
  };
  /// Before whom a sequence goes; the id breaks ties.
  struct Rank {
    uint64_t place = 0;
    Id id = 0;
    auto operator<=>(const Rank&) const = default;
  };
  /// The rest of the step while it is planned.
  struct Room {
    uint32_t places;
    uint32_t tokens;
    uint64_t bytes;
    uint64_t next_pages = 0;  ///< Bytes of the next page of every sequence.
    bool somebody = false;    ///< Runs already.
  };
  static uint64_t NextPage(const Sequence& sequence);
  static bool Fits(const Sequence& sequence, const Room& room);
  static void Take(const Sequence& sequence, Room* room);
  /// Tokens after the first one that `sequence` may run within `room`.
  static uint32_t Extra(const Sequence& sequence, const Room& room);
  Sequence& Find(Id id) { return sequences_.at(ranks_.at(id)); }
  const Sequence& Find(Id id) const { return sequences_.at(ranks_.at(id)); }
  size_t Count(Phase phase) const;

  const BatchLimits limits_;
  std::map<Rank, Sequence> sequences_;
  std::map<Id, Rank> ranks_;
  Id next_id_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_SCHEDULER_H_
