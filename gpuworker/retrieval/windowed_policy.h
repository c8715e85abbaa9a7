// SPDX-License-Identifier: Apache-2.0
//
// WindowedPolicy: a policy for a model some of whose layers see only the last tokens. Those layers
// have the pages of their window, which is all that the model attends to. They have no sinks and
// no budget, and nothing is selected or recalled for them. The policy within decides about the
// other layers, and hears of those alone.
//
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_WINDOWED_POLICY_H_
#define QUIRE_GPUWORKER_RETRIEVAL_WINDOWED_POLICY_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

class WindowedPolicy final : public RetrievalPolicy {
 public:
  /// `windows` has one entry a layer: tokens that it sees, or 0 for a layer of `within`.
  /// `context_tokens`: no sequence is longer.
  WindowedPolicy(std::unique_ptr<RetrievalPolicy> within, std::vector<uint32_t> windows,
                 uint32_t page_tokens, uint64_t context_tokens);

  std::string_view name() const override { return within_->name(); }
  CacheLayout Layout(uint32_t layer) const override;
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override {
    return within_->NeedsBlocking(request);
  }
  StatusOr<Selection> Select(const SelectRequest& request) override {
    return within_->Select(request);
  }
  Status Prepare(const SelectRequest& request, JointWork* work) override {
    return within_->Prepare(request, work);
  }
  bool selects_ahead() const override { return within_->selects_ahead(); }
  StatusOr<bool> BeginSelect(const SelectRequest& request) override {
    return within_->BeginSelect(request);
  }
  bool MayBeLate(const SelectRequest& request) const override {
    return within_->MayBeLate(request);
  }
  PageObserver* page_observer() override { return observes_ ? &observer_ : nullptr; }
  TokenObserver* token_observer() override { return within_->token_observer(); }
  RetrievalHead* retrieval_head() override { return within_->retrieval_head(); }
  DraftFeatures* draft_features() override { return within_->draft_features(); }
  HiddenTap* hidden_tap() override { return within_->hidden_tap(); }
  uint32_t most_pass_tokens() const override { return within_->most_pass_tokens(); }
  const KeySource* key_source() const override { return within_->key_source(); }

 private:
  /// Passes on what is about layers without a window.
  class Observer final : public PageObserver {
   public:
    explicit Observer(const WindowedPolicy* policy) : policy_(*policy) {}
    std::optional<kernels::DigestKind> WantedDigests(uint32_t layer) const override;
    bool WantsUnits(uint32_t layer) const override;
    Status OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                          std::shared_ptr<const StoredDigests> digests) override;
    Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
    StatusOr<bool> AddPage(uint32_t layer, uint32_t page, const void* units,
                           JointWork* work) override;

   private:
    PageObserver* Of(uint32_t layer) const {
      return policy_.windows_[layer] > 0 ? nullptr : policy_.within_->page_observer();
    }
    const WindowedPolicy& policy_;
  };

  const std::unique_ptr<RetrievalPolicy> within_;
  const std::vector<uint32_t> windows_;
  const uint32_t page_tokens_;
  const uint64_t context_tokens_;
  const bool observes_;
  Observer observer_{this};
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_WINDOWED_POLICY_H_
