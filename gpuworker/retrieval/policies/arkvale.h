// SPDX-License-Identifier: Apache-2.0
//
// ArkValePolicy (ArkVale, NeurIPS 2024). A page's digest is the centre of its keys and their mean
// distance from it in each channel. A page scores q.centre + sum |q_c| distance_c; the heads of a
// group agree by the mean of raw scores. Recalls precede attention.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_ARKVALE_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_ARKVALE_H_

#include <memory>

#include "gpuworker/retrieval/digests/digest_policy.h"

namespace quire::worker {

class ArkValePolicy final : public DigestPolicy {
 public:
  static constexpr std::string_view kName = "arkvale";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }

 private:
  explicit ArkValePolicy(const PolicyContext& context)
      : DigestPolicy(context, {.kind = kernels::DigestKind::kCentreDeviation,
                               .pooling = kernels::Pooling::kAvgS}) {}
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_ARKVALE_H_
