// SPDX-License-Identifier: Apache-2.0
//
// Time that a policy takes to select pages for all layers of one decoded token, by itself. The
// document's digests, or the keys of its tokens for a retrieval head, are random ones of the same
// number: times do not depend on what they are.
#ifndef QUIRE_BENCH_DECODE_SCORING_TIME_H_
#define QUIRE_BENCH_DECODE_SCORING_TIME_H_

#include <cstdint>

#include "gpuworker/device/device.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/retrieval/options.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::bench {

/// Median over `steps` tokens that follow `context_tokens`. The policy selects at the worker.
/// UNIMPLEMENTED for one that sees hidden states. Errors of MakePolicy besides.
StatusOr<Duration> TimeScoring(const worker::Engine& engine, worker::Device& device,
                               const worker::RetrievalOptions& retrieval, uint32_t context_tokens,
                               uint32_t steps);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_SCORING_TIME_H_
