// SPDX-License-Identifier: Apache-2.0
//
// Checksums of the units of a payload, wherever its slices cut them. Thread-safety: pure functions.
#ifndef QUIRE_COMMON_BASE_MEMORY_UNIT_CHECKSUMS_H_
#define QUIRE_COMMON_BASE_MEMORY_UNIT_CHECKSUMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "quire/payload.h"

namespace quire {

/// A unit that does not match its checksum: its place in the payload, and what it has instead.
struct UnitMismatch {
  uint64_t unit = 0;
  uint32_t crc32c = 0;
};

/// The units of `payload`, each of `unit_bytes` (> 0), that do not match their CRC-32C. REQUIRES:
/// the payload has a unit for each checksum.
std::vector<UnitMismatch> FindMismatches(const Payload& payload, uint64_t unit_bytes,
                                         std::span<const uint32_t> crc32c);
/// As above; `unit_bytes` has the size (> 0) of each unit.
std::vector<UnitMismatch> FindMismatches(const Payload& payload,
                                         std::span<const uint64_t> unit_bytes,
                                         std::span<const uint32_t> crc32c);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_UNIT_CHECKSUMS_H_
