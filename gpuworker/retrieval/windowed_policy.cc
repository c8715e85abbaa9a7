// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/windowed_policy.h"

#include <utility>

namespace quire::worker {

WindowedPolicy::WindowedPolicy(std::unique_ptr<RetrievalPolicy> within,
                               std::vector<uint32_t> windows, uint32_t page_tokens,
                               uint64_t context_tokens)
    : within_(std::move(within)),
      windows_(std::move(windows)),
      page_tokens_(page_tokens),
      context_tokens_(context_tokens),
      observes_(within_->page_observer() != nullptr) {}

CacheLayout WindowedPolicy::Layout(uint32_t layer) const {
  return windows_[layer] > 0 ? WindowLayout(windows_[layer], page_tokens_, context_tokens_)
                             : within_->Layout(layer);
}

std::optional<kernels::DigestKind> WindowedPolicy::Observer::WantedDigests(uint32_t layer) const {
  const PageObserver* const observer = Of(layer);
  return observer != nullptr ? observer->WantedDigests(layer) : std::nullopt;
}

bool WindowedPolicy::Observer::WantsUnits(uint32_t layer) const {
  const PageObserver* const observer = Of(layer);
  return observer != nullptr && observer->WantsUnits(layer);
}

Status WindowedPolicy::Observer::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                                std::shared_ptr<const StoredDigests> digests) {
  PageObserver* const observer = Of(layer);
  if (observer == nullptr) return OkStatus();
  return observer->OnPrefillLayer(layer, num_pages, std::move(digests));
}

Status WindowedPolicy::Observer::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  PageObserver* const observer = Of(layer);
  return observer != nullptr ? observer->OnPageComplete(layer, page, units) : OkStatus();
}

StatusOr<bool> WindowedPolicy::Observer::AddPage(uint32_t layer, uint32_t page, const void* units,
                                                 JointWork* work) {
  PageObserver* const observer = Of(layer);
  if (observer == nullptr) return true;
  return observer->AddPage(layer, page, units, work);
}

}  // namespace quire::worker
