// SPDX-License-Identifier: Apache-2.0
//
// UnitAddresses: where kernels read the units of a payload. Where the device reads host memory they
// are read in place. A unit in several pieces, and every unit of another device, is copied first.
// Ownership: owns the copies; the payload outlives what reads it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_UNIT_ADDRESSES_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_UNIT_ADDRESSES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/device/device_list.h"
#include "quire/payload.h"
#include "quire/status.h"

namespace quire::worker {

class UnitAddresses {
 public:
  /// Address of unit `wanted[i]` for each i, for kernels that are given to the device before the
  /// next Put. REQUIRES: `unit_bytes` has the size of each unit of `units`.
  StatusOr<const void* const*> Put(Device& device, const Payload& units,
                                   std::span<const uint64_t> unit_bytes,
                                   std::span<const size_t> wanted);

 private:
  std::vector<std::byte> copies_;
  std::vector<const void*> units_;      ///< Address of each unit.
  std::vector<const void*> addresses_;  ///< Addresses that are wanted.
  DeviceBuffer copies_on_device_;
  DeviceList<const void*> addresses_on_device_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_UNIT_ADDRESSES_H_
