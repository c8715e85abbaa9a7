// SPDX-License-Identifier: Apache-2.0
//
// EmulatedDevice: a CUDA device whose kernels run on the processor, from the same sources
// (kernels/simt/simt.h). Nothing runs before the host waits for it. It is slow, and counts as a GPU
// does. Thread-safe.
#ifndef QUIRE_BENCH_STEP_EMULATED_DEVICE_H_
#define QUIRE_BENCH_STEP_EMULATED_DEVICE_H_

#include "gpuworker/device/device.h"
#include "quire/status.h"

namespace quire::bench {

/// One for the process, never destroyed. UNIMPLEMENTED in a program that was built without it.
StatusOr<worker::Device*> EmulatedDevice();

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STEP_EMULATED_DEVICE_H_
