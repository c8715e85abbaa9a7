// SPDX-License-Identifier: Apache-2.0
//
// SpeContextPolicy: pages that a retrieval head chose from the sequence's tokens, before the model
// runs them (SpeContext). A page weighs as much as its heaviest token; heads of a group agree by
// the maximum. One choice for each KV head serves all layers. The query is not looked at. A head of
// mode eagle also sees the model's hidden states of every token, those of a document included.
//
// RetrievalOptions::selection_memory looks back: a page weighs what it weighed at the tokens
// before, times 0.9 for each token since, if that is more. Heads then keep pages that were wanted a
// moment ago in place of pages that little is wanted of, and less moves from step to step. The
// published policy looks back on none (Published).
//
// The head computes on the processor, and keeps its keys of the whole sequence in host memory.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SPECONTEXT_H_
#define QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SPECONTEXT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gpuworker/head/draft_features.h"
#include "gpuworker/head/retrieval_head.h"
#include "gpuworker/retrieval/budget_policy.h"
#include "gpuworker/retrieval/token_observer.h"

namespace quire::worker {

class SpeContextPolicy final : public BudgetPolicy, private TokenObserver, private HiddenTap {
 public:
  static constexpr std::string_view kName = "specontext";
  /// FAILED_PRECONDITION without a head.
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  StatusOr<Selection> Select(const SelectRequest& request) override;
  TokenObserver* token_observer() override { return this; }
  bool selects_ahead() const override { return true; }
  RetrievalHead* retrieval_head() override { return &head_; }
  DraftFeatures* draft_features() override { return sees_hidden() ? &features_ : nullptr; }
  HiddenTap* hidden_tap() override { return sees_hidden() ? this : nullptr; }
  /// A token's features are those of the token before, which has to have run.
  uint32_t most_pass_tokens() const override { return sees_hidden() ? 1 : UINT32_MAX; }

 private:
  using PageWeightsOfHeads = std::vector<std::vector<float>>;

  explicit SpeContextPolicy(const PolicyContext& context);
  void OnTokens(std::span<const TokenId> tokens) override;
  bool Wants(uint32_t layer) const override { return features_.Wants(layer); }
  /// Gives the head what it can take, so that few features wait. Select has the error.
  void Take(uint32_t layer, std::span<const float> rows) override;
  /// Weights [n_kv][pages] of the token at `position`, counted from 1, by itself.
  StatusOr<const PageWeightsOfHeads*> OwnWeightsAt(uint64_t position);
  /// The same with what it looks back on. Each is computed once.
  StatusOr<const PageWeightsOfHeads*> WeightsAt(uint64_t position);
  bool sees_hidden() const { return weights_of_head_->mode == HeadMode::kEagle; }
  /// Gives the head the tokens that it has not had, those of the last pass together.
  Status CatchUp();
  /// Gives it the first `count` of them, with the features of the tokens before.
  Status Append(size_t count);
  /// How many of them have their features; all of them without features.
  size_t Ready() const;

  const uint32_t page_tokens_;
  const HeadWeights* const weights_of_head_;
  RetrievalHead head_;
  DraftFeatures features_;
  Status taken_;                  ///< First error of Take.
  std::vector<TokenId> pending_;  ///< Tokens that the head has not had.
  size_t last_pass_ = 0;          ///< How many of them are of the last pass.
  const uint32_t memory_;
  std::map<uint64_t, PageWeightsOfHeads> own_;      ///< By position, as far as memory reaches.
  std::map<uint64_t, PageWeightsOfHeads> weights_;  ///< By position, of the last pass.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_POLICIES_SPECONTEXT_H_
