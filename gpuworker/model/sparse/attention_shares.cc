// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/sparse/attention_shares.h"

#include <algorithm>
#include <utility>

namespace quire::worker {

Status AttentionShares::Mark(const LayerView& view) {
  const ViewCells& cells = *view.cells;
  if (marked_ == &cells) return OkStatus();
  marks_.clear();
  const size_t row = size_t{c_.num_kv_heads} * c_.head_dim;
  for (size_t group = 0; group < groups(); ++group) {
    std::vector<std::byte> values(cells.Capacity() * row * ElementBytes(view.dtype));
    const auto mark = [&](uint64_t position, uint64_t cell) {
      const size_t end = std::min<size_t>(spans_.size(), (group + 1) * c_.head_dim);
      for (size_t span = group * c_.head_dim; span < end; ++span) {
        if (position < spans_[span].first || position >= spans_[span].end) continue;
        for (size_t head = 0; head < c_.num_kv_heads; ++head) {
          const size_t channel = head * c_.head_dim + span % c_.head_dim;
          StoreElement(values.data(), static_cast<int64_t>(cell * row + channel), view.dtype, 1);
        }
      }
    };
    for (size_t i = 0; i < cells.visible.size(); ++i) mark(cells.visible[i], i);
    for (size_t i = 0; i < cells.hidden.size(); ++i) mark(cells.hidden[i], cells.HiddenCell(i));
    QUIRE_ASSIGN_OR_RETURN(DeviceBuffer buffer, device_.Allocate(values.size()));
    QUIRE_RETURN_IF_ERROR(device_.CopyToDevice(buffer.data(), values.data(), values.size()));
    marks_.push_back(std::move(buffer));
  }
  marked_ = &cells;
  return OkStatus();
}

void AttentionShares::AddGroup(size_t group, std::span<const float> out,
                               std::vector<float>* shares) const {
  const size_t first = group * c_.head_dim;
  const size_t count = std::min<size_t>(spans_.size() - first, c_.head_dim);
  const size_t heads = c_.num_query_heads;
  const size_t positions = out.size() / (heads * c_.head_dim);
  for (size_t i = 0; i < positions; ++i) {
    float* const to = shares->data() + i * spans_.size() + first;
    for (size_t head = 0; head < heads; ++head) {
      const float* const from = out.data() + (i * heads + head) * c_.head_dim;
      for (size_t span = 0; span < count; ++span) {
        to[span] += from[span] / static_cast<float>(heads);
      }
    }
  }
}

StatusOr<std::vector<float>> AttentionShares::Of(const LayerView& view,
                                                 std::span<const uint64_t> positions,
                                                 const float* q) {
  QUIRE_RETURN_IF_ERROR(Mark(view));
  std::vector<float> out(positions.size() * c_.num_query_heads * c_.head_dim);
  const size_t bytes = out.size() * sizeof(float);
  if (out_.size_bytes() < bytes) {
    QUIRE_ASSIGN_OR_RETURN(out_, device_.Allocate(bytes));
  }
  std::vector<float> shares(positions.size() * spans_.size());
  for (size_t group = 0; group < groups(); ++group) {
    LayerView marked = view;
    marked.values = marks_[group].data();
    QUIRE_RETURN_IF_ERROR(attention_.Attend(marked, positions, q, out_.as<float>()));
    QUIRE_RETURN_IF_ERROR(device_.CopyToHost(out.data(), out_.data(), bytes));
    AddGroup(group, out, &shares);
  }
  return shares;
}

}  // namespace quire::worker
