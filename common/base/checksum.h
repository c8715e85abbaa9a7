// SPDX-License-Identifier: Apache-2.0
//
// Crc32c: the checksum of every unit and record (Castagnoli polynomial, initial value and final
// xor 0xffffffff, as in iSCSI: Crc32c("123456789") == 0xe3069283).
#ifndef QUIRE_COMMON_BASE_CHECKSUM_H_
#define QUIRE_COMMON_BASE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

/// Checksum of `bytes`; give the checksum of what came before as `seed` to go on from there.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t seed = 0);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_CHECKSUM_H_
