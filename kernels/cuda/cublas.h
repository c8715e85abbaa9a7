// SPDX-License-Identifier: Apache-2.0
//
// Matrix products by cuBLAS, loaded at run time if installed. It is too large to ship, and
// everything works without it. Its few functions are declared here, so its headers are not needed.
#ifndef QUIRE_KERNELS_CUDA_CUBLAS_H_
#define QUIRE_KERNELS_CUDA_CUBLAS_H_

#include "kernels/api/matmul.h"

namespace quire::kernels::cuda {

/// Loads cuBLAS and gives each stream a handle and a workspace. A first product per handle makes
/// later ones allocate nothing, so they can be captured. Returns false, and releases everything,
/// when cuBLAS is missing or does not start. Waits for the streams. Call it once, before the
/// products and captures.
bool StartCublas(void* stream, void* recorder);

/// The matmul op. CudaKernels() handles products of few rows, which only read the weights, and
/// those of several heads. It also handles those on streams other than the two given to
/// StartCublas.
OpStatus MatmulByCublas(const MatmulArgs& args);

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_CUBLAS_H_
