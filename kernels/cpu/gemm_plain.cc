// SPDX-License-Identifier: Apache-2.0
//
// gemm.h without a BLAS, over the loops of simd.h.
#include <algorithm>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd/simd.h"

namespace quire::kernels {

const char* GemmName() { return "plain"; }

uint32_t GemmThreads() { return 1; }
void SetGemmThreads(uint32_t) {}

void GemmTransposed(const GemmShape& s, const float* a, const float* b, float* c) {
  // Four rows of b at a time stay in the first-level cache while all rows of a use them.
  constexpr int64_t kRows = 4;
  for (int64_t j = 0; j < s.n; j += kRows) {
    const int64_t rows = std::min(kRows, s.n - j);
    for (int64_t i = 0; i < s.m; ++i) {
      float dots[kRows];
      simd::Dots(a + i * s.lda, 1, {.data = b + j * s.ldb, .stride = s.ldb}, rows, s.k, dots);
      float* out = c + i * s.ldc + j;
      for (int64_t r = 0; r < rows; ++r) out[r] = s.accumulate ? out[r] + dots[r] : dots[r];
    }
  }
}

void Gemm(const GemmShape& s, const float* a, const float* b, float* c) {
  for (int64_t i = 0; i < s.m; ++i) {
    if (!s.accumulate) std::fill_n(c + i * s.ldc, s.n, 0.0f);
    simd::WeightedSum(a + i * s.lda, 1, {.data = b, .stride = s.ldb}, s.k, s.n, c + i * s.ldc);
  }
}

}  // namespace quire::kernels
