// SPDX-License-Identifier: Apache-2.0
//
// PolicyTrial: one policy follows a stream of queries over one layer's pages, as the recall
// pipeline would drive it: heads that block attend to what they select, the others to what they
// selected a step before. Nothing is moved; what would be is counted. Thread-safety: none.
// Ownership: what it is given outlives it.
#ifndef QUIRE_BENCH_POLICY_POLICY_TRIAL_H_
#define QUIRE_BENCH_POLICY_POLICY_TRIAL_H_

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "bench/policy/exact_attention.h"
#include "bench/policy/paged_rows.h"
#include "common/base/status.h"
#include "gpuworker/cache/page_table.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::bench {

/// Sums over steps and heads; several trials can be added up.
struct PolicyFigures {
  std::vector<float> masses;  ///< Attention captured, of every step and query head.
  double page_recall = 0;     ///< Of the oracle's pages, summed over head-steps.
  double output_error = 0;    ///< Relative L2, summed over query-head-steps.
  double overlap = 0;         ///< Of pages attended to with those of the step before.
  uint64_t overlaps = 0;      ///< Head-steps that have a step before.
  uint64_t head_steps = 0;    ///< KV heads.
  uint64_t layer_steps = 0;
  uint64_t corrected_heads = 0;   ///< Head-steps whose recall preceded attention, after the first.
  uint64_t corrected_layers = 0;  ///< Layer-steps with such a head, after the first.
  uint64_t bytes = 0;             ///< Recalled after the first step, in 16-bit units.

  void Add(const PolicyFigures& other);
  double mean_mass() const;
  double low_mass() const;  ///< The 5th percentile.
  double mean_recall() const;
  double mean_error() const;
  double mean_overlap() const;
  double head_rate() const;
  double layer_rate() const;
  double bytes_per_token() const;
};

class PolicyTrial {
 public:
  /// The first `tokens` tokens of `rows` are there before the first step. `context` is what
  /// `policy` was made of.
  static StatusOr<PolicyTrial> Make(const worker::PolicyContext& context, const PagedRows& rows,
                                    std::unique_ptr<worker::RetrievalPolicy> policy,
                                    uint64_t tokens);

  /// The step whose attention is `exact`, of `queries` [n_q][d]; it has as many tokens as the step
  /// before, or one more.
  [[nodiscard]] Status Step(const ExactAttention& exact, std::span<const float> queries,
                            float scale);

  const PolicyFigures& figures() const { return figures_; }
  /// [steps][n_kv] pages that were attended to besides sinks and window.
  const std::vector<std::vector<std::vector<uint32_t>>>& history() const { return history_; }

 private:
  struct Head {
    std::vector<uint32_t> active;    ///< Attended to, besides sinks and window.
    std::vector<uint32_t> expected;  ///< Asked for after the step before.
    std::set<uint32_t> resident;
    std::set<uint32_t> attended;  ///< In the step before, all pages.
  };
  PolicyTrial(const worker::PolicyContext& context, const PagedRows& rows,
              std::unique_ptr<worker::RetrievalPolicy> policy);
  /// Gives the policy what it asks for of the pages that are complete.
  [[nodiscard]] Status ShowDocument();
  [[nodiscard]] Status Grow(uint64_t tokens);
  [[nodiscard]] Status Decide(std::span<const float> queries);
  /// Makes `pages` resident and counts what was not.
  void Recall(Head* head, const std::vector<uint32_t>& pages);
  void Measure(const ExactAttention& exact, std::span<const float> queries, float scale);
  double OutputError(const ExactAttention::Head& exact, uint32_t kv_head,
                     const std::set<uint32_t>& pages, std::span<const float> query,
                     float scale) const;
  /// Logits' weights of a page whose keys the policy rewrites, as ExactAttention's.
  std::vector<float> RewrittenWeights(const ExactAttention::Head& exact, uint32_t kv_head,
                                      uint32_t page, std::span<const float> query,
                                      float scale) const;
  /// Adds what such a page gives to `out`; its weights' sum.
  double AddRewritten(const ExactAttention::Head& exact, uint32_t kv_head, uint32_t page,
                      std::span<const float> query, float scale, std::vector<double>* out) const;
  std::set<uint32_t> Attended(const Head& head) const;

  const worker::PolicyContext context_;
  const PagedRows* rows_;
  std::unique_ptr<worker::RetrievalPolicy> policy_;
  worker::PageTable table_;    ///< Of the policy's layout.
  worker::PageTable nominal_;  ///< Of the options' sinks and window, for the oracle's candidates.
  uint32_t complete_pages_ = 0;
  std::vector<Head> heads_;
  std::vector<uint64_t> held_;  ///< [n_kv] position of the query that chose `expected`; 0 for none.
  std::vector<std::vector<std::vector<uint32_t>>> history_;
  PolicyFigures figures_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_POLICY_TRIAL_H_
