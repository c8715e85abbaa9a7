// SPDX-License-Identifier: Apache-2.0
//
// SparsePass: one sparse prefill (sparse_prefill.h). Layers run one after another over all rows, in
// blocks of bounded size, so that a layer's cached bytes load while the layer before computes. Rows
// that no later layer needs leave the residual stream. Internal to Decoder, which checks tokens.
// Ownership: borrows all it is given. Thread-safety: none; one for each prefill.
// Errors: INVALID_ARGUMENT for a plan whose rows are not there or not in order. INTERNAL for a view
// that lacks the cell of a row. Otherwise those of the views and of LayerMath.
#ifndef QUIRE_GPUWORKER_MODEL_SPARSE_SPARSE_PASS_H_
#define QUIRE_GPUWORKER_MODEL_SPARSE_SPARSE_PASS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/device/device_list.h"
#include "gpuworker/model/layer_math.h"
#include "gpuworker/model/sparse/attention_shares.h"
#include "gpuworker/model/sparse/row_attention.h"
#include "gpuworker/model/sparse/row_update.h"
#include "gpuworker/model/sparse/sparse_prefill.h"
#include "quire/status.h"

namespace quire::worker {

class SparsePass {
 public:
  SparsePass(const Model& model, const SparsePrompt& prompt, RowPlan* plan, LayerViews* views,
             RowUpdate update)
      : model_(model),
        c_(model.config),
        prompt_(prompt),
        plan_(plan),
        views_(views),
        math_(model),
        attention_(model),
        updates_(model, update) {}

  /// Rows that are computed at a time.
  static constexpr uint32_t kBlockRows = 512;

  /// Runs every layer. `logits` has room for [outputs of the last layer][vocab] floats; null when
  /// none are wanted.
  Status Run(float* logits);
  const SparsePrefillStats& stats() const { return stats_; }

 private:
  Status RunLayer(uint32_t layer);
  Status CheckRows(uint32_t layer, const LayerRows& rows) const;
  /// Tells the plan the queries of the rows that ask.
  Status Ask(uint32_t layer);
  /// Computes keys and values of `rows` and takes them into the view. Appends their deviations,
  /// unless `deviations` is null.
  Status RefreshOnly(uint32_t layer, const LayerView& view, std::span<const uint32_t> rows,
                     std::vector<double>* deviations);
  /// Ends the layer for the live rows. Those in `fresh` get new keys and values on the way.
  Status ComputeOutputs(uint32_t layer, const LayerView& view, std::span<const uint32_t> fresh);
  /// Tells the plan the queries of the block.
  Status TellQueries(uint32_t layer, std::span<const uint64_t> positions);
  /// Tells the plan the shares of the block, whose keys are in the view.
  Status TellShares(uint32_t layer, const LayerView& view, std::span<const uint64_t> positions);
  /// Keeps `rows` of the live ones in the stream.
  Status Narrow(std::span<const uint32_t> rows);
  /// Copies the stream of `rows`, which are live, to `to`.
  Status Gather(std::span<const uint32_t> rows, float* to);
  Status Logits(float* to);
  std::vector<uint64_t> PositionsOf(std::span<const uint32_t> rows) const;
  float* StreamAt(size_t row) const { return hidden_.as<float>() + row * c_.hidden_size; }

  const Model& model_;
  const ModelConfig& c_;
  const SparsePrompt prompt_;
  RowPlan* const plan_;
  LayerViews* const views_;
  LayerMath math_;
  RowAttention attention_;
  RowUpdater updates_;
  std::optional<AttentionShares> shares_;  ///< For plans that read them.
  SparsePrefillStats stats_;

  DeviceList<int32_t> places_;  ///< Rows that are gathered.
  std::vector<uint32_t> live_;  ///< Rows of the stream, ascending.
  DeviceBuffer hidden_;         ///< [live][h], the residual stream
  DeviceBuffer narrowed_;       ///< [live][h], the stream while it is narrowed
  DeviceBuffer block_;          ///< [block][h], rows that leave the stream
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_SPARSE_SPARSE_PASS_H_
