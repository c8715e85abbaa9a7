// SPDX-License-Identifier: Apache-2.0
//
// BudgetPolicy: base of the policies with a token budget. It divides the slots, and has every
// recall precede attention.
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
  /// Every head.
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest&) override {
    return std::vector<bool>(num_kv_heads_, true);
  }

 protected:
  /// Divides as the options say. Selected pages have what sinks and window leave of the budget.
  explicit BudgetPolicy(const PolicyContext& context);
  /// `window_tokens` and `selectable_tokens` are cut to what the longest sequence can use.
  BudgetPolicy(const PolicyContext& context, uint64_t window_tokens, uint64_t selectable_tokens);
  uint32_t num_kv_heads() const { return num_kv_heads_; }

 private:
  const uint32_t num_kv_heads_;
  CacheLayout compressed_;
  std::vector<bool> uncompressed_;  ///< [num_layers]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_BUDGET_POLICY_H_
