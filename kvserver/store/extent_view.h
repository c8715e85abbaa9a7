// SPDX-License-Identifier: Apache-2.0
//
// ExtentView: an extent to be put into a tier. Tiers move bytes, policies decide which, and
// PageStore routes between them. A tier knows the tenant of an extent, but neither chains nor
// documents. It replaces extents freely: PageStore keeps sealed segments from changing.
//
// Rules of both tiers, tested by testing/tier_conformance.h: A slice stays valid while its owner
// lives, whatever is put, evicted or erased meanwhile. A reader sees an extent whole or not at all.
// A missing extent is NOT_FOUND. Bytes that fail their checksum are DATA_LOSS.
#ifndef QUIRE_KVSERVER_STORE_EXTENT_VIEW_H_
#define QUIRE_KVSERVER_STORE_EXTENT_VIEW_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kvserver/store/unit.h"
#include "quire/status.h"

namespace quire::kvserver {

/// A view: the caller keeps the bytes until Put returns.
struct ExtentView {
  ExtentId id;
  std::span<const std::byte> bytes;       ///< [units][unit_bytes]
  std::span<const uint32_t> unit_crc32c;  ///< [units], at least one
  uint64_t full_bytes = 0;       ///< Size of a full extent of its KvSpec; at least bytes.size().
  std::string_view tenant = {};  ///< Owner of the extent.
  SegmentKey parent = kRootKey;  ///< As NewExtent::parent.
  double seconds_per_token = 0;  ///< As NewExtent::seconds_per_token.
  UnitCodec codec = UnitCodec::kRaw;  ///< Codec of its units.
  bool entropy = false;               ///< Worth compressing at rest; the SSD tier does.
  bool listed = true;  ///< Look-ups find its segment: it is neither private nor an object.

  uint64_t unit_bytes() const { return bytes.size() / unit_crc32c.size(); }
  /// DATA_LOSS naming the first unit that does not match its checksum. A tier that re-encodes the
  /// bytes calls it first. REQUIRES: CheckShape.
  [[nodiscard]] Status Verify() const;
};

/// Returns an error for a malformed shape of `extent`.
[[nodiscard]] inline Status CheckShape(const ExtentView& extent) {
  if (extent.unit_crc32c.empty() || extent.bytes.empty() ||
      extent.bytes.size() % extent.unit_crc32c.size() != 0 ||
      extent.bytes.size() > extent.full_bytes) {
    return InvalidArgument("extent of ", extent.bytes.size(), " bytes with ",
                           extent.unit_crc32c.size(), " checksums in a slot of ", extent.full_bytes,
                           " bytes: give a whole number of units and one checksum for each");
  }
  return OkStatus();
}

inline Status ExtentView::Verify() const {
  for (size_t unit = 0; unit < unit_crc32c.size(); ++unit) {
    if (Crc32c(bytes.subspan(unit * unit_bytes(), unit_bytes())) == unit_crc32c[unit]) continue;
    return DataLoss("segment ", id.segment.Hex(), " layer ", id.layer, " unit ", unit,
                    " does not match its checksum; put the segment again");
  }
  return OkStatus();
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_EXTENT_VIEW_H_
