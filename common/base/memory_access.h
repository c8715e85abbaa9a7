// SPDX-License-Identifier: Apache-2.0
//
// MemoryAccess: memory that this processor must not touch, that of an accelerator: what may be done
// with its addresses is done by this. Host memory needs none. Implementations: a worker's device
// (gpuworker/device/device_memory.h); pages without rights, for tests (tests/kit/guarded_memory.h).
#ifndef QUIRE_COMMON_BASE_MEMORY_ACCESS_H_
#define QUIRE_COMMON_BASE_MEMORY_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "quire/status.h"

namespace quire {

/// What libraries that register memory with hardware have to be told of it.
enum class MemoryType : uint8_t { kHost = 0, kCuda = 1 };

/// A copy of `from`, which the processor reads, to `to`, which it must not touch. Both stay until
/// it is made.
struct CopyIn {
  std::span<const std::byte> from;
  std::byte* to = nullptr;
};

/// Thread-safety: all methods may be called concurrently. They wait for the device, so not from
/// threads that must not wait. Errors are the device's, as INTERNAL; then any of the bytes may have
/// been written.
class MemoryAccess {
 public:
  virtual ~MemoryAccess() = default;
  virtual MemoryType type() const = 0;
  /// Makes all of the copies; at the return the bytes are there for whoever reads that memory.
  [[nodiscard]] virtual Status CopyTo(std::span<const CopyIn> copies) = 0;
  /// Copies `pieces` of that memory one after the other to `to`, which has as many bytes. Whoever
  /// has written there has done so before.
  [[nodiscard]] virtual Status CopyFrom(std::span<const std::span<const std::byte>> pieces,
                                        std::span<std::byte> to) = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_ACCESS_H_
