// SPDX-License-Identifier: Apache-2.0
//
// ChunkAttention: what the tokens of a document attended to when they were computed behind others.
// AttentionCollector gathers it while a plan runs that computes whole documents. Layers that
// compute no outputs of documents are left out: the last one.
// Ownership: the collector borrows what it fills. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_CHUNK_ATTENTION_H_
#define QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_CHUNK_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/context/prompt_layout.h"
#include "gpuworker/model/sparse/sparse_prefill.h"

namespace quire::worker {

/// Masses of attention: sums over tokens, means over query heads and layers.
struct ChunkAttention {
  std::vector<double> inter;  ///< Mass on each document before it, in order.
  double intra = 0;           ///< Mass on itself.
  std::vector<float> tokens;  ///< Mass of each token on all documents before.
  double layers = 0;          ///< Layers that were measured; 0: it was not computed whole.
};

/// Runs `plan`, and fills `documents` with one entry for each document of the layout.
class AttentionCollector final : public RowPlan {
 public:
  AttentionCollector(std::unique_ptr<RowPlan> plan, const PromptLayout& layout,
                     std::vector<ChunkAttention>* documents);

  LayerRows Rows(uint32_t layer) override { return plan_->Rows(layer); }
  std::span<const PositionSpan> MeasuredSpans() const override { return spans_; }
  void ReadShares(uint32_t layer, std::span<const uint64_t> positions,
                  std::span<const float> shares) override;
  /// Turns sums over layers into means. Called after the run.
  static void Finish(std::vector<ChunkAttention>* documents);

 private:
  const std::unique_ptr<RowPlan> plan_;
  std::vector<PositionSpan> spans_;  ///< One for each document.
  std::vector<ChunkAttention>* const documents_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CACHECRAFT_CHUNK_ATTENTION_H_
