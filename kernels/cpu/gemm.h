// SPDX-License-Identifier: Apache-2.0
//
// f32 matrix products, row major. gemm_openblas.cc or gemm_plain.cc is linked. Dimensions and
// leading dimensions must fit in int32 (callers check with FitsGemm).
#ifndef QUIRE_KERNELS_CPU_GEMM_H_
#define QUIRE_KERNELS_CPU_GEMM_H_

#include <cstdint>

namespace quire::kernels {

/// "openblas" or "plain", for benchmarks.
const char* GemmName();

/// Threads that products may use, including the calling one. 1 where "plain" is linked.
uint32_t GemmThreads();
/// Sets the number of threads for the process, at least 1; has no effect where "plain" is linked.
/// REQUIRES: no product runs.
void SetGemmThreads(uint32_t threads);

template <typename... Sizes>
constexpr bool FitsGemm(Sizes... sizes) {
  return ((sizes <= INT32_MAX) && ...);
}

/// Shapes of c[m][n] (+)= a[m][k] * b, leading dimensions in elements.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
  bool accumulate = false;  ///< Adds to c instead of setting it.
};

/// `b` is [n][k]: rows of b are dotted with rows of a.
void GemmTransposed(const GemmShape& shape, const float* a, const float* b, float* c);
/// `b` is [k][n].
void Gemm(const GemmShape& shape, const float* a, const float* b, float* c);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_GEMM_H_
