// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device: the first GPU, with memory, copies and kernels from libquire_cuda.so
// (kernels/cuda/library.h), which is loaded when the device is first asked for.
#ifndef QUIRE_GPUWORKER_DEVICE_CUDA_DEVICE_H_
#define QUIRE_GPUWORKER_DEVICE_CUDA_DEVICE_H_

#include <memory>
#include <string_view>
#include <vector>

#include "gpuworker/device/device.h"
#include "kernels/cuda/library.h"
#include "quire/status.h"

namespace quire::worker {

/// Looks for the library in ../lib of the running program, then where the loader looks. The device
/// is never destroyed. FAILED_PRECONDITION "no CUDA device: " and why: in the driver's words, or
/// how to get the library.
StatusOr<Device*> CudaDevice();

/// A device over `library`, which outlives it. FAILED_PRECONDITION when it has no GPU, or was built
/// from other sources than this program.
StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const kernels::CudaLibrary& library);

/// The device of this name, one of DeviceNames(): CpuDevice() or CudaDevice().
StatusOr<Device*> FindDevice(std::string_view name);
std::vector<std::string_view> DeviceNames();

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_CUDA_DEVICE_H_
