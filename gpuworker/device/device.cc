// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/device.h"

#include <new>
#include <utility>

namespace quire::worker {
namespace {

/// Marks a status whose cause is the device's memory.
constexpr char kOutOfMemory[] = "quire.worker/out-of-device-memory";

constexpr std::align_val_t kPinnedAlignment{64};

Status OutOfMemory(std::string_view device, size_t bytes, std::string_view what) {
  Status status = ResourceExhausted("device ", device, " has no ", bytes, what,
                                    "; use a smaller model, context or budget");
  status.SetMark(kOutOfMemory, "");
  return status;
}

/// Event of a device whose calls return when their work is done.
class PassedEvent final : public DeviceEvent {
 public:
  Status Record(DeviceStream) override { return OkStatus(); }
  Status Hold(DeviceStream) override { return OkStatus(); }
  Status Await() override { return OkStatus(); }
};

/// Timer of a device whose calls return when their work is done: nothing is held.
class IdleHoldTimer final : public HoldTimer {
 public:
  Status Hold(DeviceEvent& event, DeviceStream stream) override { return event.Hold(stream); }
  StatusOr<Duration> Take() override { return Duration::zero(); }
};

}  // namespace

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  Free();
  device_ = std::exchange(other.device_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  return *this;
}

DeviceBuffer::~DeviceBuffer() { Free(); }

void DeviceBuffer::Free() {
  if (data_ != nullptr) {
    device_->FreeBytes(data_);
    device_->allocated_bytes_.fetch_sub(size_bytes_, std::memory_order_relaxed);
  }
  data_ = nullptr;
}

StatusOr<DeviceBuffer> Device::Allocate(size_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  void* data = AllocateBytes(bytes);
  if (data == nullptr) return OutOfMemory(name(), bytes, " bytes free");
  allocated_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  buffer.device_ = this;
  buffer.data_ = data;
  buffer.size_bytes_ = bytes;
  return buffer;
}

void UnpinBytes::operator()(std::byte* bytes) const { device_->FreePinned(bytes); }

StatusOr<PinnedBytes> Device::AllocatePinned(size_t bytes) {
  void* const data = PinBytes(bytes);
  if (data == nullptr) return OutOfMemory(name(), bytes, " bytes of pinned host memory");
  return PinnedBytes(static_cast<std::byte*>(data), UnpinBytes(this));
}

void* Device::PinBytes(size_t bytes) {
  return ::operator new(bytes, kPinnedAlignment, std::nothrow);
}
void Device::FreePinned(void* data) { ::operator delete(data, kPinnedAlignment); }

Status Device::CopyPinned(DeviceStream, void* to, const void* from, size_t bytes) {
  return CopyToDevice(to, from, bytes);
}

Status Device::CopyToPinned(void* to, const void* from, size_t bytes) {
  return CopyToHost(to, from, bytes);
}

StatusOr<std::unique_ptr<DeviceEvent>> Device::MakeEvent() {
  return std::unique_ptr<DeviceEvent>(std::make_unique<PassedEvent>());
}

std::unique_ptr<HoldTimer> Device::MakeHoldTimer() { return std::make_unique<IdleHoldTimer>(); }

bool IsOutOfDeviceMemory(const Status& status) { return status.Mark(kOutOfMemory).has_value(); }

StatusOr<std::unique_ptr<DeviceGraph>> Device::Record(const std::function<Status()>&) {
  return std::unique_ptr<DeviceGraph>();
}

Status ToStatus(kernels::OpStatus status, std::string_view op) {
  switch (status) {
    case kernels::OpStatus::kOk:
      return OkStatus();
    case kernels::OpStatus::kBadShape:
      return InvalidArgument("kernel ", op, ": a size, index or pointer is out of its range");
    case kernels::OpStatus::kUnsupported:
      return Unimplemented("kernel ", op, ": this device has no kernel for the request");
    case kernels::OpStatus::kDeviceError:
      return Internal("kernel ", op, ": the device failed");
  }
  return Internal("kernel ", op, ": unknown result ", static_cast<int>(status));
}

}  // namespace quire::worker
