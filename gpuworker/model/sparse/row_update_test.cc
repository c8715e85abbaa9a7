// SPDX-License-Identifier: Apache-2.0
//
// RowUpdater against a plain loop, over random rows that lie scattered in a view.
#include "gpuworker/model/sparse/row_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"

namespace quire::worker {
namespace {

constexpr size_t kHeads = 3;
constexpr size_t kDim = 8;
constexpr size_t kRow = kHeads * kDim;

std::vector<float> Random(size_t floats, SeededRandom* random) {
  std::vector<float> values(floats);
  for (float& value : values) value = static_cast<float>(random->Below(2001)) / 1000 - 1;
  return values;
}

/// The fused vector of one KV head.
std::vector<double> Fused(const float* fresh, const float* cached) {
  double dot = 0;
  double fresh_length = 0;
  double cached_length = 0;
  for (size_t i = 0; i < kDim; ++i) {
    dot += double{fresh[i]} * cached[i];
    fresh_length += double{fresh[i]} * fresh[i];
    cached_length += double{cached[i]} * cached[i];
  }
  const double theta = std::max(0.0, dot / std::sqrt(fresh_length * cached_length));
  std::vector<double> fused(kDim);
  for (size_t i = 0; i < kDim; ++i) fused[i] = theta * fresh[i] + (1 - theta) * cached[i];
  return fused;
}

/// Keys or values: rows that were computed, and cells before and after they were taken.
struct Part {
  std::vector<float> fresh;
  std::vector<float> taken;  ///< `fresh`, as the updater leaves it.
  std::vector<float> before;
  std::vector<float> cells;
};

class RowUpdateTest : public ::testing::TestWithParam<RowUpdate> {
 protected:
  Part MakePart() {
    const std::vector<float> fresh = Random(positions_.size() * kRow, &random_);
    const std::vector<float> cells = Random(cells_.Capacity() * kRow, &random_);
    return {.fresh = fresh, .taken = fresh, .before = cells, .cells = cells};
  }
  size_t RowAt(uint64_t position) const {
    return static_cast<size_t>(std::ranges::find(positions_, position) - positions_.begin());
  }
  /// Compares the cell of a row that was taken with a plain loop.
  void ExpectTaken(const Part& part, uint64_t position) const {
    const size_t cell = *CellOf(cells_, position) * kRow;
    for (size_t head = 0; head < kRow; head += kDim) {
      const float* const fresh = part.fresh.data() + RowAt(position) * kRow + head;
      std::vector<double> expected(fresh, fresh + kDim);
      if (GetParam() == RowUpdate::kFusion && position != kNotCached) {
        expected = Fused(fresh, part.before.data() + cell + head);
      }
      for (size_t i = 0; i < kDim; ++i) {
        EXPECT_NEAR(part.cells[cell + head + i], expected[i], 1e-6) << "position " << position;
        EXPECT_EQ(part.taken[RowAt(position) * kRow + head + i], part.cells[cell + head + i]);
      }
    }
  }
  /// Compares cells of rows that were not taken with what they held.
  void ExpectOthersKept(const Part& part) const {
    std::vector<float> expected = part.before;
    for (const uint64_t position : taken_) {
      const auto first = static_cast<ptrdiff_t>(*CellOf(cells_, position) * kRow);
      std::copy_n(part.cells.begin() + first, kRow, expected.begin() + first);
    }
    EXPECT_EQ(part.cells, expected);
  }
  double Deviation(const Part& values, uint64_t position) const {
    if (position == kNotCached) return std::numeric_limits<double>::infinity();
    const size_t row = RowAt(position) * kRow;
    const size_t cell = *CellOf(cells_, position) * kRow;
    double sum = 0;
    for (size_t i = 0; i < kRow; ++i) {
      sum += std::pow(double{values.fresh[row + i]} - values.before[cell + i], 2);
    }
    return sum;
  }

  static constexpr uint64_t kNotCached = 6;
  const std::vector<uint64_t> positions_ = {2, 5, 6, 7, 11, 20, 31};
  const std::vector<uint64_t> taken_ = {2, 6, 7, 20, 31};  ///< The last one is hidden.
  const ViewCells cells_{.visible = {0, 2, 5, 6, 7, 9, 20},
                         .hidden = {11, 31},
                         .cached = {true, true, true, false, true, true, true},
                         .alone = {}};
  SeededRandom random_{7};
  Model model_{.device = &CpuDevice(),
               .config = {.num_kv_heads = kHeads, .head_dim = kDim},
               .weights = {},
               .rope = RopeTable({.rotary_dim = kDim})};
  RowUpdater updater_{model_, GetParam()};
};

TEST_P(RowUpdateTest, ScatteredRowsMeetTheirCellsAndNoOther) {
  Part keys = MakePart();
  Part values = MakePart();
  std::vector<double> deviations;
  ASSERT_EQ(updater_.Take({&cells_, keys.cells.data(), values.cells.data()}, positions_, taken_,
                          keys.taken.data(), values.taken.data(), &deviations),
            OkStatus());
  ASSERT_EQ(deviations.size(), taken_.size());
  for (size_t i = 0; i < taken_.size(); ++i) {
    ExpectTaken(keys, taken_[i]);
    ExpectTaken(values, taken_[i]);
    EXPECT_FLOAT_EQ(deviations[i], Deviation(values, taken_[i]));
  }
  ExpectOthersKept(keys);
  ExpectOthersKept(values);
}

TEST_P(RowUpdateTest, APositionWithoutACellIsAnError) {
  Part part = MakePart();
  const std::vector<uint64_t> positions = {1};
  EXPECT_EQ(updater_
                .Take({&cells_, part.cells.data(), part.cells.data()}, positions, positions,
                      part.taken.data(), part.taken.data(), nullptr)
                .code(),
            StatusCode::kInternal);
}

INSTANTIATE_TEST_SUITE_P(Updates, RowUpdateTest,
                         ::testing::Values(RowUpdate::kOverwrite, RowUpdate::kFusion));

}  // namespace
}  // namespace quire::worker
