// SPDX-License-Identifier: Apache-2.0
//
// Device: where a worker's tensors live and its kernels run. The CPU device is the first; a CUDA
// device fits behind the same interface (memory, copies, a kernel table and a stream).
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_GPUWORKER_DEVICE_DEVICE_H_
#define QUIRE_GPUWORKER_DEVICE_DEVICE_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "kernels/api/table.h"

namespace quire::worker {

class Device;

/// Device memory, zeroed at allocation and freed with the object. Movable; the device outlives it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&&) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept;
  ~DeviceBuffer();
  void* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  friend class Device;
  void Free();

  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  /// The kernels of this device; null entries do not exist.
  virtual const kernels::KernelTable& kernels() const = 0;
  /// The stream that kernels and copies of this device are given; null on the CPU.
  virtual void* stream() const = 0;
  /// Zeroed memory, aligned to 64 bytes; no memory at all for 0 bytes.
  /// RESOURCE_EXHAUSTED when the memory is not there.
  StatusOr<DeviceBuffer> Allocate(size_t bytes);
  virtual Status CopyToDevice(void* to, const void* from, size_t bytes) = 0;
  virtual Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  /// Between two device addresses that do not overlap.
  virtual Status CopyOnDevice(void* to, const void* from, size_t bytes) = 0;
  /// Waits for everything given to the stream.
  virtual Status Synchronize() = 0;

 protected:
  friend class DeviceBuffer;
  virtual void* AllocateBytes(size_t bytes) = 0;  ///< Zeroed; null when out of memory.
  virtual void FreeBytes(void* data) = 0;
};

/// The CPU device: host memory and kernels::CpuKernels(). Never destroyed.
Device& CpuDevice();

/// A kernel's result as a status that names the op: INVALID_ARGUMENT for a bad shape,
/// UNIMPLEMENTED, INTERNAL when the device failed.
Status ToStatus(kernels::OpStatus status, std::string_view op);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_DEVICE_H_
