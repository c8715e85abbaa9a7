// SPDX-License-Identifier: Apache-2.0
//
// CopyWithCrc32c: copies a unit and returns its checksum, in one pass. For destinations that are
// not read at once, such as slots and staging buffers. Stores bypass the cache where the processor
// can, so the destination is not read first. Verified copies of scattered units are faster than
// plain memcpy. CopyAroundCache does so without a checksum. CopyFetchingAhead is for memory that is
// read again at once (a send buffer). Thread-safety: pure functions.
#ifndef QUIRE_COMMON_BASE_MEMORY_UNIT_COPY_H_
#define QUIRE_COMMON_BASE_MEMORY_UNIT_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quire/payload.h"
#include "quire/status.h"

namespace quire {

/// Copies `from` to `to`, without overlap, and returns Crc32c(from). `next` is the start of the
/// next copy's source, at least as long, to be prefetched; null when there is none. Other threads
/// see the bytes after this thread's next synchronisation, as with every store.
uint32_t CopyWithCrc32c(std::span<const std::byte> from, std::byte* to,
                        const std::byte* next = nullptr);

/// The same without the checksum.
void CopyAroundCache(std::span<const std::byte> from, std::byte* to,
                     const std::byte* next = nullptr);

/// Copies `from` to `to`, without overlap, through the cache. `next`: as in CopyWithCrc32c.
void CopyFetchingAhead(std::span<const std::byte> from, std::byte* to,
                       const std::byte* next = nullptr);

/// INVALID_ARGUMENT unless slice `index`, of `bytes` bytes at `place`, fits in a landing of
/// `landing_bytes`.
[[nodiscard]] Status CheckPlace(size_t index, uint64_t place, uint64_t bytes,
                                uint64_t landing_bytes);

/// INVALID_ARGUMENT unless `payload` has one place for each slice and every slice passes
/// CheckPlace.
[[nodiscard]] Status CheckPlaces(const Payload& payload, const std::vector<uint64_t>& places,
                                 uint64_t landing_bytes);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_UNIT_COPY_H_
