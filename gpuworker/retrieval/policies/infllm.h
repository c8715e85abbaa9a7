// SPDX-License-Identifier: Apache-2.0
//
// InfLlmPolicy (InfLLM): blocks of 128 tokens, one set of blocks for all heads. A block's score is
// the sum over query heads of q.k, with k the mean key of its representative tokens
// (representatives.h). Representatives of a document are found when it is read into the store. The
// sequence's own queries find those of its pages. Keys keep their positions. Recalls precede
// attention.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_INFLLM_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_INFLLM_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/keys/representatives.h"
#include "gpuworker/retrieval/page_observer.h"

namespace quire::worker {

class InfLlmPolicy final : public BudgetPolicy, public PageObserver {
 public:
  static constexpr std::string_view kName = "infllm";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  PageObserver* page_observer() override { return this; }
  std::optional<kernels::DigestKind> WantedDigests(uint32_t layer) const override;
  Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                        std::shared_ptr<const StoredDigests> digests) override;
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;

 private:
  struct Layer {
    std::vector<float> stored;           ///< [document pages][n_kv][d] means
    std::optional<Representatives> own;  ///< Later pages; set by the first call.
  };
  explicit InfLlmPolicy(const PolicyContext& context);
  /// Where `layer` keeps its own pages.
  Representatives& Own(uint32_t layer);
  /// The mean key that `page` is scored by, [n_kv][d].
  std::span<const float> MeanOf(const Layer& layer, uint32_t page) const;
  /// Sum over query heads of q.key of `page`.
  float Score(const Layer& layer, std::span<const float> query, uint32_t page) const;

  const KvSpec spec_;
  Device* const device_;
  const uint32_t block_pages_;
  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_INFLLM_H_
