// SPDX-License-Identifier: Apache-2.0
//
// PolicyTrial: one policy follows a stream of queries over one layer's pages, as the recall
// pipeline would drive it. Heads that block attend to their present selection, the others to that
// of the step before. Nothing is moved, only counted.
// Thread-safety: none.
// Ownership: the arguments outlive it.
#ifndef QUIRE_BENCH_POLICY_POLICY_TRIAL_H_
#define QUIRE_BENCH_POLICY_POLICY_TRIAL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "bench/policy/exact_attention.h"
#include "bench/policy/paged_rows.h"
#include "gpuworker/cache/page_table.h"
#include "gpuworker/retrieval/policy.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::bench {

/// Sums over steps and heads; those of several trials can be added.
struct PolicyFigures {
  std::vector<float> masses;  ///< Attention captured, for every step and query head.
  /// Share of the oracle's pages that were selected, summed over head-steps.
  double page_recall = 0;
  double output_error = 0;  ///< Relative L2 error, summed over query-head-steps.
  /// Share of attended pages that were attended in the step before, summed.
  double overlap = 0;
  uint64_t overlaps = 0;    ///< Head-steps with a step before.
  uint64_t head_steps = 0;  ///< KV heads, summed over steps.
  uint64_t layer_steps = 0;
  /// Head-steps whose recall preceded attention, after the first step.
  uint64_t corrected_heads = 0;
  uint64_t corrected_layers = 0;  ///< Layer-steps with such a head, after the first step.
  uint64_t bytes = 0;             ///< Bytes recalled after the first step, in 16-bit units.

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

/// Inputs of layers, [tokens][hidden_size], by layer.
using HiddenRows = std::map<uint32_t, std::vector<float>>;

/// The tokens of all steps, for policies that look at them. Outlives the trial.
struct TokenTrace {
  std::span<const TokenId> ids = {};
  const HiddenRows* hidden = nullptr;  ///< For policies that look at hidden states.
};

class PolicyTrial {
 public:
  /// Makes a trial in which the first `tokens` tokens of `rows` exist before the first step.
  /// `policy` was made from `context`.
  static StatusOr<PolicyTrial> Make(const worker::PolicyContext& context, const PagedRows& rows,
                                    std::unique_ptr<worker::RetrievalPolicy> policy,
                                    uint64_t tokens, const TokenTrace& trace = {});

  /// Runs a step with attention `exact` and `queries` [n_q][d]. It has as many tokens as the step
  /// before, or one more.
  [[nodiscard]] Status Step(const ExactAttention& exact, std::span<const float> queries,
                            float scale);

  const PolicyFigures& figures() const { return figures_; }
  /// [steps][n_kv] attended pages, without sinks and window.
  const std::vector<std::vector<std::vector<uint32_t>>>& history() const { return history_; }

 private:
  struct Head {
    std::vector<uint32_t> active;    ///< Attended pages, without sinks and window.
    std::vector<uint32_t> expected;  ///< Pages requested after the step before.
    std::set<uint32_t> resident;
    std::set<uint32_t> attended;  ///< All pages attended in the step before.
  };
  PolicyTrial(const worker::PolicyContext& context, const PagedRows& rows,
              std::unique_ptr<worker::RetrievalPolicy> policy);
  /// Tells the policy of the tokens from `first` to `end`, if it asks for them.
  [[nodiscard]] Status ShowTokens(uint64_t first, uint64_t end);
  /// Shows it the hidden states of these tokens, which have run then.
  [[nodiscard]] Status ShowHidden(uint64_t first, uint64_t end);
  /// Gives the policy what it asks for of the pages that are complete.
  [[nodiscard]] Status ShowDocument();
  [[nodiscard]] Status Grow(uint64_t tokens);
  [[nodiscard]] Status Decide(std::span<const float> queries);
  /// Makes `pages` resident and counts those that were not.
  void Recall(Head* head, const std::vector<uint32_t>& pages);
  void Measure(const ExactAttention& exact, std::span<const float> queries, float scale);
  double OutputError(const ExactAttention::Head& exact, uint32_t kv_head,
                     const std::set<uint32_t>& pages, std::span<const float> query,
                     float scale) const;
  /// The weights of a page whose keys the policy rewrites, in the form of ExactAttention.
  std::vector<float> RewrittenWeights(const ExactAttention::Head& exact, uint32_t kv_head,
                                      uint32_t page, std::span<const float> query,
                                      float scale) const;
  /// Adds the contribution of such a page to `out`. Returns the sum of its weights.
  double AddRewritten(const ExactAttention::Head& exact, uint32_t kv_head, uint32_t page,
                      std::span<const float> query, float scale, std::vector<double>* out) const;
  std::set<uint32_t> Attended(const Head& head) const;

  const worker::PolicyContext context_;
  const PagedRows* rows_;
  std::unique_ptr<worker::RetrievalPolicy> policy_;
  TokenTrace trace_;
  worker::PageTable table_;    ///< By the policy's layout.
  worker::PageTable nominal_;  ///< By the options' sinks and window, for the oracle's candidates.
  uint32_t complete_pages_ = 0;
  std::vector<Head> heads_;
  std::vector<uint64_t> held_;  ///< [n_kv] position of the query that chose `expected`; 0 for none.
  std::vector<std::vector<std::vector<uint32_t>>> history_;
  PolicyFigures figures_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_POLICY_TRIAL_H_
