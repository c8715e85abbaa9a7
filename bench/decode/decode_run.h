// SPDX-License-Identifier: Apache-2.0
//
// Decode steps of one model over one long document whose pages are in a server of another process.
// Several ways are compared in turns. Each has its own sequences, and all run the same tokens.
// Every way runs with each number of threads for the model's products, and counts with its fastest.
// Thread-safety: none.
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

/// The ways of the comparison, for a budget and a threshold tau. Each of the first four differs
/// from the one before in one thing:
///   "freekv"      speculation, two buffers, a unit is one transfer: Quire
///   "blocking"    every recall precedes attention
///   "one_buffer"  and recalled units are converted one buffer after the other
///   "fragmented"  and every row is a fragment: in the server, in transit and into its slot
///   "arkvale"     that policy, otherwise as "fragmented": its host keeps the device's order
///   "shadowkv"    that policy, blocking; it recalls values, and reconstructs the keys itself
///   "resident"    the same budget of sinks and window: nothing is selected or recalled
///   "specontext"  that policy: one message brings what all layers lack, chosen before the step
///   "full"        every page resident: nothing is selected or recalled
///   "service"     "freekv" as a service would run it: recalled units are kept in the worker's
///                 memory, and attention proceeds without units later than `deadline`, which are
///                 then corrected late
/// All use the options published for their policy, except the budget (published_options.h).
StatusOr<std::vector<DecodeWay>> DecodeWays(const worker::RetrievalOptions& budget,
                                            uint32_t page_tokens, float tau, Duration deadline);

/// Measurements of one way with one number of threads.
struct DecodeRun {
  std::vector<Duration> turns = {};
  std::vector<Duration> steps = {};  ///< Times of steps; each computes one token of every sequence.
  DecodeTotals totals = {};          ///< Sums over all steps.
};

/// Spread of a ratio over the turns.
struct RatioSpread {
  double median = 0;
  double lower_quartile = 0;
  double upper_quartile = 0;
  size_t turns = 0;
};
/// The spread of `ratios`, in any order; zeros for none.
RatioSpread SpreadOf(std::vector<double> ratios);

struct DecodeComparison {
  /// Runs by way, and by number of threads for products.
  std::map<std::string, std::map<uint32_t, DecodeRun>> ways;

  /// The number of threads with the least median step time of a way. REQUIRES: it took part.
  uint32_t BestThreads(const std::string& way) const;
  const DecodeRun& Best(const std::string& way) const { return ways.at(way).at(BestThreads(way)); }
  /// The time of `slower` relative to `faster` in the same turn, each at its best number of
  /// threads; nullopt unless both took part.
  std::optional<RatioSpread> Ratio(const std::string& slower, const std::string& faster) const;
};

/// Number of turns and steps of every way.
struct DecodeTurns {
  uint32_t warm_up_steps = 8;  ///< Steps before the measurement.
  uint32_t turns = 11;         ///< Turns with each number of threads.
  uint32_t steps_per_turn = 4;
  /// Numbers of threads for the model's products, ascending.
  std::vector<uint32_t> threads = {1};

  /// Steps of a sequence.
  uint64_t steps() const {
    return warm_up_steps + uint64_t{turns} * steps_per_turn * threads.size();
  }
};
/// Numbers of threads to try for a model on this processor: one, and one per CPU.
std::vector<uint32_t> ThreadsToTry();

/// Runs `ways`, with `sequences` each, in turns. In each round every way runs one turn with every
/// number of threads, and the first way changes.
StatusOr<DecodeComparison> CompareDecoding(const DecodeEngines& engines,
                                           const DocumentName& document,
                                           std::span<const DecodeWay> ways,
                                           const DecodeTurns& turns, uint32_t sequences);

/// CalibrateThreshold (calibrate_threshold.h) for steps like those of the comparison.
StatusOr<float> CalibrateDecoding(const worker::Engine& engine, const DocumentName& document,
                                  const worker::RetrievalOptions& budget, double share);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_DECODE_RUN_H_
