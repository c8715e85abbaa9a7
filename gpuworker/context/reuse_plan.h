// SPDX-License-Identifier: Apache-2.0
//
// ReusePlan: which tokens of a prompt over documents that were cached alone each layer attends to,
// and which of them it computes. Each method of reuse makes one, in a file of its name.
// Thread-safety: pure functions. Units: rows are tokens of the prompt, by position.
#ifndef QUIRE_GPUWORKER_CONTEXT_REUSE_PLAN_H_
#define QUIRE_GPUWORKER_CONTEXT_REUSE_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "gpuworker/context/prompt_layout.h"
#include "gpuworker/model/layer_view.h"
#include "gpuworker/model/sparse/sparse_prefill.h"

namespace quire::worker {

class CellChooser;

struct ReusePlan {
  std::vector<uint64_t> positions;  ///< Tokens that may be computed, ascending.
  std::vector<ViewCells> layers;    ///< Cells of each layer; one entry serves all layers.
  std::unique_ptr<RowPlan> rows;    ///< Rows are indices into `positions`.
  RowUpdate update = RowUpdate::kOverwrite;
  /// Chooses the cells while the plan runs, and outlives it; null: `layers` has them.
  CellChooser* chooser = nullptr;

  /// True where one view serves all layers: none leaves tokens out.
  bool reads_everything() const { return layers.size() == 1; }
  const ViewCells& cells(uint32_t layer) const {
    return layers.size() == 1 ? layers.front() : layers[layer];
  }
};

/// Every token visible in every layer. Those of documents are cached unless `none_cached`.
ViewCells AllCells(const PromptLayout& layout, bool none_cached = false);

/// Computes the same rows in every layer. In the last layer only the last row has an output.
class FixedRows final : public RowPlan {
 public:
  FixedRows(uint32_t rows, uint32_t num_layers) : rows_(rows), num_layers_(num_layers) {}
  LayerRows Rows(uint32_t layer) override;

 private:
  const uint32_t rows_;
  const uint32_t num_layers_;
};

/// Computes `positions`, ascending, in every layer.
ReusePlan Computing(std::vector<uint64_t> positions, ViewCells cells, uint32_t num_layers);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_REUSE_PLAN_H_
