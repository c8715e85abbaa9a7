// SPDX-License-Identifier: Apache-2.0
//
// FreeKvPolicy: speculative retrieval with fine-grained correction (spec A). Pages are selected as
// quest selects them, but a step attends to what the query of the step before selected, so that the
// recall has a whole step's time. A KV head whose query turned since then (the mean over its group
// of the cosines with the earlier queries is below tau) is corrected: its recall precedes
// attention. One selection serves corrected heads and the others.
//
// While all candidates fit, attention is full, so every recall blocks; so it does at the first step
// over the budget, which has nothing to speculate with.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_FREEKV_H_
#define QUIRE_GPUWORKER_RETRIEVAL_FREEKV_H_

#include <memory>
#include <span>
#include <vector>

#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/digest_selector.h"

namespace quire::worker {

/// For each KV head the mean over its group of the cosine of a query with the one before, both
/// [n_q][head_dim]; 0 for a query of length 0.
std::vector<double> GroupCosines(std::span<const float> now, std::span<const float> before,
                                 uint32_t num_kv_heads, uint32_t head_dim);

class FreeKvPolicy final : public BudgetPolicy {
 public:
  static constexpr std::string_view kName = "freekv";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  bool WantsDigests(uint32_t layer) const override;
  Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                        std::shared_ptr<const StoredDigests> digests) override;
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;
  std::vector<bool> NeedsBlocking(uint32_t layer, const float* q) override;
  bool MayBeLate(uint32_t layer) const override { return layers_[layer].speculates; }

 private:
  struct LayerState {
    std::vector<float> query;   ///< [n_q][d] of the step at hand, in host memory.
    std::vector<float> before;  ///< Of the step before.
    bool over_budget = false;   ///< There is a choice to make at this step.
    bool chose_before = false;  ///< There was one at the step before.
    bool speculates = false;    ///< Heads hold what the step before selected.
  };
  explicit FreeKvPolicy(const PolicyContext& context);

  const KvSpec spec_;
  Device* const device_;
  const double threshold_;
  DigestSelector selector_;
  std::vector<LayerState> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_FREEKV_H_
