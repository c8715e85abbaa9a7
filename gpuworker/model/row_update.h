// SPDX-License-Identifier: Apache-2.0
//
// RowUpdater: takes computed keys and values into the cells of a view, over the cached ones or
// fused with them, and measures how far they are from those.
// Ownership: borrows the model. Thread-safety: none.
// Errors: INTERNAL for a position without a cell; otherwise the device's.
#ifndef QUIRE_GPUWORKER_MODEL_ROW_UPDATE_H_
#define QUIRE_GPUWORKER_MODEL_ROW_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpuworker/model/layer_math.h"
#include "gpuworker/model/layer_view.h"
#include "gpuworker/model/sparse_prefill.h"
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
  /// `taken`, both ascending. Appends the deviation of each (RowPlan::Choose) to `deviations`,
  /// unless it is null.
  Status Take(const LayerView& view, std::span<const uint64_t> positions,
              std::span<const uint64_t> taken, const float* k, const float* v,
              std::vector<double>* deviations);

 private:
  /// Rows that lie side by side in `k` and `v` and in the view.
  struct Run {
    size_t row;
    uint64_t cell;
    size_t count;
    bool cached;
  };
  StatusOr<std::vector<Run>> RunsOf(const LayerView& view, std::span<const uint64_t> positions,
                                    std::span<const uint64_t> taken) const;
  Status Fuse(const LayerView& view, const Run& run, const float* k, const float* v) const;
  Status Fused(const float* fresh, float* cell, size_t rows) const;
  Status Copy(const LayerView& view, const Run& run, const float* k, const float* v) const;
  Status Measure(const LayerView& view, const Run& run, const float* v,
                 std::vector<double>* deviations) const;
  size_t RowFloats() const { return num_kv_heads_ * head_dim_; }
  StatusOr<std::vector<float>> Fetch(const float* from, size_t rows) const;

  Device& device_;
  const size_t num_kv_heads_;
  const size_t head_dim_;
  const RowUpdate update_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_ROW_UPDATE_H_
