// SPDX-License-Identifier: Apache-2.0
//
// QuestPolicy: scores every candidate page by its digests (an upper bound on its q.k products from
// min/max ones), agrees on one list for each KV head by group-consistent pooling, and takes the
// best k_sel pages (spec A.1; Quest with FreeKV's grouping). Recalls precede attention. Selection
// runs here, over digests on the device, or at the server, with the same kernels and the same
// result.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_QUEST_H_
#define QUIRE_GPUWORKER_RETRIEVAL_QUEST_H_

#include <vector>

#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/digest_store.h"

namespace quire::worker {

class QuestPolicy final : public BudgetPolicy {
 public:
  static constexpr std::string_view kName = "quest";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);

  std::string_view name() const override { return kName; }
  bool WantsDigests(uint32_t layer) const override;
  Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                        std::span<const std::byte> digests) override;
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;
  std::vector<bool> NeedsBlocking(uint32_t layer, const float* q) override;

 private:
  explicit QuestPolicy(const PolicyContext& context);
  /// Room for `pages` candidates in the scratch buffers.
  Status Reserve(uint32_t pages, uint32_t selected);
  Status Score(const SelectRequest& request);
  StatusOr<Selection> TopK(const SelectRequest& request);

  const KvSpec spec_;
  Device* const device_;
  const kernels::Pooling pooling_;
  const float score_scale_;
  const kernels::DigestKind digest_;
  const SelectionSide side_;
  std::vector<DigestStore> digests_;  ///< [num_layers]; stays empty with selection at the server
  DeviceBuffer pooled_query_;         ///< [n_kv][d] float, for modes that pool the query
  DeviceBuffer scores_;               ///< [n_q][candidates] float
  DeviceBuffer pooled_;               ///< [n_kv][candidates] float
  DeviceBuffer indices_;              ///< [n_kv][k_sel] int32
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_QUEST_H_
