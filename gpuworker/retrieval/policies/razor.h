// SPDX-License-Identifier: Apache-2.0
//
// RazorPolicy (RazorAttention): static. Retrieval heads keep every page; the others keep
// sinks and the most recent pages, as many as the budget holds. Which heads retrieve is a property
// of the model: RetrievalOptions::retrieval_heads, or those that the engine finds. Where a
// compressed layer has one, all of them have slots for the longest context: a session has as many
// slots in every lane and head.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_RAZOR_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_RAZOR_H_

#include <vector>

#include "gpuworker/retrieval/budget_policy.h"

namespace quire::worker {

class RazorPolicy final : public BudgetPolicy {
 public:
  static constexpr std::string_view kName = "razor";
  static constexpr double kRetrievalShare =
      0.15;  ///< Share of the heads, evenly, when none are named.
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  CacheLayout Layout(uint32_t layer) const override;
  StatusOr<Selection> Select(const SelectRequest& request) override;

 private:
  explicit RazorPolicy(const PolicyContext& context);
  bool Retrieves(uint32_t layer, uint32_t head) const {
    return retrieves_[layer * num_kv_heads() + head];
  }

  bool AnyCompressedLayerRetrieves() const;

  const uint32_t max_pages_;     ///< Pages of the longest context.
  std::vector<bool> retrieves_;  ///< [num_layers][n_kv]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_RAZOR_H_
