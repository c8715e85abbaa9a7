// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/device_memory.h"

#include <algorithm>
#include <utility>

#include "common/base/mutex.h"

namespace quire::worker {
namespace {

constexpr size_t kGatheredBytes = size_t{1} << 20;

class DeviceMemory final : public MemoryAccess {
 public:
  DeviceMemory(Device* device, DeviceBuffer gathered)
      : device_(device), gathered_(std::move(gathered)) {}

  MemoryType type() const override { return device_->memory_type(); }

  Status CopyTo(std::span<const CopyIn> copies) override {
    Status copied;
    for (const CopyIn& copy : copies) {
      if (!copied.ok()) break;
      copied = device_->CopyToDevice(copy.to, copy.from.data(), copy.from.size());
    }
    // Others write there past the stream: what is on its way must not come after them.
    const Status arrived = device_->Synchronize();
    return copied.ok() ? arrived : copied;
  }

  Status CopyFrom(std::span<const std::span<const std::byte>> pieces,
                  std::span<std::byte> to) override QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    size_t filled = 0;
    for (std::span<const std::byte> piece : pieces) {
      while (!piece.empty()) {
        const size_t part = std::min(piece.size(), gathered_.size_bytes() - filled);
        QUIRE_RETURN_IF_ERROR(
            device_->CopyOnDevice(gathered_.as<std::byte>() + filled, piece.data(), part));
        filled += part;
        piece = piece.subspan(part);
        if (filled == gathered_.size_bytes()) QUIRE_RETURN_IF_ERROR(Bring(&filled, &to));
      }
    }
    return Bring(&filled, &to);
  }

 private:
  /// Copies what was gathered to the front of `*to`, which goes on after it.
  Status Bring(size_t* filled, std::span<std::byte>* to) QUIRE_REQUIRES(mutex_) {
    QUIRE_RETURN_IF_ERROR(device_->CopyToHost(to->data(), gathered_.data(), *filled));
    *to = to->subspan(*filled);
    *filled = 0;
    return OkStatus();
  }

  Device* const device_;
  Mutex mutex_;
  const DeviceBuffer gathered_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<std::unique_ptr<MemoryAccess>> MakeMemoryAccess(Device* device) {
  if (device->memory_type() == MemoryType::kHost) return std::unique_ptr<MemoryAccess>();
  QUIRE_ASSIGN_OR_RETURN(DeviceBuffer gathered, device->Allocate(kGatheredBytes));
  return std::unique_ptr<MemoryAccess>(std::make_unique<DeviceMemory>(device, std::move(gathered)));
}

}  // namespace quire::worker
