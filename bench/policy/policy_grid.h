// SPDX-License-Identifier: Apache-2.0
//
// PolicyGrid: every policy on the synthetic stream (bench/stream), over a grid of its parameters,
// and what must hold between them.
#ifndef QUIRE_BENCH_POLICY_POLICY_GRID_H_
#define QUIRE_BENCH_POLICY_POLICY_GRID_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/policy/policy_trial.h"
#include "quire/status.h"

namespace quire::bench {

/// A point of the grid.
struct GridCell {
  uint32_t tokens = 0;       ///< N
  uint32_t page_tokens = 0;  ///< p
  uint32_t group_size = 0;   ///< G
  double cosine = 0;         ///< c
  double jump_rate = 0;      ///< rho
};

/// Names of what is tried: the registered policies, "oracle", "freekv_tau_0.9", "speculation" and
/// "correction", which are freekv that never and that always corrects, and "quest_mean_softmax",
/// quest that pools as freekv does.
std::vector<std::string> TrialNames();
/// Those of them that Orderings are between.
std::vector<std::string> OrderedTrials();

/// Trials that are fed by one stream, and the exact attention that they are measured with.
class TrialSet {
 public:
  /// Each with what was published for its policy, but for the budget of `options`
  /// (published_options.h), and their rank of keys where they name one.
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

/// What corrections are worth, over cells of one jump rate. Where c is no more than freekv's
/// threshold, queries turn as far in every step, and rounding decides which heads are corrected:
/// those cells are left out.
struct JumpOrdering {
  uint64_t cells = 0;
  uint64_t jumps = 0;         ///< Steps in which the queries of a KV head went to another topic.
  uint64_t corrected = 0;     ///< Cells in which freekv corrects some selection,
  uint64_t not_improved = 0;  ///< and of those the ones in which it captures no more for it.
  double freekv_mass = 0;
  double speculation_mass = 0;

  void Add(const JumpOrdering& other);
  bool improves() const { return freekv_mass > speculation_mass; }
};

/// Orderings of what policies capture (spec G.3), counted in cells; the orderings of estimates as
/// sums over cells besides. Each has to hold in every cell, but for what corrections are worth: a
/// selection is an estimate, and in a cell of few jumps the older one may happen to capture more.
/// They have to pay in the mean of each rate of jumps.
struct Orderings {
  uint64_t cells = 0;
  uint64_t oracle_below_quest = 0;
  uint64_t quest_below_streaming = 0;
  uint64_t correction_differs_from_quest = 0;  ///< That pools alike. Page for page, step for step.
  uint64_t speculation_is_not_a_step_old = 0;  ///< Beside the same.
  double quest_mass = 0;
  double streaming_mass = 0;
  std::map<double, JumpOrdering> by_jump_rate;  ///< Rates above 0.

  /// `jumps` happened in the cell (JumpOrdering::jumps).
  void Add(const GridCell& cell, const TrialSet& set, uint64_t jumps);
  void Add(const Orderings& other);
  /// Without a jump at some rate nothing shows what corrections are worth, and it is false.
  bool hold() const;
};

struct GridOptions {
  uint32_t steps = 16;
  uint64_t seed = 1;             ///< Contexts of each shape have queries of their own besides.
  uint32_t max_tokens = 131072;  ///< Contexts that are longer are left out.
  uint32_t key_rank = 0;         ///< RetrievalOptions::key_rank
  uint32_t threads = 2;          ///< Cells at a time; the result is the same for any number.
  std::vector<uint32_t> page_tokens = {16, 32, 64};
  std::vector<uint32_t> group_sizes = {1, 4, 7};
  std::vector<std::string> trials = TrialNames();  ///< OrderedTrials() are among them.
};

/// The figures of a policy over cells.
using FiguresByPolicy = std::map<std::string, PolicyFigures>;

struct GridResult {
  FiguresByPolicy all;
  std::map<std::string, FiguresByPolicy> by_value;  ///< "c=0.95", "rho=0.01", "N=8192", ...
  Orderings orderings;
};

/// Runs the grid; progress goes to stderr. The budget is a sixteenth of the context, with
/// sinks and window of 128 tokens more.
StatusOr<GridResult> RunGrid(const GridOptions& options);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_POLICY_GRID_H_
