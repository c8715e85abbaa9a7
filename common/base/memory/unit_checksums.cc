// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/unit_checksums.h"

#include <algorithm>

#include "common/base/memory/checksum.h"

namespace quire {
namespace {

/// `bytes_of(i)` is the size of unit i.
template <typename BytesOf>
std::vector<UnitMismatch> Find(const Payload& payload, const BytesOf& bytes_of,
                               std::span<const uint32_t> crc32c) {
  std::vector<UnitMismatch> mismatches;
  uint64_t unit = 0;
  uint64_t filled = 0;  // Bytes of `unit` that earlier slices held.
  uint32_t crc = 0;
  for (const Slice& slice : payload.slices()) {
    std::span<const std::byte> rest = slice.bytes;
    while (!rest.empty()) {
      const uint64_t unit_bytes = bytes_of(unit);
      const auto part = rest.first(std::min<uint64_t>(rest.size(), unit_bytes - filled));
      crc = Crc32c(part, crc);
      filled += part.size();
      rest = rest.subspan(part.size());
      if (filled < unit_bytes) continue;
      if (crc != crc32c[unit]) mismatches.push_back({unit, crc});
      ++unit;
      filled = 0;
      crc = 0;
    }
  }
  return mismatches;
}

}  // namespace

std::vector<UnitMismatch> FindMismatches(const Payload& payload, uint64_t unit_bytes,
                                         std::span<const uint32_t> crc32c) {
  return Find(
      payload, [unit_bytes](uint64_t) { return unit_bytes; }, crc32c);
}

std::vector<UnitMismatch> FindMismatches(const Payload& payload,
                                         std::span<const uint64_t> unit_bytes,
                                         std::span<const uint32_t> crc32c) {
  return Find(
      payload, [unit_bytes](uint64_t unit) { return unit_bytes[unit]; }, crc32c);
}

}  // namespace quire
