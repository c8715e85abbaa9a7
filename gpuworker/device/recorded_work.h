// SPDX-License-Identifier: Apache-2.0
//
// RecordedWork: stretches of kernels that are the same whenever they run. On a device that records,
// a stretch runs as it is the first time, which loads what it needs, is recorded the second time,
// and is one launch from then on. Elsewhere it always runs as it is. Ownership: borrows the device;
// what a stretch points to outlives this. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_DEVICE_RECORDED_WORK_H_
#define QUIRE_GPUWORKER_DEVICE_RECORDED_WORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "common/base/status.h"
#include "gpuworker/device/device.h"

namespace quire::worker {

class RecordedWork {
 public:
  explicit RecordedWork(Device* device) : device_(device) {}

  /// Gives the device the stretch `key`: `work` as Device::Record wants it, with the same kernels
  /// and arguments at every call with this key. An error forgets the stretch.
  [[nodiscard]] Status Run(uint64_t key, const std::function<Status()>& work);

 private:
  Device* const device_;
  /// Null for a stretch that ran once.
  std::unordered_map<uint64_t, std::unique_ptr<DeviceGraph>> stretches_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_RECORDED_WORK_H_
