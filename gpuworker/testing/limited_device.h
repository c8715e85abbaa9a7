// SPDX-License-Identifier: Apache-2.0
//
// LimitedDevice: the CPU device with a limit on its bytes. Nothing that ships includes this.
// Thread-safety: as Device.
#ifndef QUIRE_GPUWORKER_TESTING_LIMITED_DEVICE_H_
#define QUIRE_GPUWORKER_TESTING_LIMITED_DEVICE_H_

#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "common/base/threads/mutex.h"
#include "gpuworker/device/device.h"

namespace quire::worker::testing {

class LimitedDevice final : public Device {
 public:
  /// Bytes from now on, those in use included.
  void set_limit(size_t bytes) {
    MutexLock lock(mutex_);
    limit_ = bytes;
  }
  size_t used() const {
    MutexLock lock(mutex_);
    return used_;
  }

  std::string_view name() const override { return "limited"; }
  const kernels::KernelTable& kernels() const override { return CpuDevice().kernels(); }
  void* stream() const override { return nullptr; }
  MemoryType memory_type() const override { return MemoryType::kHost; }
  Status CopyToDevice(void* to, const void* from, size_t bytes) override {
    return CpuDevice().CopyToDevice(to, from, bytes);
  }
  Status CopyToHost(void* to, const void* from, size_t bytes) override {
    return CpuDevice().CopyToHost(to, from, bytes);
  }
  Status CopyOnDevice(void* to, const void* from, size_t bytes) override {
    return CpuDevice().CopyOnDevice(to, from, bytes);
  }
  Status Synchronize() override { return OkStatus(); }

 protected:
  void* AllocateBytes(size_t bytes) override {
    MutexLock lock(mutex_);
    if (bytes > limit_ || used_ > limit_ - bytes) return nullptr;
    auto buffer = CpuDevice().Allocate(bytes);
    if (!buffer.ok()) return nullptr;
    used_ += bytes;
    void* const data = buffer->data();
    buffers_.emplace(data, *std::move(buffer));
    return data;
  }
  void FreeBytes(void* data) override {
    MutexLock lock(mutex_);
    const auto found = buffers_.find(data);
    used_ -= found->second.size_bytes();
    buffers_.erase(found);
  }

 private:
  mutable Mutex mutex_;
  size_t limit_ QUIRE_GUARDED_BY(mutex_) = std::numeric_limits<size_t>::max();
  size_t used_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::map<void*, DeviceBuffer> buffers_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_LIMITED_DEVICE_H_
