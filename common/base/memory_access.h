// SPDX-License-Identifier: Apache-2.0
//
// MemoryAccess: access to memory that this processor must not touch, such as an accelerator's. Host
// memory needs none. Implementations: gpuworker/device/device_memory.h, and for tests pages without
// rights (tests/kit/guarded_memory.h).
#ifndef QUIRE_COMMON_BASE_MEMORY_ACCESS_H_
#define QUIRE_COMMON_BASE_MEMORY_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"

namespace quire {

/// Memory type, for libraries that register memory with hardware.
enum class MemoryType : uint8_t { kHost = 0, kCuda = 1 };

/// A copy of host bytes `from` to `to`, which the processor must not touch. Both stay valid until
/// it is done.
struct CopyIn {
  std::span<const std::byte> from;
  std::byte* to = nullptr;
};

/// Thread-safety: all methods may be called concurrently. They wait for the device, so threads that
/// must not block must not call them. Device errors are INTERNAL; any of the bytes may have been
/// written then.
class MemoryAccess {
 public:
  virtual ~MemoryAccess() = default;
  virtual MemoryType type() const = 0;
  /// Makes all copies. On return every reader of that memory sees the bytes.
  [[nodiscard]] virtual Status CopyTo(std::span<const CopyIn> copies) = 0;
  /// Copies `pieces` of that memory, one after the other, to `to`, which has the same total size.
  /// REQUIRES: earlier writes to them are complete.
  [[nodiscard]] virtual Status CopyFrom(std::span<const std::span<const std::byte>> pieces,
                                        std::span<std::byte> to) = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_ACCESS_H_
