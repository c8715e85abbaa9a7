// SPDX-License-Identifier: Apache-2.0
#include "common/base/checksum.h"

#include <isa-l/crc.h>

namespace quire {

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t seed) {
  // The library takes an int length and leaves both inversions to the caller.
  constexpr size_t kMaxChunk = 1u << 30;
  uint32_t crc = ~seed;
  while (!bytes.empty()) {
    const size_t n = bytes.size() < kMaxChunk ? bytes.size() : kMaxChunk;
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  }
  return ~crc;
}

}  // namespace quire
