// SPDX-License-Identifier: Apache-2.0
//
// Time of a retrieval head beside the steps that it selects for, and messages of those steps.
// Thread-safety: none.
#ifndef QUIRE_BENCH_SPECONTEXT_HEAD_COSTS_H_
#define QUIRE_BENCH_SPECONTEXT_HEAD_COSTS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "gpuworker/engine/engine.h"
#include "gpuworker/head/head_weights.h"
#include "gpuworker/retrieval/options.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::bench {

struct HeadCosts {
  Duration step = {};        ///< Median of decode steps of one sequence.
  Duration head = {};        ///< Median of the head's part of such a step, by itself.
  Duration quest_step = {};  ///< Median step of Quest with the same budget.
  uint32_t steps = 0;
  uint32_t sequences = 0;        ///< Sequences of the batch whose messages are counted.
  double messages_per_step = 0;  ///< Messages for all its sequences and layers, a mean.

  double head_share() const;
};

/// Decodes `steps` tokens over `document`, whose tokens are `tokens`. `engine` has the head.
/// `budget` divides the slots, and says how far selections look back.
StatusOr<HeadCosts> MeasureHeadCosts(const worker::Engine& engine, const DocumentName& document,
                                     std::span<const TokenId> tokens,
                                     const worker::RetrievalOptions& budget, uint32_t steps);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_SPECONTEXT_HEAD_COSTS_H_
