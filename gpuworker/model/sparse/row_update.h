// SPDX-License-Identifier: Apache-2.0
//
// RowUpdater: takes computed keys and values into the cells of a view, over the cached ones or
// fused with them, and measures how far they are from those.
// Ownership: borrows the model. Thread-safety: none.
// Errors: INTERNAL for a position without a cell; otherwise the device's.
#ifndef QUIRE_GPUWORKER_MODEL_SPARSE_ROW_UPDATE_H_
#define QUIRE_GPUWORKER_MODEL_SPARSE_ROW_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/device/device_list.h"
#include "gpuworker/model/layer_math.h"
#include "gpuworker/model/layer_view.h"
#include "gpuworker/model/sparse/sparse_prefill.h"
#include "quire/status.h"

namespace quire::worker {

/// The cell of `position`, hidden or visible. None when the view has no such cell.
std::optional<uint64_t> CellOf(const ViewCells& cells, uint64_t position);

/// SamKV, Eq. 4, for one token and KV head: fresh = theta * fresh + (1 - theta) * cached, theta =
/// max(0, cosine). A vector of length 0 leaves `fresh` as it is.
void FuseRow(std::span<float> fresh, std::span<const float> cached);

class RowUpdater {
 public:
  RowUpdater(const Model& model, RowUpdate update)
      : device_(*model.device),
        num_kv_heads_(model.config.num_kv_heads),
        head_dim_(model.config.head_dim),
        update_(update) {}

  /// Takes rows whose k and v, [rows][n_kv][d], are on the device: those of `positions` that are in
  /// `taken`, both ascending. Fused rows are left in k and v. Appends the deviation of each row
  /// (RowPlan::Choose) to `deviations`, unless it is null.
  Status Take(const LayerView& view, std::span<const uint64_t> positions,
              std::span<const uint64_t> taken, float* k, float* v, std::vector<double>* deviations);

 private:
  /// Rows that lie side by side in k and v, and all or none of which have cached cells.
  struct Run {
    size_t first;  ///< Row
    std::vector<int32_t> cells;
    bool cached;
  };
  StatusOr<std::vector<Run>> RunsOf(const ViewCells& cells, std::span<const uint64_t> positions,
                                    std::span<const uint64_t> taken) const;
  /// Fuses fresh rows, on the device, with `cached`.
  Status Fuse(std::span<const float> cached, float* fresh) const;
  Status Measure(std::span<const float> cached, const float* fresh, size_t rows,
                 std::vector<double>* deviations) const;
  Status Write(const LayerView& view, const Run& run, const float* rows, void* cells);
  /// The contents of the run's cells, [rows][n_kv][d].
  StatusOr<std::vector<float>> Cached(const LayerView& view, const Run& run,
                                      const void* cells) const;
  StatusOr<std::vector<float>> Fetch(const float* from, size_t floats) const;
  size_t RowFloats() const { return num_kv_heads_ * head_dim_; }

  Device& device_;
  const size_t num_kv_heads_;
  const size_t head_dim_;
  const RowUpdate update_;
  DeviceList<int32_t> places_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_SPARSE_ROW_UPDATE_H_
