// SPDX-License-Identifier: Apache-2.0
//
// Decode steps of one model over one long document whose pages are in a server of another process,
// by several ways side by side: each way has sequences of its own that run the same tokens, a few
// at a time, in turns. Every way has its turns with each number of threads for the model's
// products, and counts with the one that is fastest for it. Thread-safety: none.
#ifndef QUIRE_BENCH_DECODE_DECODE_RUN_H_
#define QUIRE_BENCH_DECODE_DECODE_RUN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/decode/decode_lane.h"
#include "gpuworker/engine/engine.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/status.h"

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

/// Measurements of one way with one number of threads.
struct DecodeRun {
  std::vector<Duration> turns = {};
  std::vector<Duration> steps = {};  ///< Each computes one token of every sequence.
  DecodeTotals totals = {};          ///< Sums over all steps.
};

/// A ratio over the turns.
struct RatioSpread {
  double median = 0;
  double lower_quartile = 0;
  double upper_quartile = 0;
  size_t turns = 0;
};
/// Spread of `ratios`, in any order; zeros for none.
RatioSpread SpreadOf(std::vector<double> ratios);

struct DecodeComparison {
  /// By way, and by the threads that products had.
  std::map<std::string, std::map<uint32_t, DecodeRun>> ways;

  /// The number of threads with which the median of a way's steps is least. REQUIRES: it took part.
  uint32_t BestThreads(const std::string& way) const;
  const DecodeRun& Best(const std::string& way) const { return ways.at(way).at(BestThreads(way)); }
  /// How much longer `slower` took than `faster` in the same turn, each at its best number of
  /// threads; nullopt unless both took part.
  std::optional<RatioSpread> Ratio(const std::string& slower, const std::string& faster) const;
};

/// Steps of every way.
struct DecodeTurns {
  uint32_t warm_up_steps = 8;  ///< Not measured.
  uint32_t turns = 11;         ///< With each number of threads.
  uint32_t steps_per_turn = 4;
  /// Numbers of threads for the model's products, ascending.
  std::vector<uint32_t> threads = {1};

  /// Steps that a sequence runs.
  uint64_t steps() const {
    return warm_up_steps + uint64_t{turns} * steps_per_turn * threads.size();
  }
};
/// Numbers of threads to try for a model on the processor: one, and one for each CPU.
std::vector<uint32_t> ThreadsToTry();

/// Runs `ways`, of so many `sequences` each, in turns: each round every way runs one with every
/// number of threads, each time another first.
StatusOr<DecodeComparison> CompareDecoding(const DecodeEngines& engines,
                                           const DocumentName& document,
                                           std::span<const DecodeWay> ways,
                                           const DecodeTurns& turns, uint32_t sequences);

/// CalibrateThreshold (calibrate_threshold.h) for steps such as those that ways are compared by.
StatusOr<float> CalibrateDecoding(const worker::Engine& engine, const DocumentName& document,
                                  const worker::RetrievalOptions& budget, double share);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_DECODE_RUN_H_
