// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS is always missing here, because it works on a GPU's memory only.
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/ops.h"

namespace quire::kernels::cuda {

bool StartCublas(void*, void*) { return false; }
OpStatus MatmulByCublas(const MatmulArgs& args) { return Matmul(args); }

}  // namespace quire::kernels::cuda
