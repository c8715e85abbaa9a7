// SPDX-License-Identifier: Apache-2.0
//
// A fake cuBLAS that records calls and computes nothing. It has the functions that
// kernels/cuda/cublas.cu uses. Thread-safety: none.
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
  int64_t failing_call = 0;                ///< Number of the call that fails, from 1; 0 for none.
  std::vector<FakeCublasHandle*> handles;  ///< Handles created and not destroyed.
};
/// Never destroyed.
FakeCublas& TheFakeCublas();

}  // namespace quire::simt

#endif  // QUIRE_KERNELS_SIMT_FAKE_CUBLAS_H_
