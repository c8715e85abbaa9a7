// SPDX-License-Identifier: Apache-2.0
//
// DecodeRun: decode steps of one model over one long document whose pages are in a server of
// another process, by several ways side by side: each way is a sequence of its own that runs the
// same tokens, a few at a time, in turns. Thread-safety: none.
#ifndef QUIRE_BENCH_DECODE_RUN_H_
#define QUIRE_BENCH_DECODE_RUN_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/emulated_link.h"
#include "client/client.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "gpuworker/engine/engine.h"

namespace quire::bench {

/// How a step gets its pages.
struct DecodeWay {
  std::string name;
  worker::RetrievalOptions retrieval;
};

/// The ways of the comparison, for a budget and a threshold tau. Each but the last two differs from
/// the one before it in one thing:
///   "freekv"      speculation, two buffers, a unit is one transfer: Quire
///   "blocking"    every recall precedes attention
///   "one_buffer"  and one buffer is in work at a time
///   "fragmented"  and every row is a transfer of its own
///   "arkvale"     that policy, blocking, one buffer, row by row
///   "shadowkv"    that policy, blocking
///   "resident"    the same budget of sinks and window: nothing is selected or recalled
std::vector<DecodeWay> DecodeWays(const worker::RetrievalOptions& budget, float tau);

struct DecodeFigures {
  std::vector<Duration> steps;  ///< Of one token each.
  double stall_seconds = 0;     ///< Of all steps, waiting for recalls and taking them in.
  uint64_t units_recalled = 0;
  uint64_t bytes_recalled = 0;
  uint64_t blocking_heads = 0;
  uint64_t recalls = 0;
};

struct DecodeComparison {
  std::map<std::string, DecodeFigures> ways;
  /// For two ways that took part: how much longer `slower` took, the median over the turns.
  double Ratio(const std::string& slower, const std::string& faster) const;

  std::map<std::string, std::vector<Duration>> turns;  ///< By way.
};

struct DecodeTurns {
  uint32_t warm_up_steps = 8;  ///< Of each way, not measured.
  uint32_t turns = 12;
  uint32_t steps_per_turn = 4;
};

/// Runs `ways` in turns.
StatusOr<DecodeComparison> CompareDecoding(const worker::Engine& engine,
                                           const DocumentName& document,
                                           std::span<const DecodeWay> ways,
                                           const DecodeTurns& turns);

/// The threshold at which about `share` of the KV heads are corrected in a step.
StatusOr<float> CalibrateThreshold(const worker::Engine& engine, const DocumentName& document,
                                   const worker::RetrievalOptions& budget, double share);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_RUN_H_
