// SPDX-License-Identifier: Apache-2.0
//
// EveryOutput: a plan that also computes the outputs of every fresh row of the last layer. It
// serves to compare the logits of all computed rows with those of full prefill. Thread-safety:
// none.
#ifndef QUIRE_GPUWORKER_CONTEXT_EVERY_OUTPUT_H_
#define QUIRE_GPUWORKER_CONTEXT_EVERY_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/model/sparse/sparse_prefill.h"

namespace quire::worker {

class EveryOutput final : public RowPlan {
 public:
  EveryOutput(std::unique_ptr<RowPlan> plan, uint32_t num_layers)
      : plan_(std::move(plan)), last_layer_(num_layers - 1) {}

  LayerRows Rows(uint32_t layer) override {
    LayerRows rows = plan_->Rows(layer);
    if (layer == last_layer_) rows_ = rows.outputs = rows.fresh;
    return rows;
  }
  bool ChoosesIn(uint32_t layer) const override {
    return layer != last_layer_ && plan_->ChoosesIn(layer);
  }
  std::vector<uint32_t> Choose(uint32_t layer, std::span<const double> deviations) override {
    return plan_->Choose(layer, deviations);
  }
  std::vector<uint32_t> Asks(uint32_t layer) override { return plan_->Asks(layer); }
  bool ReadsQueries(uint32_t layer) const override { return plan_->ReadsQueries(layer); }
  void ReadQueries(uint32_t layer, std::span<const uint64_t> positions,
                   std::span<const float> queries) override {
    plan_->ReadQueries(layer, positions, queries);
  }

  std::span<const PositionSpan> MeasuredSpans() const override { return plan_->MeasuredSpans(); }
  void ReadShares(uint32_t layer, std::span<const uint64_t> positions,
                  std::span<const float> shares) override {
    plan_->ReadShares(layer, positions, shares);
  }

  /// Rows whose logits follow, ascending. Known after the last layer's Rows.
  const std::vector<uint32_t>& rows() const { return rows_; }

 private:
  const std::unique_ptr<RowPlan> plan_;
  const uint32_t last_layer_;
  std::vector<uint32_t> rows_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_EVERY_OUTPUT_H_
