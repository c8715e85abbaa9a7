// SPDX-License-Identifier: Apache-2.0
//
// PolicyGrid: every policy on the synthetic stream (bench/stream) over a grid of its parameters,
// and the orderings expected between policies.
#ifndef QUIRE_BENCH_POLICY_POLICY_GRID_H_
#define QUIRE_BENCH_POLICY_POLICY_GRID_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/policy/policy_trial.h"
#include "common/base/status.h"

namespace quire::bench {

/// A point of the grid.
struct GridCell {
  uint32_t tokens = 0;       ///< N
  uint32_t page_tokens = 0;  ///< `p`
  uint32_t group_size = 0;   ///< G
  double cosine = 0;         ///< `c`
  double jump_rate = 0;      ///< `rho`
};

/// Names of the trials: the registered policies, "oracle", "freekv_tau_0.9", "speculation",
/// "correction" and "quest_mean_softmax". "speculation" and "correction" are freekv that never and
/// that always corrects. "quest_mean_softmax" is quest with the pooling of freekv.
std::vector<std::string> TrialNames();
/// The trials that Orderings compares.
std::vector<std::string> OrderedTrials();

/// Trials on one stream, and the exact attention that they are measured by.
class TrialSet {
 public:
  /// Makes each trial with the published options of its policy, except the budget of `options`
  /// (published_options.h). A key rank in `options` overrides that of policies that have one.
  static StatusOr<std::unique_ptr<TrialSet>> Make(const PagedRows& rows,
                                                  const worker::RetrievalOptions& options,
                                                  std::span<const std::string> names,
                                                  uint64_t tokens);
  [[nodiscard]] Status Step(uint64_t tokens, std::span<const float> queries, float scale);
  const std::map<std::string, PolicyTrial>& trials() const { return trials_; }

 private:
  TrialSet() = default;
  const PagedRows* rows_ = nullptr;
  ExactAttention exact_;
  std::map<std::string, PolicyTrial> trials_;
};

/// Effect of corrections over cells of one jump rate. Cells whose c is at most freekv's threshold
/// are left out. Their queries turn equally far in every step, and rounding decides which heads are
/// corrected.
struct JumpOrdering {
  uint64_t cells = 0;
  uint64_t jumps = 0;         ///< Steps in which the queries of a KV head moved to another topic.
  uint64_t corrected = 0;     ///< Cells in which freekv corrects some selection.
  uint64_t not_improved = 0;  ///< Cells of `corrected` in which it captures no more than without.
  double freekv_mass = 0;
  double speculation_mass = 0;

  void Add(const JumpOrdering& other);
  bool improves() const { return freekv_mass > speculation_mass; }
};

/// Counts of cells that violate the expected orderings of captured attention. The orderings of
/// estimates are also compared by sums over cells. Every cell must satisfy them, except those of
/// corrections. A selection is an estimate, and in a cell with few jumps the older one may capture
/// more by chance. Corrections must gain in the mean of each jump rate.
struct Orderings {
  uint64_t cells = 0;
  uint64_t oracle_below_quest = 0;
  uint64_t quest_below_streaming = 0;
  /// Cells where "correction" ever selects other pages than quest with the same pooling.
  uint64_t correction_differs_from_quest = 0;
  /// Cells where "speculation" ever differs from the same quest of one step before.
  uint64_t speculation_is_not_a_step_old = 0;
  double quest_mass = 0;
  double streaming_mass = 0;
  std::map<double, JumpOrdering> by_jump_rate;  ///< By jump rates above 0.

  /// Adds a cell in which `jumps` happened (JumpOrdering::jumps).
  void Add(const GridCell& cell, const TrialSet& set, uint64_t jumps);
  void Add(const Orderings& other);
  /// True if the orderings hold. False if some rate has no jump: nothing then shows the effect of
  /// corrections.
  bool hold() const;
};

struct GridOptions {
  uint32_t steps = 16;
  uint64_t seed = 1;             ///< Contexts of each shape have queries of their own in addition.
  uint32_t max_tokens = 131072;  ///< Longer contexts are left out.
  uint32_t key_rank = 0;         ///< RetrievalOptions::key_rank
  uint32_t threads = 2;          ///< Cells that run at a time; the result does not depend on it.
  std::vector<uint32_t> page_tokens = {16, 32, 64};
  std::vector<uint32_t> group_sizes = {1, 4, 7};
  std::vector<std::string> trials = TrialNames();  ///< Includes OrderedTrials().
};

/// Figures over cells, by policy.
using FiguresByPolicy = std::map<std::string, PolicyFigures>;

struct GridResult {
  FiguresByPolicy all;
  std::map<std::string, FiguresByPolicy> by_value;  ///< "c=0.95", "rho=0.01", "N=8192", ...
  Orderings orderings;
};

/// Runs the grid; reports progress on stderr. The budget is a sixteenth of the context, plus sinks
/// and window of 128 tokens each.
StatusOr<GridResult> RunGrid(const GridOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_POLICY_GRID_H_
