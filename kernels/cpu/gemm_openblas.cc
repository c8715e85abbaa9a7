// SPDX-License-Identifier: Apache-2.0
#include <cblas.h>

#include "kernels/cpu/gemm.h"

namespace quire::kernels {
namespace {

blasint Int(int64_t size) { return static_cast<blasint>(size); }

void Run(CBLAS_TRANSPOSE transpose_b, const GemmShape& s, const float* a, const float* b,
         float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, transpose_b, Int(s.m), Int(s.n), Int(s.k), 1.0f, a,
              Int(s.lda), b, Int(s.ldb), s.accumulate ? 1.0f : 0.0f, c, Int(s.ldc));
}

}  // namespace

const char* GemmName() { return "openblas"; }

uint32_t GemmThreads() { return static_cast<uint32_t>(openblas_get_num_threads()); }
void SetGemmThreads(uint32_t threads) { openblas_set_num_threads(static_cast<int>(threads)); }

void GemmTransposed(const GemmShape& s, const float* a, const float* b, float* c) {
  if (s.m == 1) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, Int(s.n), Int(s.k), 1.0f, b, Int(s.ldb), a, 1,
                s.accumulate ? 1.0f : 0.0f, c, 1);
    return;
  }
  Run(CblasTrans, s, a, b, c);
}

void Gemm(const GemmShape& s, const float* a, const float* b, float* c) {
  Run(CblasNoTrans, s, a, b, c);
}

}  // namespace quire::kernels
