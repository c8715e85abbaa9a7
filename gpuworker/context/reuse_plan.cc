// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/reuse_plan.h"

#include <numeric>
#include <utility>

#include "gpuworker/context/positions.h"

namespace quire::worker {
namespace {

std::vector<uint32_t> Indices(uint32_t count) {
  std::vector<uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

ViewCells AllCells(const PromptLayout& layout, bool none_cached) {
  ViewCells cells;
  AppendRange(0, layout.tokens(), &cells.visible);
  cells.cached.assign(layout.question_first, !none_cached);
  cells.cached.resize(layout.tokens(), false);
  return cells;
}

LayerRows FixedRows::Rows(uint32_t layer) {
  LayerRows rows{.fresh = Indices(rows_), .outputs = Indices(rows_)};
  if (layer + 1 == num_layers_) rows.outputs = {rows_ - 1};
  return rows;
}

ReusePlan Computing(Positions positions, ViewCells cells, uint32_t num_layers) {
  ReusePlan plan;
  plan.rows = std::make_unique<FixedRows>(static_cast<uint32_t>(positions.size()), num_layers);
  plan.positions = std::move(positions);
  plan.layers.push_back(std::move(cells));
  return plan;
}

}  // namespace quire::worker
