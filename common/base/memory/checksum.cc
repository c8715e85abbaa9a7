// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/checksum.h"

#include <isa-l/crc.h>

namespace quire {
namespace {

/// A linear map of remainders: the image of each bit.
using Columns = std::array<uint32_t, 32>;

uint32_t Apply(const Columns& map, uint32_t remainder) {
  uint32_t image = 0;
  for (size_t bit = 0; bit < map.size(); ++bit) image ^= map[bit] & (0u - (remainder >> bit & 1u));
  return image;
}

Columns After(const Columns& first, const Columns& second) {
  Columns both;
  for (size_t bit = 0; bit < both.size(); ++bit) both[bit] = Apply(second, first[bit]);
  return both;
}

/// The map of one appended zero byte.
Columns OneZero() {
  constexpr std::byte kZero[1] = {};
  Columns map;
  for (size_t bit = 0; bit < map.size(); ++bit) map[bit] = ~Crc32c(kZero, ~(1u << bit));
  return map;
}

}  // namespace

// Without the inversions, the remainder is linear in its initial value and in the bytes. The
// inversions therefore cancel in Crc32c(a b) ^ Crc32c(b), which equals Crc32c(a) advanced by |b|
// zero bytes.
Crc32cSuffix::Crc32cSuffix(uint64_t suffix_bytes) {
  for (size_t bit = 0; bit < shifted_.size(); ++bit) shifted_[bit] = 1u << bit;
  for (Columns zeros = OneZero(); suffix_bytes > 0; suffix_bytes >>= 1) {
    if (suffix_bytes & 1) shifted_ = After(shifted_, zeros);
    zeros = After(zeros, zeros);
  }
}

uint32_t Crc32cSuffix::Of(uint32_t whole, uint32_t prefix) const {
  return whole ^ Apply(shifted_, prefix);
}

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
