// SPDX-License-Identifier: Apache-2.0
//
// ExtentRecord: the place of an extent in the payload volumes, and the checksums of its units.
// There is one for each extent on SSD. Its encoding is versioned and checksummed
// (docs/formats/extent_record.md). Plain values, pure functions.
#ifndef QUIRE_KVSERVER_STORE_SSD_EXTENT_RECORD_H_
#define QUIRE_KVSERVER_STORE_SSD_EXTENT_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvserver/store/codec/entropy.h"
#include "kvserver/store/payload/volume/location.h"
#include "quire/status.h"

namespace quire::kvserver {

struct ExtentRecord {
  Location location;  ///< `bytes` is a multiple of the number of units, unless packed.
  std::vector<uint32_t> unit_crc32c;  ///< [units], at least one; CRC-32C of the units as read back.

  /// Units that went through the entropy coder. The location has the container without its table
  /// (codec/entropy.h).
  struct Packed {
    uint32_t unit_bytes = 0;       ///< Size of each unit as read back; at least 1.
    std::vector<std::byte> table;  ///< The container's first EntropyShape::table_bytes().
    friend bool operator==(const Packed&, const Packed&) = default;
  };
  std::optional<Packed> packed;

  /// Size of each unit as read back.
  uint64_t unit_bytes() const {
    return packed ? packed->unit_bytes : location.bytes / unit_crc32c.size();
  }
  /// Places of the packed units. REQUIRES: packed. Errors as EntropyTable::Parse.
  StatusOr<EntropyTable> Table() const;
  friend bool operator==(const ExtentRecord&, const ExtentRecord&) = default;
};

/// REQUIRES: `record` is valid by its comments and has at most 255 runs.
[[nodiscard]] std::string EncodeExtentRecord(const ExtentRecord& record);

/// Decodes untrusted bytes safely. DATA_LOSS when EncodeExtentRecord cannot have written them;
/// FAILED_PRECONDITION for a record of a newer version.
[[nodiscard]] StatusOr<ExtentRecord> DecodeExtentRecord(std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SSD_EXTENT_RECORD_H_
