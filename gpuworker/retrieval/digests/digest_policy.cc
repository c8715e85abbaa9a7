// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/digests/digest_policy.h"

#include <utility>

namespace quire::worker {

DigestSelector::Options DigestPolicy::ScoringOf(const RetrievalOptions& options) {
  return {.kind = options.digest,
          .pooling = options.pooling,
          .scale = options.score_scale,
          .side = options.side};
}

std::optional<kernels::DigestKind> DigestPolicy::WantedDigests(uint32_t layer) const {
  if (Layout(layer).selectable_pages == 0) return std::nullopt;
  return selector_.WantedDigests();
}

Status DigestPolicy::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                    std::shared_ptr<const StoredDigests> digests) {
  if (!WantedDigests(layer)) return OkStatus();
  return selector_.OnPrefillLayer(layer, num_pages, std::move(digests));
}

Status DigestPolicy::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  if (!WantedDigests(layer)) return OkStatus();
  return selector_.OnPageComplete(layer, page, units);
}

StatusOr<bool> DigestPolicy::AddPage(uint32_t layer, uint32_t page, const void* units,
                                     JointWork* work) {
  if (WantedDigests(layer)) QUIRE_RETURN_IF_ERROR(selector_.AddPage(layer, page, units, work));
  return true;
}

Status DigestPolicy::Prepare(const SelectRequest& request, JointWork* work) {
  return selector_.Prepare(request, work);
}

StatusOr<Selection> DigestPolicy::Select(const SelectRequest& request) {
  return selector_.Select(request);
}

}  // namespace quire::worker
