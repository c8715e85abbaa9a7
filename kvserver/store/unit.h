// SPDX-License-Identifier: Apache-2.0
//
// How units and extents are named and handed out inside the store. Plain values.
#ifndef QUIRE_KVSERVER_STORE_UNIT_H_
#define QUIRE_KVSERVER_STORE_UNIT_H_

#include <cstddef>
#include <cstdint>

#include "common/base/payload.h"
#include "common/page/key.h"
#include "kernels/api/digest.h"

namespace quire::kvserver {

/// Names a unit: extent (segment, layer) and the unit's index in it (layout.h, UnitIndex).
struct UnitAddress {
  SegmentKey segment;
  uint32_t layer = 0;
  uint32_t unit = 0;
};

/// A unit's bytes in place. Valid while `slice.owner` lives; eviction works around it.
struct UnitBytes {
  Slice slice;
  uint32_t crc32c = 0;
  bool encoded = false;  ///< Inside the store: readers get what it decodes to.
};

/// Names an extent: one segment's payload at one layer.
struct ExtentId {
  SegmentKey segment;
  uint32_t layer = 0;
  friend auto operator<=>(const ExtentId&, const ExtentId&) = default;
};

struct ExtentIdHash {
  size_t operator()(const ExtentId& id) const {
    return SegmentKeyHash()(id.segment) ^ (size_t{id.layer} * 0x9e3779b97f4a7c15ull);
  }
};

/// Names the digests of one kind of the units of an extent.
struct DigestId {
  ExtentId extent;
  kernels::DigestKind kind = kernels::DigestKind::kMinMax;
  friend auto operator<=>(const DigestId&, const DigestId&) = default;
};

struct DigestIdHash {
  size_t operator()(const DigestId& id) const {
    return ExtentIdHash()(id.extent) + static_cast<size_t>(id.kind);
  }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_UNIT_H_
