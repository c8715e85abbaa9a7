// SPDX-License-Identifier: Apache-2.0
//
// DecodeRun: decode steps of one model over one long document whose pages are in a server of
// another process, by several ways side by side: each way has sequences of its own that run the
// same tokens, a few at a time, in turns. Thread-safety: none.
#ifndef QUIRE_BENCH_DECODE_RUN_H_
#define QUIRE_BENCH_DECODE_RUN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/decode_lane.h"
#include "client/client.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "gpuworker/engine/engine.h"

namespace quire::bench {

/// The ways of the comparison, for a budget and a threshold tau. Of the first four each differs
/// from the one before it in one thing:
///   "freekv"      speculation, two buffers, a unit is one transfer: Quire
///   "blocking"    every recall precedes attention
///   "one_buffer"  and what a recall brings is converted a buffer after the other
///   "fragmented"  and every row is a fragment: in the server, on the way and into its slot
///   "arkvale"     that policy, as "fragmented" otherwise: its host keeps the device's order
///   "shadowkv"    that policy, blocking; it recalls values, and puts the keys to them itself
///   "resident"    the same budget of sinks and window: nothing is selected or recalled
///   "service"     "freekv" with what the spec has a service do (H3): units that came once are kept
///                 in the worker's memory, and attention goes on without what is later than
///                 `deadline`, which is then corrected late
/// All with what was published for their policy, but for the budget (published_options.h).
StatusOr<std::vector<DecodeWay>> DecodeWays(const worker::RetrievalOptions& budget,
                                            uint32_t page_tokens, float tau, Duration deadline);

struct DecodeFigures {
  std::vector<Duration> steps;  ///< Of one token of every sequence each.
  DecodeTotals totals;          ///< Of all steps.
};

/// A ratio over the turns.
struct RatioSpread {
  double median = 0;
  double lower_quartile = 0;
  double upper_quartile = 0;
  size_t turns = 0;
};
/// Of `ratios`, in any order; zeros for none.
RatioSpread SpreadOf(std::vector<double> ratios);

struct DecodeComparison {
  std::map<std::string, DecodeFigures> ways;
  /// How much longer `slower` took than `faster` in the same turn; nullopt unless both took part.
  std::optional<RatioSpread> Ratio(const std::string& slower, const std::string& faster) const;

  std::map<std::string, std::vector<Duration>> turns;  ///< By way.
};

/// Steps of every way.
struct DecodeTurns {
  uint32_t warm_up_steps = 8;  ///< Not measured.
  uint32_t turns = 12;
  uint32_t steps_per_turn = 4;
};

/// Runs `ways`, of so many `sequences` each, in turns: each round every way runs one, each time
/// another first.
StatusOr<DecodeComparison> CompareDecoding(const DecodeEngines& engines,
                                           const DocumentName& document,
                                           std::span<const DecodeWay> ways,
                                           const DecodeTurns& turns, uint32_t sequences);

/// CalibrateThreshold (calibrate_threshold.h) for steps such as those that ways are compared by.
StatusOr<float> CalibrateDecoding(const worker::Engine& engine, const DocumentName& document,
                                  const worker::RetrievalOptions& budget, double share);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_RUN_H_
