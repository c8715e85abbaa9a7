// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/sparse/row_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quire::worker {

Status RowAttention::Attend(const LayerView& view, std::span<const uint64_t> positions,
                            const float* q, float* out) {
  const ViewCells& cells = *view.cells;
  const auto before = [&](uint64_t position) {
    return static_cast<size_t>(std::ranges::lower_bound(positions, position) - positions.begin());
  };
  const auto alone_from = std::ranges::lower_bound(cells.visible, cells.alone.first);
  const size_t first = before(cells.alone.first);
  const size_t end = std::max(first, before(cells.alone.end));
  const size_t row_floats = size_t{c_.num_query_heads} * c_.head_dim;
  const auto attend = [&](size_t from, size_t to, size_t first_cell) {
    return AttendRows(view, first_cell, positions.subspan(from, to - from), q + from * row_floats,
                      out + from * row_floats);
  };
  QUIRE_RETURN_IF_ERROR(attend(0, first, 0));
  QUIRE_RETURN_IF_ERROR(
      attend(first, end, static_cast<size_t>(alone_from - cells.visible.begin())));
  return attend(end, positions.size(), 0);
}

Status RowAttention::AttendRows(const LayerView& view, size_t first_cell,
                                std::span<const uint64_t> positions, const float* q, float* out) {
  if (positions.empty()) return OkStatus();
  const ViewCells& cells = *view.cells;
  std::vector<int32_t> last_keys;
  std::vector<std::pair<size_t, size_t>> hidden;  // Row and hidden cell.
  for (size_t row = 0; row < positions.size(); ++row) {
    const auto end = std::ranges::upper_bound(cells.visible, positions[row]);
    const auto count = end - cells.visible.begin() - static_cast<std::ptrdiff_t>(first_cell);
    if (count <= 0 || *std::prev(end) != positions[row]) {
      const auto own = std::ranges::lower_bound(cells.hidden, positions[row]);
      if (own == cells.hidden.end() || *own != positions[row]) {
        return Internal("the view has no cell for position ", positions[row]);
      }
      hidden.emplace_back(row, own - cells.hidden.begin());
    }
    last_keys.push_back(static_cast<int32_t>(std::max<std::ptrdiff_t>(count, 1) - 1));
  }
  if (hidden.size() < positions.size()) {
    QUIRE_RETURN_IF_ERROR(AttendVisible(view, first_cell, last_keys, q, out));
  }
  const size_t row_floats = size_t{c_.num_query_heads} * c_.head_dim;
  for (const auto& [row, cell] : hidden) {
    const auto visible =
        std::ranges::lower_bound(cells.visible, positions[row]) - cells.visible.begin();
    QUIRE_RETURN_IF_ERROR(
        AttendHidden(view, cell, visible, q + row * row_floats, out + row * row_floats));
  }
  return OkStatus();
}

Status RowAttention::AttendVisible(const LayerView& view, size_t first_cell,
                                   std::span<const int32_t> last_keys, const float* q, float* out) {
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const last_key, last_keys_.Put(device_, last_keys));
  const size_t row_bytes = size_t{c_.num_kv_heads} * c_.head_dim * ElementBytes(view.dtype);
  const auto from = [&](const void* cells) {
    return static_cast<const std::byte*>(cells) + first_cell * row_bytes;
  };
  const size_t seen = view.cells->visible.size() - first_cell;
  return ToStatus(device_.kernels().dense_attention({.q = q,
                                                     .k = from(view.keys),
                                                     .v = from(view.values),
                                                     .last_key = last_key,
                                                     .out = out,
                                                     .t = static_cast<int64_t>(last_keys.size()),
                                                     .n = static_cast<int64_t>(seen),
                                                     .n_q = c_.num_query_heads,
                                                     .n_kv = c_.num_kv_heads,
                                                     .head_dim = c_.head_dim,
                                                     .scale = Scale(),
                                                     .dtype = view.dtype,
                                                     .stream = device_.stream()}),
                  "dense_attention");
}

Status RowAttention::AttendHidden(const LayerView& view, size_t hidden, uint64_t visible,
                                  const float* q, float* out) {
  constexpr uint64_t kPage = ViewCells::kPageCells;
  std::vector<int32_t> slots;
  std::vector<int32_t> rows;
  for (uint64_t at = 0; at < visible; at += kPage) {
    slots.push_back(static_cast<int32_t>(at / kPage));
    rows.push_back(static_cast<int32_t>(std::min(kPage, visible - at)));
  }
  slots.push_back(static_cast<int32_t>(view.cells->HiddenCell(hidden) / kPage));
  rows.push_back(1);
  std::vector<int32_t> of_heads;  // [n_kv][n_slots], the same for every head.
  for (uint32_t head = 0; head < c_.num_kv_heads; ++head) {
    of_heads.insert(of_heads.end(), rows.begin(), rows.end());
  }
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const on_device,
                         slots_.Put(device_, std::span<const int32_t>(slots)));
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const counts,
                         counts_.Put(device_, std::span<const int32_t>(of_heads)));
  return ToStatus(device_.kernels().paged_attention(
                      {.q = q,
                       .k_pool = view.keys,
                       .v_pool = view.values,
                       .slots = on_device,
                       .valid_tokens = counts,
                       .out = out,
                       .num_slots = static_cast<int64_t>(view.cells->Capacity() / kPage),
                       .n_slots = static_cast<int64_t>(slots.size()),
                       .page_tokens = kPage,
                       .n_q = c_.num_query_heads,
                       .n_kv = c_.num_kv_heads,
                       .head_dim = c_.head_dim,
                       .scale = Scale(),
                       .dtype = view.dtype,
                       .stream = device_.stream()}),
                  "paged_attention");
}

float RowAttention::Scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_dim)); }

}  // namespace quire::worker
