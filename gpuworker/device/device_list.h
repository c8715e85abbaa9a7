// SPDX-License-Identifier: Apache-2.0
//
// DeviceList: a list of the host's that a kernel is to read. On the CPU it stays where it is;
// elsewhere it is copied into device memory that the next list reuses.
// Ownership: owns that memory; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_DEVICE_DEVICE_LIST_H_
#define QUIRE_GPUWORKER_DEVICE_DEVICE_LIST_H_

#include <algorithm>
#include <span>

#include "gpuworker/device/device.h"
#include "quire/status.h"

namespace quire::worker {

template <typename T>
class DeviceList {
 public:
  /// Where kernels that are given to the device before the next Put read `list`. On the CPU it is
  /// read where it lies, until they return.
  StatusOr<const T*> Put(Device& device, std::span<const T> list) {
    if (device.reads_host_memory()) return list.data();
    if (memory_.size_bytes() < list.size_bytes()) {
      QUIRE_ASSIGN_OR_RETURN(
          memory_, device.Allocate(std::max(list.size_bytes(), 2 * memory_.size_bytes())));
    }
    QUIRE_RETURN_IF_ERROR(device.CopyToDevice(memory_.data(), list.data(), list.size_bytes()));
    return memory_.as<const T>();
  }

 private:
  DeviceBuffer memory_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_DEVICE_LIST_H_
