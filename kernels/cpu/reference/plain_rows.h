// SPDX-License-Identifier: Apache-2.0
//
// The f64 row loops of simd.h without vectors. They serve instruction sets without f64 vectors, and
// the channels that fill no vector. Rows are `stride` elements apart.
#ifndef QUIRE_KERNELS_CPU_REFERENCE_PLAIN_ROWS_H_
#define QUIRE_KERNELS_CPU_REFERENCE_PLAIN_ROWS_H_

#include <cmath>
#include <cstdint>

namespace quire::kernels::simd {

inline void PlainMeanRows(const float* rows, int64_t stride, int64_t n_rows, int64_t d,
                          float* mean) {
  for (int64_t c = 0; c < d; ++c) {
    double sum = rows[c];
    for (int64_t r = 1; r < n_rows; ++r) sum += rows[r * stride + c];
    mean[c] = static_cast<float>(sum / static_cast<double>(n_rows));
  }
}

inline void PlainMeanDistances(const float* rows, int64_t stride, int64_t n_rows, int64_t d,
                               const float* centre, float* mean) {
  for (int64_t c = 0; c < d; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < n_rows; ++r) sum += std::abs(double{rows[r * stride + c]} - centre[c]);
    mean[c] = static_cast<float>(sum / static_cast<double>(n_rows));
  }
}

/// Squares are spaced as the rows are.
inline void PlainSquaredDistances(const float* rows, int64_t stride, int64_t n_rows, int64_t d,
                                  const float* centre, double* squares) {
  for (int64_t r = 0; r < n_rows; ++r) {
    for (int64_t c = 0; c < d; ++c) {
      const double off = double{rows[r * stride + c]} - centre[c];
      squares[r * stride + c] = off * off;
    }
  }
}

}  // namespace quire::kernels::simd

#endif  // QUIRE_KERNELS_CPU_REFERENCE_PLAIN_ROWS_H_
