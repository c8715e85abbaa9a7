// SPDX-License-Identifier: Apache-2.0
//
// LandingMemory: memory for units to land in, and by what it is reached where the processor must
// not touch it. Thread-safety: a value; that of its bytes and its access.
#ifndef QUIRE_TRANSPORT_LANDING_MEMORY_H_
#define QUIRE_TRANSPORT_LANDING_MEMORY_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/memory_access.h"
#include "quire/payload.h"
#include "quire/status.h"

namespace quire {

struct LandingMemory {
  std::span<std::byte> bytes = {};
  MemoryAccess* access = nullptr;  ///< Null for memory that the processor reads and writes.

  LandingMemory() = default;
  /// Nobody can tell by an address where it lies: who gives memory that the processor must not
  /// touch gives its access along, which outlives every use.
  template <typename Bytes>
  requires std::convertible_to<Bytes, std::span<std::byte>> LandingMemory(
      Bytes&& memory, MemoryAccess* how = nullptr)  // NOLINT: a vector is memory
      : bytes(std::forward<Bytes>(memory)), access(how) {}

  bool is_host() const { return access == nullptr; }
  MemoryType type() const { return is_host() ? MemoryType::kHost : access->type(); }
};

/// Copies each slice of `payload` to its place in `memory`, and answers their CRC-32C, of what was
/// read. REQUIRES: CheckPlaces. Errors are those of the access: host memory has none.
[[nodiscard]] StatusOr<std::vector<uint32_t>> CopyToLanding(const Payload& payload,
                                                            std::span<const uint64_t> places,
                                                            const LandingMemory& memory);

/// The CRC-32C of each of `pieces` of memory that `access` reaches. They are copied to the host for
/// it, a megabyte at a time.
[[nodiscard]] StatusOr<std::vector<uint32_t>> ChecksumsBehind(
    MemoryAccess& access, std::span<const std::span<const std::byte>> pieces);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_LANDING_MEMORY_H_
