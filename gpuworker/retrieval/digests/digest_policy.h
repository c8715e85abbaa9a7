// SPDX-License-Identifier: Apache-2.0
//
// DigestPolicy: base of the policies that select by digests of pages. Layers with selectable pages
// keep digests; every recall precedes attention unless NeedsBlocking is overridden.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_DIGEST_POLICY_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_DIGEST_POLICY_H_

#include <memory>

#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/digests/digest_selector.h"
#include "gpuworker/retrieval/page_observer.h"

namespace quire::worker {

class DigestPolicy : public BudgetPolicy, public PageObserver {
 public:
  PageObserver* page_observer() override { return this; }
  std::optional<kernels::DigestKind> WantedDigests(uint32_t layer) const override;
  Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                        std::shared_ptr<const StoredDigests> digests) override;
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<bool> AddPage(uint32_t layer, uint32_t page, const void* units,
                         JointWork* work) override;
  Status Prepare(const SelectRequest& request, JointWork* work) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;

 protected:
  DigestPolicy(const PolicyContext& context, const DigestSelector::Options& scoring)
      : BudgetPolicy(context), selector_(context, scoring) {}
  /// Scoring as the sequence's options say.
  static DigestSelector::Options ScoringOf(const RetrievalOptions& options);
  DigestSelector& selector() { return selector_; }

 private:
  DigestSelector selector_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DIGESTS_DIGEST_POLICY_H_
