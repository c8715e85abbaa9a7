// SPDX-License-Identifier: Apache-2.0
#include "bench/step/emulated_device.h"

#include <memory>

#include "gpuworker/device/cuda_device.h"
#include "kernels/cuda/library.h"

namespace quire::bench {

StatusOr<worker::Device*> EmulatedDevice() {
  static const auto* const device =
      new StatusOr<std::unique_ptr<worker::Device>>(worker::MakeCudaDevice(*quire_cuda_library()));
  QUIRE_RETURN_IF_ERROR(device->status());
  return (*device)->get();
}

}  // namespace quire::bench
