// SPDX-License-Identifier: Apache-2.0
//
// SpeContextPolicy: pages that a retrieval head chose from the sequence's tokens, before the model
// runs them (SpeContext). A page weighs as much as its heaviest token; heads of a group agree by
// the maximum. One choice for each KV head serves all layers. The query is not looked at.
//
// The head computes on the processor, and keeps its keys of the whole sequence in host memory.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SPECONTEXT_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SPECONTEXT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gpuworker/head/retrieval_head.h"
#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/token_observer.h"

namespace quire::worker {

class SpeContextPolicy final : public BudgetPolicy, private TokenObserver {
 public:
  static constexpr std::string_view kName = "specontext";
  /// FAILED_PRECONDITION without a head, and for one that needs the model's hidden states.
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  StatusOr<Selection> Select(const SelectRequest& request) override;
  TokenObserver* token_observer() override { return this; }
  bool selects_ahead() const override { return true; }

 private:
  using PageWeightsOfHeads = std::vector<std::vector<float>>;

  explicit SpeContextPolicy(const PolicyContext& context);
  void OnTokens(std::span<const TokenId> tokens) override;
  /// Weights [n_kv][pages] of the token at `position`, counted from 1. Each is computed once.
  StatusOr<const PageWeightsOfHeads*> WeightsAt(uint64_t position);
  /// Gives the head the tokens that it has not had, those of the last pass together.
  Status CatchUp();

  const uint32_t page_tokens_;
  RetrievalHead head_;
  std::vector<TokenId> pending_;                    ///< Tokens that the head has not had.
  size_t last_pass_ = 0;                            ///< How many of them are of the last pass.
  std::map<uint64_t, PageWeightsOfHeads> weights_;  ///< By position, of the last pass.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SPECONTEXT_H_
