// SPDX-License-Identifier: Apache-2.0
//
// InfLlmPolicy (spec E, InfLLM): blocks of 128 tokens, one set of blocks for all heads. A block is
// represented by the mean of its representatives' keys, four tokens a block: those that received
// the most attention from the queries of this sequence while they were in the window. Pages of the
// document never were in this sequence's window, so all their tokens represent them. A block's
// score is the sum over query heads of q.representative. Keys keep their positions. Recalls precede
// attention.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_INFLLM_H_
#define QUIRE_GPUWORKER_RETRIEVAL_INFLLM_H_

#include <deque>
#include <span>
#include <vector>

#include "gpuworker/retrieval/budget_policy.h"

namespace quire::worker {

class InfLlmPolicy final : public BudgetPolicy {
 public:
  static constexpr std::string_view kName = "infllm";
  static constexpr uint32_t kBlockTokens = 128;
  static constexpr uint32_t kRepresentatives = 4;  ///< Tokens of a block.
  static StatusOr<std::unique_ptr<RetrievalPolicy>> Make(const PolicyContext& context);
  static RetrievalOptions Published(uint32_t page_tokens);

  std::string_view name() const override { return kName; }
  bool WantsUnits(uint32_t layer) const override { return Layout(layer).selectable_pages > 0; }
  Status OnPageComplete(uint32_t layer, uint32_t page, const void* units) override;
  StatusOr<Selection> Select(const SelectRequest& request) override;
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override;

 private:
  /// A complete page that may still be in the window.
  struct Recent {
    std::vector<float> keys;      ///< [n_kv][p][d]
    std::vector<float> received;  ///< [n_kv][p] attention
  };
  struct Layer {
    std::deque<Recent> recent;
    std::vector<float> keys;  ///< [pages][n_kv][d] of the pages before those.
  };
  explicit InfLlmPolicy(const PolicyContext& context);
  /// The oldest recent page gets its representatives' key.
  void Represent(Layer* layer) const;
  /// Adds the attention that the window pays its own tokens for `query`.
  void Attend(std::span<const float> query, Layer* layer) const;
  /// Sum over query heads of q.key of `page`.
  float Score(const Layer& layer, std::span<const float> query, uint32_t page) const;

  const KvSpec spec_;
  Device* const device_;
  const uint32_t block_pages_;
  const uint32_t representatives_;  ///< Of a page.
  std::vector<Layer> layers_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_INFLLM_H_
