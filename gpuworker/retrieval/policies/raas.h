// SPDX-License-Identifier: Apache-2.0
//
// RaasPolicy (RaaS): memory that stays bounded over long generations. A page that enters is kept
// until it is evicted. Every step stamps the pages whose weight is above 1e-4. Over the budget, the
// page with the oldest stamp goes for good. The weight is the softmax of Quest's bound over kept
// pages, per query head, then the mean over the group. Evicted pages have no share in it. Pages of
// the document go last, and only when they alone are too many: then the first query keeps the best
// of them. A page is recalled once, when it leaves the window.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_RAAS_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_RAAS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpuworker/retrieval/digests/digest_policy.h"

namespace quire::worker {

class RaasPolicy final : public DigestPolicy {
 public:
  static constexpr std::string_view kName = "raas";
  static constexpr float kAlpha = 1e-4f;
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                        std::shared_ptr<const StoredDigests> digests) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;

 private:
  struct Kept {
    uint32_t page = 0;
    uint64_t stamp = 0;
  };
  struct Layer {
    uint32_t document_pages = 0;
    uint32_t seen_end = 0;  ///< Candidates below have entered.
    uint64_t step = 0;
    std::vector<std::vector<Kept>> kept;  ///< [n_kv], ascending pages
  };
  explicit RaasPolicy(const PolicyContext& context);
  /// Weights of `pages`, the softmax over them. `scores` is of the group, [G][candidates].
  static std::vector<float> Pool(const SelectRequest& request, std::span<const float> scores,
                                 std::span<const uint32_t> pages);
  /// Takes in new candidates, stamps and evicts; appends what is kept to `selection`. `scores` as
  /// for Pool.
  static void Update(const SelectRequest& request, const Layer& layer,
                     std::span<const float> scores, std::vector<Kept>* kept, Selection* selection);

  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_RAAS_H_
