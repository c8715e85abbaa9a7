// SPDX-License-Identifier: Apache-2.0
//
// Implements simd.h and simd_targets.h without a library: loops that a compiler may vectorise.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/reference/plain_rows.h"
#include "kernels/cpu/reference/plain_scores.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/simd_targets.h"
#include "kernels/cpu/softmax.h"

namespace quire::kernels::simd {

std::vector<int64_t> Targets() { return {0}; }
void UseTarget(int64_t) {}

const char* TargetName() { return "plain"; }

void Widen(const void* src, DType dtype, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = LoadElement(src, i, dtype);
}

void WidenRows(const void* src, int64_t stride, DType dtype, int64_t rows, int64_t d, float* dst) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < d; ++c) dst[r * d + c] = LoadElement(src, r * stride + c, dtype);
  }
}

void Narrow(const float* src, int64_t n, DType dtype, void* dst) {
  for (int64_t i = 0; i < n; ++i) StoreElement(dst, i, dtype, src[i]);
}

void MinMaxRows(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* lo, float* hi) {
  Widen(rows, dtype, d, lo);
  std::copy(lo, lo + d, hi);
  for (int64_t r = 1; r < n_rows; ++r) {
    for (int64_t c = 0; c < d; ++c) {
      const float key = LoadElement(rows, r * d + c, dtype);
      // A NaN enters through the second test and stays, as it fails the first.
      if (key < lo[c] || std::isnan(key)) lo[c] = key;
      if (key > hi[c] || std::isnan(key)) hi[c] = key;
    }
  }
}

void MeanRows(const float* rows, int64_t n_rows, int64_t d, float* mean) {
  PlainMeanRows(rows, d, n_rows, d, mean);
}

void MeanDistances(const float* rows, int64_t n_rows, int64_t d, const float* centre, float* mean) {
  PlainMeanDistances(rows, d, n_rows, d, centre, mean);
}

void SquaredDistances(const float* rows, int64_t n_rows, int64_t d, const float* centre,
                      double* squares) {
  PlainSquaredDistances(rows, d, n_rows, d, centre, squares);
}

void Scores(const ScoreRun& run, const ScorePages* parts, int64_t n_parts, float* out) {
  PlainScores(run, parts, n_parts, out);
}

float Dot(const float* a, const float* b, int64_t n) {
  float partial[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) partial[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float part : partial) sum += part;
  return sum;
}

void Dots(const float* a, int64_t m, const StoredRows& b, int64_t n, int64_t d, float* out) {
  std::vector<float> row(static_cast<size_t>(d));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < d; ++c) row[c] = LoadElement(b.data, j * b.stride + c, b.dtype);
    for (int64_t i = 0; i < m; ++i) out[i * n + j] = Dot(a + i * d, row.data(), d);
  }
}

void WeightedSum(const float* w, int64_t m, const StoredRows& v, int64_t n, int64_t d, float* acc) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < d; ++c) {
      const float value = LoadElement(v.data, j * v.stride + c, v.dtype);
      for (int64_t i = 0; i < m; ++i) acc[i * d + c] += w[i * n + j] * value;
    }
  }
}

float MaxNumber(const float* x, int64_t n) {
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

float ExpInPlace(float* x, int64_t n, float shift) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - shift);
    if (!std::isnan(x[i])) sum += x[i];
  }
  return sum;
}

float SoftmaxWeights(const float* row, int64_t n, float factor, float* weights) {
  return PlainSoftmax(row, n, factor, weights);
}

void SiluMul(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void Add(const float* a, const float* b, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

}  // namespace quire::kernels::simd
