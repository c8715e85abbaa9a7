// SPDX-License-Identifier: Apache-2.0
//
// QuestPolicy: scores every candidate page by an upper bound on its q.k products from min/max
// digests, agrees on one list for each KV head by group-consistent pooling, and takes the best
// k_sel pages (spec A.1; Quest with FreeKV's grouping). Recalls precede attention. Selection runs
// here, over digests on the device, or at the server, with the same kernels and the same result.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_QUEST_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_QUEST_H_

#include <memory>
#include <vector>

#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/digests/digest_selector.h"

namespace quire::worker {

class QuestPolicy final : public BudgetPolicy {
 public:
  static constexpr std::string_view kName = "quest";
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
  explicit QuestPolicy(const PolicyContext& context);
  const uint32_t num_kv_heads_;
  DigestSelector selector_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_QUEST_H_
