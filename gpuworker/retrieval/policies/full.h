// SPDX-License-Identifier: Apache-2.0
//
// FullPolicy: every page of every layer stays on the device; the exact answer, and what the other
// policies are compared with.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_FULL_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_FULL_H_

#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

class FullPolicy final : public RetrievalPolicy {
 public:
  static constexpr std::string_view kName = "full";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  CacheLayout Layout(uint32_t) const override { return {.everything = true}; }
  StatusOr<Selection> Select(const SelectRequest& request) override;
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override;

 private:
  explicit FullPolicy(uint32_t num_kv_heads) : num_kv_heads_(num_kv_heads) {}
  const uint32_t num_kv_heads_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_FULL_H_
