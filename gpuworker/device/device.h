// SPDX-License-Identifier: Apache-2.0
//
// Device: where a worker's tensors live and its kernels run: memory, copies, a kernel table and
// streams. The CPU device and the CUDA device (cuda_device.h) are behind it.
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_GPUWORKER_DEVICE_DEVICE_H_
#define QUIRE_GPUWORKER_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "common/base/clock.h"
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

/// The streams of a device. What is given to one runs in the order in which it was given, and
/// beside what is given to the others, except where one is held for another (DeviceEvent). A device
/// may have a single one.
enum class DeviceStream : uint8_t {
  kCompute,  ///< Of everything that does not name another.
  kCopy,     ///< Bytes on their way to the device.
  kConvert,  ///< Units on their way into their slots.
};

/// A point in the work of a stream, passed once everything is done that the stream was given before
/// it. Until it is recorded it counts as passed. Thread-safety: methods may be called concurrently.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Moves it behind what has been given to `stream`. Who was held or waits keeps to the point
  /// before.
  [[nodiscard]] virtual Status Record(DeviceStream stream) = 0;
  /// What `stream` is given from here on runs once the event is passed. The host does not wait.
  [[nodiscard]] virtual Status Hold(DeviceStream stream) = 0;
  /// Waits until it is passed.
  [[nodiscard]] virtual Status Await() = 0;
};

/// Holds streams for events, and measures on the device how long they are held: from when a stream
/// has done what it was given before until it goes on. The host waits for nothing. A hold for what
/// has passed already measures as little as the device can tell, about a microsecond.
/// Thread-safety: none.
class HoldTimer {
 public:
  virtual ~HoldTimer() = default;
  /// event.Hold(stream), measured. Not within Device::Record.
  [[nodiscard]] virtual Status Hold(DeviceEvent& event, DeviceStream stream) = 0;
  /// Takes the time of the holds that have ended; of the others a later call tells. Nothing on a
  /// device that has done what it was given when a call returns.
  virtual StatusOr<Duration> Take() = 0;
};

/// Work that a device has recorded (Device::Record), to be given to its stream again and again.
/// What it points to outlives its last launch. Thread-safety: none.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Puts the work on the stream, as if it were given anew.
  [[nodiscard]] virtual Status Launch() = 0;
};

/// Whose memory a device computes in.
enum class MemoryType : uint8_t { kHost = 0, kCuda = 1 };

class Device {
 public:
  virtual ~Device() = default;
  /// For flags and errors: "cpu", "cuda".
  virtual std::string_view name() const = 0;
  /// The GPU's name, for reports; empty where it is the processor.
  virtual std::string_view hardware() const { return ""; }
  /// Whether products of many rows are cuBLAS's, for reports; else they are the device's own.
  virtual bool has_cublas() const { return false; }
  /// The kernels of this device; null entries do not exist.
  virtual const kernels::KernelTable& kernels() const = 0;
  /// The stream that kernels of this device are given, of kCompute; null on the CPU. Within Record
  /// it is another, so it is asked for anew for each kernel.
  virtual void* stream() const = 0;
  /// The stream for kernels that are given to kConvert.
  virtual void* convert_stream() const { return stream(); }
  /// Whether kernels can read the host's memory; if not, lists go to the device first
  /// (device_list.h).
  bool reads_host_memory() const { return stream() == nullptr; }
  /// Of what Allocate gives; the processor reads and writes kHost.
  virtual MemoryType memory_type() const = 0;
  /// Zeroed memory, aligned to 64 bytes; no memory at all for 0 bytes.
  /// RESOURCE_EXHAUSTED naming the bytes when the memory is not there; IsOutOfDeviceMemory tells it
  /// from what a server refuses with the same code.
  StatusOr<DeviceBuffer> Allocate(size_t bytes);
  /// More than 0 bytes of host memory for CopyPinned and CopyToPinned, aligned to 64 bytes;
  /// RESOURCE_EXHAUSTED as Allocate. It may wait for the device: it is for what is kept.
  StatusOr<PinnedBytes> AllocatePinned(size_t bytes);
  /// The host's bytes, which are not pinned, may change after the return.
  virtual Status CopyToDevice(void* to, const void* from, size_t bytes) = 0;
  /// From AllocatePinned, in the order of `stream`, whose work may read the bytes until it is past
  /// the copy.
  virtual Status CopyPinned(DeviceStream stream, void* to, const void* from, size_t bytes);
  /// To memory from AllocatePinned, in the order of kCompute. Nobody touches the bytes until
  /// kCompute is past the copy; then they are there.
  virtual Status CopyToPinned(void* to, const void* from, size_t bytes);
  /// Follows what was given to the stream, and waits: the bytes are there at the return.
  virtual Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  /// Between two device addresses that do not overlap.
  virtual Status CopyOnDevice(void* to, const void* from, size_t bytes) = 0;
  /// Waits for everything given to kCompute.
  virtual Status Synchronize() = 0;
  /// An event of this device, which outlives it.
  virtual StatusOr<std::unique_ptr<DeviceEvent>> MakeEvent();
  /// A timer for events of this device, which outlives it.
  virtual std::unique_ptr<HoldTimer> MakeHoldTimer();
  /// Calls `work`, which gives this device kernels from the calling thread and nothing else, and
  /// records them instead of running them. Null on a device that does not record: `work` was not
  /// called.
  virtual StatusOr<std::unique_ptr<DeviceGraph>> Record(const std::function<Status()>& work);

 protected:
  friend class DeviceBuffer;
  friend class UnpinBytes;
  virtual void* AllocateBytes(size_t bytes) = 0;  ///< Zeroed; null when out of memory.
  virtual void FreeBytes(void* data) = 0;
  virtual void* PinBytes(size_t bytes);  ///< Null when out of memory.
  virtual void FreePinned(void* data);
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
