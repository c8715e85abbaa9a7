// SPDX-License-Identifier: Apache-2.0
//
// OwnedExtent: an extent of made-up bytes, for tests of tiers.
#ifndef QUIRE_KVSERVER_STORE_TESTING_OWNED_EXTENT_H_
#define QUIRE_KVSERVER_STORE_TESTING_OWNED_EXTENT_H_

#include <cstring>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/random.h"
#include "kvserver/store/extent_view.h"

namespace quire::kvserver::testing {

/// An extent that owns its bytes.
struct OwnedExtent {
  OwnedExtent(uint64_t segment, uint32_t layer, uint32_t units, uint64_t unit_bytes,
              uint64_t seed = 0)
      : id{SegmentNumber(segment), layer}, bytes(units * unit_bytes) {
    SeededRandom random(seed + segment * 131 + layer);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.Next());
    crcs.resize(units);
    for (uint32_t unit = 0; unit < units; ++unit) crcs[unit] = Crc32c(Unit(unit));
  }
  static SegmentKey SegmentNumber(uint64_t number) {
    SegmentKey key;
    std::memcpy(key.bytes.data(), &number, sizeof number);
    return key;
  }
  std::span<const std::byte> Unit(uint32_t unit) const {
    const size_t unit_bytes = bytes.size() / crcs.size();
    return std::span(bytes).subspan(unit * unit_bytes, unit_bytes);
  }
  ExtentView view() const {
    return {.id = id, .bytes = bytes, .unit_crc32c = crcs, .full_bytes = bytes.size()};
  }

  ExtentId id;
  std::vector<std::byte> bytes;
  std::vector<uint32_t> crcs;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_OWNED_EXTENT_H_
