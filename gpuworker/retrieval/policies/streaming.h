// SPDX-License-Identifier: Apache-2.0
//
// StreamingPolicy: sinks and the most recent tokens, nothing else (StreamingLLM). The whole budget
// that the sinks leave is window; nothing is recalled. Unlike the paper, keys keep the positions
// that they were computed with, so that pages stay exchangeable with the other policies.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_STREAMING_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_STREAMING_H_

#include "gpuworker/retrieval/budget_policy.h"

namespace quire::worker {

class StreamingPolicy final : public BudgetPolicy {
 public:
  static constexpr std::string_view kName = "streaming";
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  StatusOr<Selection> Select(const SelectRequest& request) override;

 private:
  explicit StreamingPolicy(const PolicyContext& context);
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_STREAMING_H_
