// SPDX-License-Identifier: Apache-2.0
//
// Crc32c: the checksum of every unit and record. Castagnoli polynomial, initial value and final xor
// 0xffffffff, as in iSCSI: Crc32c("123456789") == 0xe3069283.
//
// Crc32cSuffix: computes the checksum of a suffix from the checksums of the whole and of the
// prefix, without reading the suffix. The result still depends on the checksum that the whole was
// stored with. Immutable.
#ifndef QUIRE_COMMON_BASE_MEMORY_CHECKSUM_H_
#define QUIRE_COMMON_BASE_MEMORY_CHECKSUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

/// Returns the checksum of `bytes`. Pass the checksum of earlier bytes as `seed` to continue from
/// them.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

class Crc32cSuffix {
 public:
  /// Prepares for suffixes of `suffix_bytes`. It takes microseconds, each use of it nanoseconds.
  explicit Crc32cSuffix(uint64_t suffix_bytes);
  /// Returns the checksum of the suffix. `whole` covers prefix and suffix together. The result is
  /// wrong when either argument is wrong.
  uint32_t Of(uint32_t whole, uint32_t prefix) const;

 private:
  std::array<uint32_t, 32> shifted_;  ///< Contribution of each bit of `prefix` to `whole`.
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_CHECKSUM_H_
