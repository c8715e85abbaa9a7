// SPDX-License-Identifier: Apache-2.0
//
// The memory of a device to those who must not touch it themselves: sessions and transports whose
// units land there (common/base/memory_access.h).
#ifndef QUIRE_GPUWORKER_DEVICE_DEVICE_MEMORY_H_
#define QUIRE_GPUWORKER_DEVICE_DEVICE_MEMORY_H_

#include <memory>

#include "common/base/memory_access.h"
#include "gpuworker/device/device.h"
#include "quire/status.h"

namespace quire::worker {

/// The access to `device`'s memory, which the device outlives; null for a device whose memory the
/// processor reads and writes. Copies take their turn on the device's stream. Takes a megabyte of
/// its memory, by which pieces that lie apart come to the host in one copy: RESOURCE_EXHAUSTED
/// when it has none.
StatusOr<std::unique_ptr<MemoryAccess>> MakeMemoryAccess(Device* device);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_DEVICE_MEMORY_H_
