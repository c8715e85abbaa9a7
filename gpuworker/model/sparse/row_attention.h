// SPDX-License-Identifier: Apache-2.0
//
// RowAttention: attention of rows at any positions over a view. A row sees the visible cells up to
// its own position, by an explicit mask, and its own cell where that is hidden.
// Ownership: borrows the model. Thread-safety: none.
// Errors: INTERNAL for a row without a cell; otherwise the device's.
#ifndef QUIRE_GPUWORKER_MODEL_SPARSE_ROW_ATTENTION_H_
#define QUIRE_GPUWORKER_MODEL_SPARSE_ROW_ATTENTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/device/device_list.h"
#include "gpuworker/model/layer_math.h"
#include "gpuworker/model/layer_view.h"
#include "quire/status.h"

namespace quire::worker {

class RowAttention {
 public:
  explicit RowAttention(const Model& model) : device_(*model.device), c_(model.config) {}

  /// out = attention of the rows at `positions`, ascending; q and out are [rows][n_q][d].
  Status Attend(const LayerView& view, std::span<const uint64_t> positions, const float* q,
                float* out);

 private:
  /// Attends from rows that see cells from `first_cell` on.
  Status AttendRows(const LayerView& view, size_t first_cell, std::span<const uint64_t> positions,
                    const float* q, float* out);
  /// Attends to the visible cells from `first_cell` on. Each row sees up to its last key, an index
  /// from there.
  Status AttendVisible(const LayerView& view, size_t first_cell, std::span<const int32_t> last_keys,
                       const float* q, float* out);
  /// Attends from one row whose cell is hidden cell `hidden`. `visible` cells are before it.
  Status AttendHidden(const LayerView& view, size_t hidden, uint64_t visible, const float* q,
                      float* out);
  float Scale() const;

  Device& device_;
  const ModelConfig& c_;
  DeviceList<int32_t> last_keys_;
  DeviceList<int32_t> slots_;
  DeviceList<int32_t> counts_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_SPARSE_ROW_ATTENTION_H_
