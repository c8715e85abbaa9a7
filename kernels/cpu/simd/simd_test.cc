// SPDX-License-Identifier: Apache-2.0
//
// Tests of simd.h beyond the op conformance suite.
#include "kernels/cpu/simd/simd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/reference/plain_rows.h"
#include "kernels/cpu/simd/simd_targets.h"
#include "kernels/cpu/softmax.h"

namespace quire::kernels::simd {
namespace {

// All 16-bit patterns through both conversions: exact for numbers, NaN to NaN.
TEST(Simd, WidenAndNarrowEveryPattern) {
  std::vector<uint16_t> patterns(65536), back(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(65536);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Widen(patterns.data(), dtype, 65536, wide.data());
    Narrow(wide.data(), 65536, dtype, back.data());
    for (int64_t i = 0; i < 65536; ++i) {
      const float want = LoadElement(patterns.data(), i, dtype);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(wide[i]) && std::isnan(LoadElement(back.data(), i, dtype))) << i;
      } else {
        EXPECT_EQ(FloatBits(wide[i]), FloatBits(want)) << i;
        EXPECT_EQ(back[i], patterns[i]) << i;
      }
    }
  }
}

TEST(Simd, NarrowRoundsToNearestEven) {
  std::vector<float> values;
  for (int i = 0; i < 4096; ++i) {
    values.push_back(std::ldexp(1.0f + static_cast<float>(i) / 4096, i % 40 - 28));
    values.push_back(-values.back());
  }
  const int64_t n = static_cast<int64_t>(values.size());
  std::vector<uint16_t> got(n), want(n);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Narrow(values.data(), n, dtype, got.data());
    for (int64_t i = 0; i < n; ++i) StoreElement(want.data(), i, dtype, values[i]);
    EXPECT_EQ(got, want) << Name(dtype);
  }
}

/// Compares bits, so that NaN equals NaN.
template <typename T>
bool SameNumbers(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) {
    return x == y ? std::signbit(x) == std::signbit(y) : std::isnan(x) && std::isnan(y);
  });
}

// Equal to the sign of a zero, with infinities, one row and short rows.
TEST(Simd, RowsInF64AreEqualOnAllTargets) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const int64_t target : Targets()) {
    UseTarget(target);
    SCOPED_TRACE(TargetName());
    for (const int64_t n_rows : {1, 2, 9, 32}) {
      for (const int64_t d : {1, 7, 8, 15, 16, 17, 33, 64, 80, 96, 128, 256}) {
        std::vector<float> rows(n_rows * d), centre(d);
        for (float& value : rows) value = normal(random);
        for (float& value : centre) value = normal(random);
        rows[0] = -0.0f;
        rows[d / 2] = rows[(n_rows - 1) * d + d / 2] = -INFINITY;
        rows[d - 1] = INFINITY;
        std::vector<float> got(d), want(d);
        MeanRows(rows.data(), n_rows, d, got.data());
        PlainMeanRows(rows.data(), d, n_rows, d, want.data());
        EXPECT_TRUE(SameNumbers(got, want)) << n_rows << " rows of " << d;
        MeanDistances(rows.data(), n_rows, d, centre.data(), got.data());
        PlainMeanDistances(rows.data(), d, n_rows, d, centre.data(), want.data());
        EXPECT_TRUE(SameNumbers(got, want)) << n_rows << " rows of " << d;
        std::vector<double> squares(n_rows * d), want_squares(n_rows * d);
        SquaredDistances(rows.data(), n_rows, d, centre.data(), squares.data());
        PlainSquaredDistances(rows.data(), d, n_rows, d, centre.data(), want_squares.data());
        EXPECT_TRUE(SameNumbers(squares, want_squares)) << n_rows << " rows of " << d;
      }
    }
  }
  UseTarget(Targets().front());
}

TEST(Simd, ExpIsAccurateAndPassesOverNaN) {
  for (const int64_t n : {0, 1, 7, 16, 33, 1000}) {
    std::vector<float> x(n), want(n);
    for (int64_t i = 0; i < n; ++i) {
      x[i] = -80.0f * static_cast<float>(i) / 1000;
      want[i] = std::exp(x[i]);
    }
    if (n > 0) x[n / 2] = NAN;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += i == n / 2 ? 0 : want[i];
    for (float& value : x) value += 2.0f;
    EXPECT_NEAR(ExpInPlace(x.data(), n, 2.0f), sum, 1e-5 * sum + 1e-30);
    for (int64_t i = 0; i < n; ++i) {
      if (i == n / 2) {
        EXPECT_TRUE(std::isnan(x[i]));
      } else {
        EXPECT_NEAR(x[i], want[i], 1e-5 * want[i]);  // The shift itself is rounded at 2^-24 * 80.
      }
    }
  }
  float far = -INFINITY;
  EXPECT_EQ(ExpInPlace(&far, 1, 0), 0.0f);
}

