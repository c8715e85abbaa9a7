// SPDX-License-Identifier: Apache-2.0
//
// PolicyGrid: every policy on the synthetic stream (bench/stream), over a grid of its parameters,
// and what must hold between them.
#ifndef QUIRE_BENCH_POLICY_GRID_H_
#define QUIRE_BENCH_POLICY_GRID_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/policy/policy_trial.h"
#include "common/base/status.h"

namespace quire::bench {

/// A point of the grid.
struct GridCell {
  uint32_t tokens = 0;       ///< N
  uint32_t page_tokens = 0;  ///< p
  uint32_t group_size = 0;   ///< G
  double cosine = 0;         ///< c
  double jump_rate = 0;      ///< rho
};

/// Names of what is tried: the registered policies, "oracle", "freekv_tau_0.9", and "speculation"
/// and "correction": freekv that never and that always corrects.
std::vector<std::string> TrialNames();

/// Trials that are fed by one stream, and the exact attention that they are measured with.
class TrialSet {
 public:
  /// `options` but for the policy's name.
  static StatusOr<std::unique_ptr<TrialSet>> Make(const PagedRows& rows,
                                                  const worker::RetrievalOptions& options,
                                                  uint64_t tokens);
  [[nodiscard]] Status Step(uint64_t tokens, std::span<const float> queries, float scale);
  const std::map<std::string, PolicyTrial>& trials() const { return trials_; }

 private:
  TrialSet() = default;
  const PagedRows* rows_ = nullptr;
  ExactAttention exact_;
  std::map<std::string, PolicyTrial> trials_;
};

/// Orderings of what policies capture (spec G.3), counted in cells; the orderings of estimates as
/// sums over cells besides. Each has to hold in every cell, but for what corrections are worth: a
/// selection is an estimate, and in a cell of few steps the older one may happen to capture more.
struct Orderings {
  uint64_t cells = 0;
  uint64_t oracle_below_quest = 0;
  uint64_t quest_below_streaming = 0;
  uint64_t correction_differs_from_quest = 0;  ///< Page for page, step for step.
  uint64_t speculation_is_not_a_step_old = 0;
  uint64_t jumps_corrected = 0;     ///< Cells with jumps in which freekv corrects some selection,
  uint64_t jumps_not_improved = 0;  ///< and of those the ones in which it captures no more for it.
  double quest_mass = 0;
  double streaming_mass = 0;
  double jumps_freekv_mass = 0;       ///< Summed over cells with jumps.
  double jumps_speculation_mass = 0;  ///< Likewise.

  void Add(const GridCell& cell, const TrialSet& set);
  void Add(const Orderings& other);
  /// Corrections: in more cells than not, and in the sum.
  bool hold() const {
    return oracle_below_quest + quest_below_streaming + correction_differs_from_quest +
                   speculation_is_not_a_step_old ==
               0 &&
           quest_mass > streaming_mass && 2 * jumps_not_improved <= jumps_corrected &&
           jumps_freekv_mass > jumps_speculation_mass;
  }
};

struct GridOptions {
  uint32_t steps = 16;
  uint64_t seed = 1;
  uint32_t max_tokens = 131072;  ///< Contexts that are longer are left out.
  uint32_t key_rank = 0;         ///< RetrievalOptions::key_rank
  uint32_t threads = 2;          ///< Cells at a time; the result is the same for any number.
  std::vector<uint32_t> page_tokens = {16, 32, 64};
  std::vector<uint32_t> group_sizes = {1, 4, 7};
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

#endif  // QUIRE_BENCH_POLICY_GRID_H_
