// SPDX-License-Identifier: Apache-2.0
//
// ArkValePolicy (spec E): a page's digest is the centre of its keys and their mean distance from it
// in each channel; a page scores q.centre + sum |q_c| distance_c, the heads of a group agree by the
// mean of raw scores, and recalls precede attention. Everything that it selects is attended to.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_ARKVALE_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_ARKVALE_H_

#include <vector>

#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/digests/digest_selector.h"

namespace quire::worker {

class ArkValePolicy final : public BudgetPolicy {
 public:
  static constexpr std::string_view kName = "arkvale";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  std::optional<kernels::DigestKind> WantedDigests(uint32_t layer) const override;
  Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                        std::shared_ptr<const StoredDigests> digests) override;
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override;

 private:
  explicit ArkValePolicy(const PolicyContext& context);
  const uint32_t num_kv_heads_;
  DigestSelector selector_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_ARKVALE_H_
