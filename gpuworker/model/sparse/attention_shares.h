// SPDX-License-Identifier: Apache-2.0
//
// AttentionShares: how much of the attention of rows goes to spans of positions. The attention
// kernel measures it: over values that are 1 in the channel of a cell's span, and 0 elsewhere, its
// output is the share of each span. A call costs one more attention for each head_dim of spans.
// Ownership: borrows the model. Thread-safety: none.
// Errors: those of RowAttention and of the device.
#ifndef QUIRE_GPUWORKER_MODEL_SPARSE_ATTENTION_SHARES_H_
#define QUIRE_GPUWORKER_MODEL_SPARSE_ATTENTION_SHARES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/model/layer_math.h"
#include "gpuworker/model/layer_view.h"
#include "gpuworker/model/sparse/row_attention.h"
#include "gpuworker/model/sparse/sparse_prefill.h"
#include "quire/status.h"

namespace quire::worker {

class AttentionShares {
 public:
  /// Spans may leave positions out, but do not overlap.
  AttentionShares(const Model& model, std::span<const PositionSpan> spans)
      : device_(*model.device),
        c_(model.config),
        attention_(model),
        spans_(spans.begin(), spans.end()) {}

  /// [positions][spans], each a mean over query heads. `q` is [positions][n_q][d] on the device.
  StatusOr<std::vector<float>> Of(const LayerView& view, std::span<const uint64_t> positions,
                                  const float* q);

 private:
  size_t groups() const { return (spans_.size() + c_.head_dim - 1) / c_.head_dim; }
  /// Makes the values of each group of spans for the cells of the view.
  Status Mark(const LayerView& view);
  /// Adds what the heads of `out` say of a group: [positions][n_q][d].
  void AddGroup(size_t group, std::span<const float> out, std::vector<float>* shares) const;

  Device& device_;
  const ModelConfig& c_;
  RowAttention attention_;
  const std::vector<PositionSpan> spans_;
  const ViewCells* marked_ = nullptr;  ///< Cells that the marks are for.
  std::vector<DeviceBuffer> marks_;    ///< One of each group, [Capacity][n_kv][d].
  DeviceBuffer out_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_SPARSE_ATTENTION_SHARES_H_
