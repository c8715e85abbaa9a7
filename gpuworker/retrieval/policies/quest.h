// SPDX-License-Identifier: Apache-2.0
//
// QuestPolicy (Quest, with FreeKV's grouping): scores every candidate page by an upper bound on its
// q.k products from min/max digests. Group-consistent pooling gives one list per KV head, and the
// best k_sel pages are selected. Recalls precede attention. Selection runs here, over digests on
// the device, or at the server, with the same kernels and the same result.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_QUEST_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_QUEST_H_

#include <memory>

#include "gpuworker/retrieval/digests/digest_policy.h"

namespace quire::worker {

class QuestPolicy final : public DigestPolicy {
 public:
  static constexpr std::string_view kName = "quest";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }

 private:
  explicit QuestPolicy(const PolicyContext& context)
      : DigestPolicy(context, ScoringOf(context.options)) {}
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_QUEST_H_
