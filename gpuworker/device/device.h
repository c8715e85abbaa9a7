// SPDX-License-Identifier: Apache-2.0
//
// Device: where a worker's tensors live and its kernels run: memory, copies, a kernel table and a
// stream. The CPU device and the CUDA device (cuda_device.h) are behind it.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_GPUWORKER_DEVICE_DEVICE_H_
#define QUIRE_GPUWORKER_DEVICE_DEVICE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "common/base/memory_access.h"
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

/// Work that a device has recorded (Device::Record), to be given to its stream again and again.
/// What it points to outlives its last launch. Thread-safety: none.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Puts the work on the stream, as if it were given anew.
  [[nodiscard]] virtual Status Launch() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  /// For flags and errors: "cpu", "cuda".
  virtual std::string_view name() const = 0;
  /// The kernels of this device; null entries do not exist.
  virtual const kernels::KernelTable& kernels() const = 0;
  /// The stream that kernels of this device are given; null on the CPU. Within Record it is
  /// another, so it is asked for anew for each kernel.
  virtual void* stream() const = 0;
  /// Whether kernels can read the host's memory; if not, lists go to the device first
  /// (device_list.h).
  bool reads_host_memory() const { return stream() == nullptr; }
  /// Of what Allocate gives; the processor reads and writes kHost.
  virtual MemoryType memory_type() const = 0;
  /// Zeroed memory, aligned to 64 bytes; no memory at all for 0 bytes.
  /// RESOURCE_EXHAUSTED naming the bytes when the memory is not there; IsOutOfDeviceMemory tells it
  /// from what a server refuses with the same code.
  StatusOr<DeviceBuffer> Allocate(size_t bytes);
  /// The host's bytes may change after the return.
  virtual Status CopyToDevice(void* to, const void* from, size_t bytes) = 0;
  /// Follows what was given to the stream, and waits: the bytes are there at the return.
  virtual Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  /// Between two device addresses that do not overlap.
  virtual Status CopyOnDevice(void* to, const void* from, size_t bytes) = 0;
  /// Waits for everything given to the stream.
  virtual Status Synchronize() = 0;
  /// Calls `work`, which gives this device kernels from the calling thread and nothing else, and
  /// records them instead of running them. Null on a device that does not record: `work` was not
  /// called.
  virtual StatusOr<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work);

 protected:
  friend class DeviceBuffer;
  virtual void* AllocateBytes(size_t bytes) = 0;  ///< Zeroed; null when out of memory.
  virtual void FreeBytes(void* data) = 0;
};

/// Whether `status`, annotated or not, comes from a device that had no memory left.
bool IsOutOfDeviceMemory(const Status& status);

/// The CPU device: host memory and kernels::CpuKernels(). Never destroyed.
Device& CpuDevice();

/// A kernel's result as a status that names the op: INVALID_ARGUMENT for a bad shape,
/// UNIMPLEMENTED, INTERNAL when the device failed.
Status ToStatus(kernels::OpStatus status, std::string_view op);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_DEVICE_H_
