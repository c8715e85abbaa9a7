// SPDX-License-Identifier: Apache-2.0
//
// CellChooser: chooses the cells of each layer while a sparse prefill runs. A plan that has one
// learns what its rows look for in a layer (RowPlan::Asks) before the layer is read.
// Thread-safety: none. Policy without I/O.
#ifndef QUIRE_GPUWORKER_CONTEXT_HOPS_CELL_CHOOSER_H_
#define QUIRE_GPUWORKER_CONTEXT_HOPS_CELL_CHOOSER_H_

#include <cstdint>
#include <span>

#include "gpuworker/model/layer_view.h"

namespace quire::worker {

class CellChooser {
 public:
  virtual ~CellChooser() = default;
  /// Cells of `layer`, asked for after the plan was told its queries. None are hidden.
  virtual ViewCells Cells(uint32_t layer) const = 0;
  /// True when ReadKeys is to be called for `layer`.
  virtual bool ReadsKeys(uint32_t layer) const = 0;
  /// Keys of the visible cells, [cells][n_kv][d] with rotation, as the layer's rows attended to
  /// them.
  virtual void ReadKeys(uint32_t layer, std::span<const float> keys) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_HOPS_CELL_CHOOSER_H_
