// SPDX-License-Identifier: Apache-2.0
//
// WalkDecode: what AdaptiveMemory decides in every step of a decode, without decoding. Requests
// come in their order, all at the beginning. Each starts when it is admitted, grows by a token a
// step, and leaves when it has generated its tokens. One that is preempted waits before all others
// that wait, with its length.
//
// Units: tokens; steps from 0; bytes. Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_MEMORY_DECODE_WALK_H_
#define QUIRE_GPUWORKER_MEMORY_DECODE_WALK_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "gpuworker/memory/adaptive_memory.h"
#include "gpuworker/memory/memory_model.h"
#include "quire/status.h"

namespace quire::worker {

struct DecodeLoad {
  std::vector<uint64_t> prompts;  ///< Length of each request's prompt, at least one request.
  uint64_t generated = 0;         ///< Tokens that each generates, at least 1.
  uint32_t lead_steps = AdaptiveMemory::kLeadSteps;
};

enum class DecodeEventKind : uint8_t {
  kStarted,
  kPreempted,
  kFinished,
  kWriteBegins,
  kLayerLeaves,
  kLayerReturns,
};
/// "started", "layer leaves", ...
std::string_view Name(DecodeEventKind kind);

struct DecodeEvent {
  uint64_t step = 0;
  DecodeEventKind kind = DecodeEventKind::kStarted;
  uint32_t subject = 0;  ///< A request or a layer, from 0.
  uint64_t tokens = 0;   ///< Length of the request; of the longest one, for a layer.
};

struct DecodeWalk {
  std::vector<DecodeEvent> events;
  uint64_t steps = 0;
  uint32_t most_running = 0;    ///< Requests that ran at a time.
  uint32_t most_offloaded = 0;  ///< Layers off the device at a time.
  /// Layers that left in one step in which no request started.
  uint32_t most_left_in_a_step = 0;
  double most_bytes = 0;  ///< Eq. 7 with the step's tokens, the largest of all steps.
};

/// INVALID_ARGUMENT naming a request that does not fit by itself, and how far it would come.
StatusOr<DecodeWalk> WalkDecode(const MemoryModel& model, const DecodeLoad& load);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_DECODE_WALK_H_
