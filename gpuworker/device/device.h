// SPDX-License-Identifier: Apache-2.0
//
// Device: where a worker's tensors live and its kernels run: memory, copies, a kernel table and
// streams. The CPU device and the CUDA device (cuda_device.h) are behind it.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_GPUWORKER_DEVICE_DEVICE_H_
#define QUIRE_GPUWORKER_DEVICE_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "kernels/api/table.h"
#include "quire/clock.h"
#include "quire/status.h"

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

/// Host memory that a device copies from and to by itself (Device::CopyPinned, CopyToPinned). Freed
/// with the object, by when nothing uses it any more; the device outlives it.
class UnpinBytes {
 public:
  UnpinBytes() = default;
  explicit UnpinBytes(Device* device) : device_(device) {}
  void operator()(std::byte* bytes) const;

 private:
  Device* device_ = nullptr;
};
using PinnedBytes = std::unique_ptr<std::byte[], UnpinBytes>;

/// The streams of a device. Work of one stream runs in order, and beside the work of other streams.
/// A DeviceEvent holds one stream for another. A device may have a single stream.
enum class DeviceStream : uint8_t {
  kCompute,  ///< Default for all work.
  kCopy,     ///< Bytes in flight to the device.
  kConvert,  ///< Units in flight to their slots.
};

/// A point in the work of a stream. Passed once all earlier work of the stream is done, and before
/// it is first recorded. Thread-safety: methods may be called concurrently.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Moves the event behind the work given to `stream` so far. Holds and waits made earlier keep
  /// the old point.
  [[nodiscard]] virtual Status Record(DeviceStream stream) = 0;
  /// Holds later work of `stream` until the event is passed. The host does not wait.
  [[nodiscard]] virtual Status Hold(DeviceStream stream) = 0;
  /// Waits until the event is passed.
  [[nodiscard]] virtual Status Await() = 0;
};

/// Holds streams for events, and measures on the device how long they are held. A hold lasts from
/// the end of the stream's earlier work until it continues. The host does not wait. A hold for a
/// passed event measures about a microsecond, the least that the device can tell. Thread-safety:
/// none.
class HoldTimer {
 public:
  virtual ~HoldTimer() = default;
  /// Calls event.Hold(stream), and measures it. Not allowed within Device::Record.
  [[nodiscard]] virtual Status Hold(DeviceEvent& event, DeviceStream stream) = 0;
  /// Returns the total time of holds that have ended since the last call. Zero on a device whose
  /// calls return when their work is done.
  virtual StatusOr<Duration> Take() = 0;
};

/// Work recorded by Device::Record, to be launched many times. Memory that it points to outlives
/// the last launch. Thread-safety: none.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Puts the work on the stream.
  [[nodiscard]] virtual Status Launch() = 0;
};

/// Memory that a device computes in.
enum class MemoryType : uint8_t { kHost = 0, kCuda = 1 };

/// Requests that a device got.
struct DeviceUse {
  int64_t launches = 0;    ///< Kernels and recorded stretches.
  int64_t host_waits = 0;  ///< Calls that waited for work that had not run.
  DeviceUse operator-(const DeviceUse& before) const {
    return {launches - before.launches, host_waits - before.host_waits};
  }
  DeviceUse& operator+=(const DeviceUse& more) {
    launches += more.launches;
    host_waits += more.host_waits;
    return *this;
  }
};

class Device {
 public:
  virtual ~Device() = default;
  /// For flags and errors: "cpu", "cuda".
  virtual std::string_view name() const = 0;
  /// The GPU's name, for reports; empty where it is the processor.
  virtual std::string_view hardware() const { return ""; }
  /// True if cuBLAS multiplies many rows, for reports. Otherwise the device's own kernels do.
  virtual bool has_cublas() const { return false; }
  /// Since the process started, by everything that uses the device. Zeros on the CPU.
  virtual DeviceUse use() const { return {}; }
  /// The kernels of this device; null entries do not exist.
  virtual const kernels::KernelTable& kernels() const = 0;
  /// The kCompute stream, for kernels; null on the CPU. Get it anew for each kernel, since Record
  /// replaces it.
  virtual void* stream() const = 0;
  /// The stream for kernels that are given to kConvert.
  virtual void* convert_stream() const { return stream(); }
  /// True if kernels can read host memory. Otherwise lists are copied to the device first
  /// (device_list.h).
  bool reads_host_memory() const { return stream() == nullptr; }
  /// Type of memory from Allocate. The processor can access kHost.
  virtual MemoryType memory_type() const = 0;
  /// Bytes that Allocate has given away and that are in use.
  uint64_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }
  /// Zeroed memory, aligned to 64 bytes; no memory at all for 0 bytes. RESOURCE_EXHAUSTED naming
  /// the bytes when memory is short; IsOutOfDeviceMemory tells it from a refusal by a server.
  StatusOr<DeviceBuffer> Allocate(size_t bytes);
  /// More than 0 bytes of host memory for CopyPinned and CopyToPinned, aligned to 64 bytes;
  /// RESOURCE_EXHAUSTED as Allocate. It may wait for the device, so allocate once and keep the
  /// memory.
  StatusOr<PinnedBytes> AllocatePinned(size_t bytes);
  /// Copies bytes that are not pinned. The caller may change them after the return.
  virtual Status CopyToDevice(void* to, const void* from, size_t bytes) = 0;
  /// Copies from memory of AllocatePinned in the order of `stream`. The bytes must not change until
  /// the stream is past the copy.
  virtual Status CopyPinned(DeviceStream stream, void* to, const void* from, size_t bytes);
  /// Copies to memory of AllocatePinned in the order of kCompute. The bytes are valid once kCompute
  /// is past the copy; leave them alone until then.
  virtual Status CopyToPinned(void* to, const void* from, size_t bytes);
  /// Copies after the work given to kCompute, and waits. The bytes are valid at the return.
  virtual Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  /// Copies between two device addresses that do not overlap.
  virtual Status CopyOnDevice(void* to, const void* from, size_t bytes) = 0;
  /// Waits for everything given to kCompute.
  virtual Status Synchronize() = 0;
  /// An event of this device, which outlives it.
  virtual StatusOr<std::unique_ptr<DeviceEvent>> MakeEvent();
  /// A timer for events of this device, which outlives it.
  virtual std::unique_ptr<HoldTimer> MakeHoldTimer();
  /// Calls `work`, and records the kernels that it launches instead of running them. `work`
  /// launches kernels on the calling thread and nothing else. Null, without a call, on a device
  /// that cannot record.
  virtual StatusOr<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work);

 protected:
  friend class DeviceBuffer;
  friend class UnpinBytes;
  virtual void* AllocateBytes(size_t bytes) = 0;  ///< Zeroed; null when out of memory.
  virtual void FreeBytes(void* data) = 0;
  virtual void* PinBytes(size_t bytes);  ///< Null when out of memory.
  virtual void FreePinned(void* data);

 private:
  std::atomic<uint64_t> allocated_bytes_ = 0;
};

/// True if `status`, annotated or not, comes from a device that ran out of memory.
bool IsOutOfDeviceMemory(const Status& status);

/// The CPU device: host memory and kernels::CpuKernels(). Never destroyed.
Device& CpuDevice();

/// A kernel's result as a status that names the op: INVALID_ARGUMENT for a bad shape,
/// UNIMPLEMENTED, INTERNAL when the device failed.
Status ToStatus(kernels::OpStatus status, std::string_view op);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_DEVICE_H_
