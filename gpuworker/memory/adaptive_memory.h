// SPDX-License-Identifier: Apache-2.0
//
// AdaptiveMemory: which layers' caches are off the device in each step of a decode, ahead of need.
// From SpeContext, arXiv 2512.00722, section 6: Algorithm 2, over requests of any lengths. A
// decision alone: it moves nothing.
//
//   offloaded   as few layers as let the step's tokens fit (Eq. 7 and 8). Where lengths are near
//               the budget a layer gains little, and one token may need several at once. Then the
//               first of them leave some steps before, so that a step adds one layer at most.
//   written     layers that leave within `lead_steps` are written to the host by and by. When one
//               leaves, its memory is only freed.
//   back        a layer returns when the lengths over kReloadShare would do without it: one a
//               step.
//   preempted   the newest requests wait when the step does not fit with every layer off.
//
// The text offloads two layers of a prompt between S_2 and S_3; here they are three, as in
// Algorithm 2. Requests that start, as their prompts, may take several layers at once.
//
// A step adds one token to each request. Units: tokens, steps, layers. Thread-safety: none.
// Ownership: the model outlives it.
#ifndef QUIRE_GPUWORKER_MEMORY_ADAPTIVE_MEMORY_H_
#define QUIRE_GPUWORKER_MEMORY_ADAPTIVE_MEMORY_H_

#include <cstdint>
#include <span>

#include "gpuworker/memory/memory_model.h"

namespace quire::worker {

/// Memory of the next step. Layers [L - offloaded, L) are off the device.
struct StepMemory {
  uint32_t offloaded = 0;
  uint32_t written =
      0;  ///< Layers [L - written, L) are on the host, or on their way; >= offloaded.
  uint32_t preempted = 0;  ///< Requests, from the end of the list, that must not run.
};

class AdaptiveMemory {
 public:
  static constexpr uint32_t kLeadSteps = 64;

  explicit AdaptiveMemory(const MemoryModel* model, uint32_t lead_steps = kLeadSteps)
      : model_(model), lead_steps_(lead_steps) {}

  /// Call before each step with the requests' lengths, oldest first, those that just started
  /// included.
  StepMemory BeforeStep(std::span<const uint64_t> lengths);

  /// True if one more request of `tokens` tokens may start beside `lengths`: all of them fit, with
  /// every layer off, for the next `lead_steps` steps. Otherwise it waits.
  bool Admits(std::span<const uint64_t> lengths, uint64_t tokens) const;

 private:
  const MemoryModel* const model_;
  const uint32_t lead_steps_;
  uint32_t offloaded_ = 0;
  uint32_t written_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_ADAPTIVE_MEMORY_H_
