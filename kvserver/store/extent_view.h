// SPDX-License-Identifier: Apache-2.0
//
// ExtentView: an extent on its way into a tier. Tiers move bytes; policies decide which; PageStore
// routes between them. A tier knows nothing of chains or documents, and of tenants only whose an
// extent is. It does not judge whether an extent may be replaced: that a sealed segment never
// changes is PageStore's promise.
//
// Both tiers keep to this, and testing/tier_conformance.h shows it: what a reader was handed stays
// valid as long as it keeps the slice's owner, whatever is put, evicted or erased meanwhile; a
// reader sees an extent whole or not at all; what is not held is NOT_FOUND, and bytes that fail
// their checksum are DATA_LOSS.
#ifndef QUIRE_KVSERVER_STORE_EXTENT_VIEW_H_
#define QUIRE_KVSERVER_STORE_EXTENT_VIEW_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kvserver/store/unit.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Views: the caller keeps the bytes until Put returns.
struct ExtentView {
  ExtentId id;
  std::span<const std::byte> bytes;       ///< [units][unit_bytes]
  std::span<const uint32_t> unit_crc32c;  ///< [units], at least one
  uint64_t full_bytes = 0;  ///< Bytes of a full extent of its KvSpec; bytes.size() is at most this.
  std::string_view tenant = {};  ///< Whose it is.
  SegmentKey parent = kRootKey;  ///< As NewExtent::parent.
  double seconds_per_token = 0;  ///< As NewExtent::seconds_per_token.
  bool encoded = false;          ///< As UnitBytes::encoded().
  bool entropy = false;          ///< Worth compressing at rest: the SSD tier does.

  uint64_t unit_bytes() const { return bytes.size() / unit_crc32c.size(); }
  /// DATA_LOSS naming the first unit that does not match its checksum. A tier that stores the bytes
  /// as they are need not ask; one that makes other bytes of them does. REQUIRES: CheckShape.
  [[nodiscard]] Status Verify() const;
};

/// What is wrong with the shape of `extent`; OK when a tier can take it.
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
