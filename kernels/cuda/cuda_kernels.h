// SPDX-License-Identifier: Apache-2.0
//
// The CUDA table: every op except encode_unit and decode_unit, whose entries are null. Every
// pointer in the arguments, lists included, is to device memory or to pinned host memory that the
// device can reach. `stream` is a cudaStream_t. Launches are asynchronous: kOk means launched, and
// a fault of the kernel shows at the next synchronisation. An op allocates nothing and waits for
// nothing, so it can be captured.
//
// Linking needs no GPU driver; without one every op with work returns kDeviceError.
#ifndef QUIRE_KERNELS_CUDA_CUDA_KERNELS_H_
#define QUIRE_KERNELS_CUDA_CUDA_KERNELS_H_

#include "kernels/api/table.h"

namespace quire::kernels {

const KernelTable& CudaKernels();

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CUDA_CUDA_KERNELS_H_
