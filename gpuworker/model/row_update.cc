// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/row_update.h"

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
                        std::span<const uint64_t> taken, const float* k, const float* v,
                        std::vector<double>* deviations) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Run> runs, RunsOf(view, positions, taken));
  for (const Run& run : runs) {
    if (deviations != nullptr) QUIRE_RETURN_IF_ERROR(Measure(view, run, v, deviations));
    const bool fuses = update_ == RowUpdate::kFusion && run.cached;
    QUIRE_RETURN_IF_ERROR(fuses ? Fuse(view, run, k, v) : Copy(view, run, k, v));
  }
  return OkStatus();
}

StatusOr<std::vector<RowUpdater::Run>> RowUpdater::RunsOf(const LayerView& view,
                                                          std::span<const uint64_t> positions,
                                                          std::span<const uint64_t> taken) const {
  const ViewCells& cells = *view.cells;
  std::vector<Run> runs;
  for (size_t row = 0, next = 0; row < positions.size() && next < taken.size(); ++row) {
    if (positions[row] != taken[next]) continue;
    ++next;
    const std::optional<uint64_t> cell = CellOf(cells, positions[row]);
    if (!cell) return Internal("the view has no cell for position ", positions[row]);
    const bool cached = *cell >= cells.visible.size() || cells.cached[*cell];
    if (!runs.empty()) {
      Run& last = runs.back();
      if (row == last.row + last.count && *cell == last.cell + last.count &&
          cached == last.cached) {
        ++last.count;
        continue;
      }
    }
    runs.push_back({.row = row, .cell = *cell, .count = 1, .cached = cached});
  }
  return runs;
}

Status RowUpdater::Copy(const LayerView& view, const Run& run, const float* k,
                        const float* v) const {
  const size_t row = RowFloats();
  const size_t bytes = run.count * row * sizeof(float);
  QUIRE_RETURN_IF_ERROR(device_.CopyOnDevice(view.keys + run.cell * row, k + run.row * row, bytes));
  return device_.CopyOnDevice(view.values + run.cell * row, v + run.row * row, bytes);
}

Status RowUpdater::Fuse(const LayerView& view, const Run& run, const float* k,
                        const float* v) const {
  const size_t row = RowFloats();
  QUIRE_RETURN_IF_ERROR(Fused(k + run.row * row, view.keys + run.cell * row, run.count));
  return Fused(v + run.row * row, view.values + run.cell * row, run.count);
}

Status RowUpdater::Fused(const float* fresh, float* cell, size_t rows) const {
  QUIRE_ASSIGN_OR_RETURN(std::vector<float> result, Fetch(fresh, rows));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> cached, Fetch(cell, rows));
  for (size_t at = 0; at < result.size(); at += head_dim_) {
    FuseRow({result.data() + at, head_dim_}, {cached.data() + at, head_dim_});
  }
  QUIRE_RETURN_IF_ERROR(device_.CopyToDevice(cell, result.data(), result.size() * sizeof(float)));
  return device_.Synchronize();  // The host copy goes away.
}

Status RowUpdater::Measure(const LayerView& view, const Run& run, const float* v,
                           std::vector<double>* deviations) const {
  if (!run.cached) {
    deviations->insert(deviations->end(), run.count, std::numeric_limits<double>::infinity());
    return OkStatus();
  }
  const size_t row = RowFloats();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> fresh, Fetch(v + run.row * row, run.count));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> cached,
                         Fetch(view.values + run.cell * row, run.count));
  for (size_t i = 0; i < run.count; ++i) {
    deviations->push_back(SquaredDistance(fresh.data() + i * row, cached.data() + i * row, row));
  }
  return OkStatus();
}

StatusOr<std::vector<float>> RowUpdater::Fetch(const float* from, size_t rows) const {
  std::vector<float> host(rows * RowFloats());
  QUIRE_RETURN_IF_ERROR(device_.CopyToHost(host.data(), from, host.size() * sizeof(float)));
  return host;
}

}  // namespace quire::worker
