// SPDX-License-Identifier: Apache-2.0
//
// A library in place of cuBLAS that notes what it is asked for and computes nothing: its functions
// are those of cuBLAS that kernels/cuda/cublas.cu takes. Thread-safety: none.
#ifndef QUIRE_KERNELS_SIMT_FAKE_CUBLAS_H_
#define QUIRE_KERNELS_SIMT_FAKE_CUBLAS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::simt {

struct FakeCublasHandle {
  void* stream = nullptr;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  int64_t products = 0;
};

struct FakeCublas {
  int64_t calls = 0;
  int64_t failing_call = 0;                ///< From 1; that call fails.
  std::vector<FakeCublasHandle*> handles;  ///< That were made and not destroyed.
};
/// Never destroyed.
FakeCublas& TheFakeCublas();

}  // namespace quire::simt

#endif  // QUIRE_KERNELS_SIMT_FAKE_CUBLAS_H_
