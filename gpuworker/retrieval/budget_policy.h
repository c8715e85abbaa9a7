// SPDX-License-Identifier: Apache-2.0
//
// BudgetPolicy: what policies with a token budget have in common, the division of slots.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_BUDGET_POLICY_H_
#define QUIRE_GPUWORKER_RETRIEVAL_BUDGET_POLICY_H_

#include <vector>

#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

class BudgetPolicy : public RetrievalPolicy {
 public:
  /// Uncompressed layers hold everything; the others have `compressed`.
  CacheLayout Layout(uint32_t layer) const override {
    return uncompressed_[layer] ? CacheLayout{.everything = true} : compressed_;
  }

 protected:
  /// What the budget leaves for selected pages.
  static uint64_t SelectableTokens(const RetrievalOptions& options) {
    return options.budget_tokens - options.sink_tokens - options.window_tokens;
  }
  /// `window_tokens` and `selectable_tokens` are cut to what the longest sequence can use.
  BudgetPolicy(const PolicyContext& context, uint64_t window_tokens, uint64_t selectable_tokens);

 private:
  CacheLayout compressed_;
  std::vector<bool> uncompressed_;  ///< [num_layers]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_BUDGET_POLICY_H_