// Exponents over the whole range and beyond, NaN, and rows whose maximum is infinite or missing.
TEST(Simd, SoftmaxWeightsAreEqualOnAllTargets) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal(0.0f, 40.0f);
  for (const int64_t target : Targets()) {
    UseTarget(target);
    SCOPED_TRACE(TargetName());
    for (const int64_t n : {0, 1, 7, 16, 33, 511, 512, 513, 3000}) {
      std::vector<float> row(n), got(n), want(n);
      for (float& value : row) value = normal(random);
      const auto expect_equal = [&](float factor) {
        const float sum = SoftmaxWeights(row.data(), n, factor, got.data());
        EXPECT_EQ(sum, PlainSoftmax(row.data(), n, factor, want.data())) << n << " pages";
        EXPECT_TRUE(SameNumbers(got, want)) << n << " pages";
      };
      expect_equal(1.0f);
      expect_equal(0.088388346f);
      if (n == 0) continue;
      for (const float odd : {NAN, -INFINITY, INFINITY}) {
        row[n / 2] = row[n - 1] = odd;
        expect_equal(1.0f);
      }
      std::fill(row.begin(), row.end(), -INFINITY);
      row[0] = NAN;
      expect_equal(1.0f);
      std::fill(row.begin(), row.end(), NAN);
      expect_equal(1.0f);
    }
  }
  UseTarget(Targets().front());
}

TEST(Simd, MaxNumberPassesOverNaN) {
  std::vector<float> x(40, NAN);
  EXPECT_EQ(MaxNumber(x.data(), 40), -INFINITY);
  EXPECT_EQ(MaxNumber(x.data(), 0), -INFINITY);
  x[3] = -5;
  x[38] = -7;
  EXPECT_EQ(MaxNumber(x.data(), 40), -5);
}

TEST(Simd, ARowOfDotsDoesNotDependOnTheOthers) {
  std::minstd_rand random(5);
  std::normal_distribution<float> normal;
  const auto values = [&](int64_t count) {
    std::vector<float> all(count);
    for (float& value : all) value = normal(random);
    return all;
  };
  for (const int64_t d : {1, 16, 33, 130}) {
    constexpr int64_t kRows = 9, kOthers = 7;
    const std::vector<float> a = values(kRows * d), b = values(kOthers * d);
    std::vector<float> alone(kOthers);
    for (int64_t m = 1; m <= kRows; ++m) {
      std::vector<float> out(m * kOthers);
      Dots(a.data(), m, {b.data(), d}, kOthers, d, out.data());
      for (int64_t i = 0; i < m; ++i) {
        Dots(a.data() + i * d, 1, {b.data(), d}, kOthers, d, alone.data());
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), out.begin() + i * kOthers)) << m;
      }
    }
  }
}

TEST(Simd, SumsOverStoredRowsAreThoseOverTheSameRowsWidened) {
  std::minstd_rand random(7);
  std::normal_distribution<float> normal;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const int64_t d : {1, 16, 33, 64, 80, 130}) {
      constexpr int64_t kRows = 5, kOthers = 7;
      const int64_t stride = d + 3;
      std::vector<uint16_t> stored(kOthers * stride);
      for (int64_t i = 0; i < kOthers * stride; ++i) {
        StoreElement(stored.data(), i, dtype, normal(random));
      }
      std::vector<float> wide(kOthers * d);
      WidenRows(stored.data(), stride, dtype, kOthers, d, wide.data());
      std::vector<float> a(kRows * d), w(kRows * kOthers);
      for (std::vector<float>* values : {&a, &w}) {
        for (float& value : *values) value = normal(random);
      }
      const StoredRows rows = {stored.data(), stride, dtype, /*next=*/stored.data()};
      for (int64_t m = 1; m <= kRows; ++m) {
        std::vector<float> dots(m * kOthers), want_dots(m * kOthers);
        Dots(a.data(), m, rows, kOthers, d, dots.data());
        Dots(a.data(), m, {wide.data(), d}, kOthers, d, want_dots.data());
        EXPECT_EQ(dots, want_dots) << m << " rows of " << d;
        std::vector<float> sums(m * d, 0.5f), want_sums = sums;
        WeightedSum(w.data(), m, rows, kOthers, d, sums.data());
        WeightedSum(w.data(), m, {wide.data(), d}, kOthers, d, want_sums.data());
        EXPECT_EQ(sums, want_sums) << m << " rows of " << d;
      }
    }
  }
}

TEST(Simd, SumsOfAnyLength) {
  for (const int64_t d : {0, 1, 15, 16, 31, 32, 33, 130}) {
    std::vector<float> a(5 * d), b(5 * d), out(25), acc(5 * d, 1.0f), w(25, 0.5f);
    for (int64_t i = 0; i < 5 * d; ++i) {
      a[i] = static_cast<float>(i % 7);
      b[i] = static_cast<float>(i % 5);
    }
    Dots(a.data(), 5, {b.data(), d}, 5, d, out.data());
    WeightedSum(w.data(), 5, {b.data(), d}, 5, d, acc.data());
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        float want = 0;  // Exact: small integers.
        for (int64_t c = 0; c < d; ++c) want += a[i * d + c] * b[j * d + c];
        EXPECT_EQ(out[i * 5 + j], want);
        EXPECT_EQ(Dot(a.data() + i * d, b.data() + j * d, d), want);
      }
      for (int64_t c = 0; c < d; ++c) {
        float want = 1.0f;
        for (int64_t j = 0; j < 5; ++j) want += 0.5f * b[j * d + c];
        EXPECT_EQ(acc[i * d + c], want);
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels::simd
