// SPDX-License-Identifier: Apache-2.0
//
// Crc32c: the checksum of every unit and record (Castagnoli polynomial, initial value and final
// xor 0xffffffff, as in iSCSI: Crc32c("123456789") == 0xe3069283).
//
// Crc32cSuffix: the checksum that the end of something must have, from that of the whole and that
// of its beginning, without a look at the end itself: so the end stays under the checksum that the
// whole was stored with. Immutable.
#ifndef QUIRE_COMMON_BASE_CHECKSUM_H_
#define QUIRE_COMMON_BASE_CHECKSUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

/// Checksum of `bytes`; give the checksum of what came before as `seed` to go on from there.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

class Crc32cSuffix {
 public:
  /// For ends of `suffix_bytes`. Takes some microseconds; Of takes nanoseconds.
  explicit Crc32cSuffix(uint64_t suffix_bytes);
  /// The checksum of the end, where `whole` is that of beginning and end together and `prefix` that
  /// of the beginning. When one of them is not right, neither is the result.
  uint32_t Of(uint32_t whole, uint32_t prefix) const;

 private:
  std::array<uint32_t, 32> shifted_;  ///< What each bit of `prefix` adds to `whole`.
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_CHECKSUM_H_
