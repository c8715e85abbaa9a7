// SPDX-License-Identifier: Apache-2.0
//
// Report of the costs by length (length_costs.h): object, table and plot. Pure functions.
#ifndef QUIRE_BENCH_DECODE_LENGTH_REPORT_H_
#define QUIRE_BENCH_DECODE_LENGTH_REPORT_H_

#include <optional>
#include <span>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/scatter_plot.h"
#include "apps/kit/output/table.h"
#include "bench/decode/length_costs.h"
#include "quire/status.h"

namespace quire::bench {

/// Makes the object. "by_length" and "agents" have a row for each way, "left_out" what did not
/// fit. "scoring" says of each policy and number of sequences how scoring grows, and from which
/// length it takes half of a step.
cli::Json LengthJson(const LengthCosts& costs);
/// The costs that LengthJson made `json` of. INVALID_ARGUMENT for another object.
StatusOr<LengthCosts> LengthCostsOf(const cli::Json& json);
/// Adds the rows of `earlier` that `costs` lacks. INVALID_ARGUMENT unless both are of one model and
/// one threshold.
[[nodiscard]] Status AddEarlier(const LengthCosts& earlier, LengthCosts* costs);

/// Makes a table of the rows.
cli::Table LengthTable(const LengthCosts& costs);
/// Plots the time of a token against the length: steps of every way and number of sequences, and
/// scoring of one sequence.
cli::ScatterPlot LengthPlot(const LengthCosts& costs);

/// How one policy's scoring grows, over lengths that ascend.
struct ScoringGrowth {
  /// Growth of scoring from the first length to the last, over that of the length: 1 is linear.
  double relative = 0;
  /// Largest share of a step.
  double largest_share = 0;
  /// From how many tokens on scoring takes half of a step or more, between the measured lengths in
  /// a straight line; nullopt if it does not. The first length if it always does.
  std::optional<double> half_of_step_tokens = {};
};
/// REQUIRES: there are costs, all with scoring.
ScoringGrowth GrowthOf(std::span<const LengthCost> costs);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_DECODE_LENGTH_REPORT_H_
