// SPDX-License-Identifier: Apache-2.0
//
// Matrix products by cuBLAS, which is loaded when it is there: it is too large to be carried, and
// everything works without it. Its few functions are declared here, so that its headers are not
// needed.
#ifndef QUIRE_KERNELS_CUDA_CUBLAS_H_
#define QUIRE_KERNELS_CUDA_CUBLAS_H_

#include "kernels/api/matmul.h"

namespace quire::kernels::cuda {

/// Loads cuBLAS and gives each stream a handle and a workspace, and each handle a first product, so
/// that it allocates nothing later and can be captured. False when it is not there, or does not
/// start: then nothing of it stays, and no error behind. Waits for the streams. Called once, before
/// the products and captures.
bool StartCublas(void* stream, void* recorder);

/// As the matmul op. Products of few rows, which only read the weights, and those on other streams
/// than the two that cuBLAS was started with, are CudaKernels()'.
OpStatus MatmulByCublas(const MatmulArgs& args);

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_CUBLAS_H_
