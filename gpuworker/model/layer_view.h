// SPDX-License-Identifier: Apache-2.0
//
// LayerView: keys and values of one layer that the rows of a sparse prefill attend to, in memory of
// the device. Cells of the first part are in the order of positions and visible to every row at or
// behind them, unless it is alone. A hidden cell is visible to its own row alone: its token was not
// selected in this layer, but its output is wanted (SamKV, case 3).
#ifndef QUIRE_GPUWORKER_MODEL_LAYER_VIEW_H_
#define QUIRE_GPUWORKER_MODEL_LAYER_VIEW_H_

#include <cstdint>
#include <vector>

#include "quire/dtype.h"
#include "quire/status.h"

namespace quire::worker {

/// Positions of a layer's cells.
struct ViewCells {
  /// Hidden cells begin at a multiple of this many, each with as many to itself, so that paged
  /// attention can address it.
  static constexpr uint32_t kPageCells = 16;

  std::vector<uint64_t> visible;  ///< Ascending.
  std::vector<uint64_t> hidden;   ///< Ascending, none of them visible.
  /// One for each visible cell: whether it has cached bytes. Hidden cells have.
  std::vector<bool> cached;

  /// Rows at positions [first, end) see no visible cell before `first`; none by default.
  struct Alone {
    uint64_t first = 0;
    uint64_t end = 0;
  } alone;

  /// Index of the first cell of hidden cell `i`, in cells from the start of the arrays.
  uint64_t HiddenCell(size_t i) const { return (Pages(visible.size()) + i) * kPageCells; }
  /// Cells that the arrays have room for.
  uint64_t Capacity() const { return (Pages(visible.size()) + hidden.size()) * kPageCells; }

 private:
  static uint64_t Pages(uint64_t cells) { return (cells + kPageCells - 1) / kPageCells; }
};

/// One layer: cells and their contents, keys rotated to their positions.
struct LayerView {
  const ViewCells* cells = nullptr;
  void* keys = nullptr;    ///< [Capacity][n_kv][d] dtype; fresh rows are written into it.
  void* values = nullptr;  ///< [Capacity][n_kv][d] dtype
  DType dtype = DType::kF32;
};

/// Gives the views of the layers. Thread-safety: none.
class LayerViews {
 public:
  virtual ~LayerViews() = default;
  /// The view of `layer`, asked for once for each layer in order. The call may wait until its
  /// cached bytes are there, and starts to load those of the next layer. The view stays valid for
  /// as long as this object.
  virtual StatusOr<LayerView> View(uint32_t layer) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_LAYER_VIEW_H_
