// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device over FakeCudaLibrary(). Nothing that ships includes this.
#ifndef QUIRE_GPUWORKER_TESTING_FAKE_CUDA_DEVICE_H_
#define QUIRE_GPUWORKER_TESTING_FAKE_CUDA_DEVICE_H_

#include "gpuworker/device/cuda_device.h"
#include "gpuworker/testing/fake_cuda_library.h"

namespace quire::worker::testing {

/// One device, never destroyed.
inline Device& FakeCudaDevice() {
  static Device* const device = MakeCudaDevice(FakeCudaLibrary())->release();
  return *device;
}

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_FAKE_CUDA_DEVICE_H_
