// SPDX-License-Identifier: Apache-2.0
//
// PackedLists: several lists of the host's that kernels are to read, sent to the device by one
// copy. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_DEVICE_PACKED_LISTS_H_
#define QUIRE_GPUWORKER_DEVICE_PACKED_LISTS_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "gpuworker/device/device.h"
#include "quire/status.h"

namespace quire::worker {

class PackedLists {
 public:
  /// Adds a copy of `list`.
  template <typename T>
  void Add(std::span<T> list) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    begins_.push_back(bytes_.size());
    const auto bytes = std::as_bytes(list);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  /// Copies everything to `memory`, which grows where it has to. Earlier contents are lost; kernels
  /// that were given to the device before still read them.
  [[nodiscard]] Status Send(Device& device, DeviceBuffer* memory) {
    if (memory->size_bytes() < bytes_.size()) {
      QUIRE_ASSIGN_OR_RETURN(*memory,
                             device.Allocate(std::max(bytes_.size(), 2 * memory->size_bytes())));
    }
    sent_ = memory->as<const std::byte>();
    return device.CopyToDevice(memory->data(), bytes_.data(), bytes_.size());
  }
  /// Device address of the next list, in the order in which they were added. REQUIRES: Send.
  template <typename T>
  const T* Next() {
    return reinterpret_cast<const T*>(sent_ + begins_[next_++]);
  }

 private:
  static constexpr size_t kAlignment = 16;

  std::vector<std::byte> bytes_;
  std::vector<size_t> begins_;
  const std::byte* sent_ = nullptr;
  size_t next_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_PACKED_LISTS_H_
