// SPDX-License-Identifier: Apache-2.0
//
// SlotMemory: which layers of a batch's sequences are off the device in the next step. As
// AdaptiveMemory (SpeContext, arXiv 2512.00722, section 6), over the slots that are allocated:
// whole pages, pools that grow by several at a time, and sequences with layouts of their own. A
// decision alone: it moves nothing. BatchScheduler decides before who runs, and that fits with
// every layer off.
//
// Layers have been written before they leave, since every completed page goes to the store.
//
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_MEMORY_SLOT_MEMORY_H_
#define QUIRE_GPUWORKER_MEMORY_SLOT_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/memory/slot_demand.h"

namespace quire::worker {

/// When layers that select are off the device.
enum class OffloadRule : uint8_t {
  kAlways,        ///< Whatever the memory.
  kLayerByLayer,  ///< As few as let the slots fit (Algorithm 2).
  kAllAtOnce,     ///< All of them once one has to be; a rival, for comparisons.
};

/// One sequence of a step. Its demands live during the call.
struct SequenceLoad {
  const SlotDemand* demand = nullptr;
  /// Demand of a prompt that attends densely, which takes the larger one; null otherwise.
  const SlotDemand* dense = nullptr;
  uint64_t tokens = 0;       ///< After the step.
  uint64_t most_tokens = 0;  ///< Most that it can ever have.
  bool starts = false;       ///< It takes slots in this step.

  /// Bytes after `more` further tokens, with the last 0, 1, ... layers off: [num_layers + 1].
  std::vector<uint64_t> Bytes(uint32_t num_layers, uint64_t more) const;
};

class SlotMemory {
 public:
  /// Decides for a model with `num_layers` layers, and `slot_bytes` for slots.
  SlotMemory(OffloadRule rule, uint32_t num_layers, uint64_t slot_bytes)
      : rule_(rule),
        num_layers_(num_layers),
        slot_bytes_(slot_bytes),
        offloaded_(rule == OffloadRule::kAlways ? num_layers : 0) {}

  /// Decides a step with `loads`. Sequences that do not start have layers as decided last; where
  /// none goes on, nothing has to move.
  void BeforeStep(std::span<const SequenceLoad> loads);

  /// True if layers may be whole.
  bool may_keep() const { return rule_ != OffloadRule::kAlways; }
  /// The last `offloaded` layers are off.
  uint32_t offloaded() const { return offloaded_; }
  /// True if `layer` is whole, where it selects.
  bool IsWhole(uint32_t layer) const { return layer + offloaded_ < num_layers_; }

 private:
  const OffloadRule rule_;
  const uint32_t num_layers_;
  const uint64_t slot_bytes_;
  uint32_t offloaded_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_SLOT_MEMORY_H_
