// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/sparse/row_update.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire::worker {
namespace {

/// Index of `position` in an ascending list.
std::optional<size_t> Find(const std::vector<uint64_t>& positions, uint64_t position) {
  const auto at = std::ranges::lower_bound(positions, position);
  if (at == positions.end() || *at != position) return std::nullopt;
  return at - positions.begin();
}

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

double SquaredDistance(const float* a, const float* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const double difference = double{a[i]} - b[i];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

std::optional<uint64_t> CellOf(const ViewCells& cells, uint64_t position) {
  if (const auto visible = Find(cells.visible, position)) return *visible;
  if (const auto hidden = Find(cells.hidden, position)) return cells.HiddenCell(*hidden);
  return std::nullopt;
}

void FuseRow(std::span<float> fresh, std::span<const float> cached) {
  const double lengths = std::sqrt(Dot(fresh, fresh) * Dot(cached, cached));
  if (lengths == 0) return;
  const auto theta = static_cast<float>(std::clamp(Dot(fresh, cached) / lengths, 0.0, 1.0));
  for (size_t i = 0; i < fresh.size(); ++i) {
    fresh[i] = theta * fresh[i] + (1 - theta) * cached[i];
  }
}

Status RowUpdater::Take(const LayerView& view, std::span<const uint64_t> positions,
                        std::span<const uint64_t> taken, float* k, float* v,
                        std::vector<double>* deviations) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Run> runs, RunsOf(*view.cells, positions, taken));
  const size_t row = RowFloats();
  for (const Run& run : runs) {
    float* const keys = k + run.first * row;
    float* const values = v + run.first * row;
    if (run.cached && (deviations != nullptr || update_ == RowUpdate::kFusion)) {
      QUIRE_ASSIGN_OR_RETURN(const std::vector<float> cached, Cached(view, run, view.values));
      if (deviations != nullptr) {
        QUIRE_RETURN_IF_ERROR(Measure(cached, values, run.cells.size(), deviations));
      }
      if (update_ == RowUpdate::kFusion) {
        QUIRE_ASSIGN_OR_RETURN(const std::vector<float> old_keys, Cached(view, run, view.keys));
        QUIRE_RETURN_IF_ERROR(Fuse(old_keys, keys));
        QUIRE_RETURN_IF_ERROR(Fuse(cached, values));
      }
    } else if (deviations != nullptr) {
      deviations->insert(deviations->end(), run.cells.size(),
                         std::numeric_limits<double>::infinity());
    }
    QUIRE_RETURN_IF_ERROR(Write(view, run, keys, view.keys));
    QUIRE_RETURN_IF_ERROR(Write(view, run, values, view.values));
  }
  return OkStatus();
}

StatusOr<std::vector<RowUpdater::Run>> RowUpdater::RunsOf(const ViewCells& cells,
                                                          std::span<const uint64_t> positions,
                                                          std::span<const uint64_t> taken) const {
  std::vector<Run> runs;
  for (size_t row = 0, next = 0; row < positions.size() && next < taken.size(); ++row) {
    if (positions[row] != taken[next]) continue;
    ++next;
    const std::optional<uint64_t> cell = CellOf(cells, positions[row]);
    if (!cell) return Internal("the view has no cell for position ", positions[row]);
    const bool cached = *cell >= cells.visible.size() || cells.cached[*cell];
    const bool follows = !runs.empty() && runs.back().cached == cached &&
                         runs.back().first + runs.back().cells.size() == row;
    if (!follows) runs.push_back({.first = row, .cells = {}, .cached = cached});
    runs.back().cells.push_back(static_cast<int32_t>(*cell));
  }
  return runs;
}

Status RowUpdater::Fuse(std::span<const float> cached, float* fresh) const {
  QUIRE_ASSIGN_OR_RETURN(std::vector<float> rows, Fetch(fresh, cached.size()));
  for (size_t at = 0; at < rows.size(); at += head_dim_) {
    FuseRow({rows.data() + at, head_dim_}, cached.subspan(at, head_dim_));
  }
  QUIRE_RETURN_IF_ERROR(device_.CopyToDevice(fresh, rows.data(), rows.size() * sizeof(float)));
  return device_.Synchronize();  // The host copy goes away.
}

Status RowUpdater::Measure(std::span<const float> cached, const float* fresh, size_t rows,
                           std::vector<double>* deviations) const {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> computed, Fetch(fresh, cached.size()));
  const size_t row = RowFloats();
  for (size_t i = 0; i < rows; ++i) {
    deviations->push_back(SquaredDistance(computed.data() + i * row, cached.data() + i * row, row));
  }
  return OkStatus();
}

Status RowUpdater::Write(const LayerView& view, const Run& run, const float* rows, void* cells) {
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const places,
                         places_.Put(device_, std::span<const int32_t>(run.cells)));
  return ToStatus(device_.kernels().narrow({.x = rows,
                                            .places = places,
                                            .y = cells,
                                            .n = static_cast<int64_t>(RowFloats()),
                                            .rows = static_cast<int64_t>(run.cells.size()),
                                            .y_rows = static_cast<int64_t>(view.cells->Capacity()),
                                            .dtype = view.dtype,
                                            .stream = device_.stream()}),
                  "narrow");
}

StatusOr<std::vector<float>> RowUpdater::Cached(const LayerView& view, const Run& run,
                                                const void* cells) const {
  const size_t row = RowFloats();
  const size_t row_bytes = row * ElementBytes(view.dtype);
  std::vector<std::byte> raw(row_bytes);
  std::vector<float> rows;
  rows.reserve(run.cells.size() * row);
  for (const int32_t cell : run.cells) {
    const auto* const from = static_cast<const std::byte*>(cells) + cell * row_bytes;
    QUIRE_RETURN_IF_ERROR(device_.CopyToHost(raw.data(), from, row_bytes));
    for (size_t i = 0; i < row; ++i) {
      rows.push_back(LoadElement(raw.data(), static_cast<int64_t>(i), view.dtype));
    }
  }
  return rows;
}

StatusOr<std::vector<float>> RowUpdater::Fetch(const float* from, size_t floats) const {
  std::vector<float> host(floats);
  QUIRE_RETURN_IF_ERROR(device_.CopyToHost(host.data(), from, floats * sizeof(float)));
  return host;
}

}  // namespace quire::worker
