// SPDX-License-Identifier: Apache-2.0
//
// Launches: how many the process has made. Captured work counts when its graph is launched, as one.
// Thread-safe.
#ifndef QUIRE_KERNELS_CUDA_LAUNCHES_H_
#define QUIRE_KERNELS_CUDA_LAUNCHES_H_

#include <cstdint>

namespace quire::kernels::cuda {

/// Work on `recorder` is captured.
void SetRecorder(const void* recorder);
/// Counts a launch on `stream`, unless it is captured.
void CountLaunch(const void* stream);
int64_t LaunchesSoFar();

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_LAUNCHES_H_
