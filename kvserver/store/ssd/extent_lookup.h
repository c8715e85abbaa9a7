// SPDX-License-Identifier: Apache-2.0
//
// ExtentLookup: the record of one extent, made ready for finding its units: what the SSD tier keeps
// in memory of an extent that is read. Plain values; immutable once it is made.
#ifndef QUIRE_KVSERVER_STORE_SSD_EXTENT_LOOKUP_H_
#define QUIRE_KVSERVER_STORE_SSD_EXTENT_LOOKUP_H_

#include <cstdint>
#include <optional>

#include "kvserver/store/codec/entropy.h"
#include "kvserver/store/ssd/extent_record.h"
#include "quire/status.h"

namespace quire::kvserver {

struct ExtentLookup {
  ExtentRecord record;                ///< Without the table of packed units.
  std::optional<EntropyTable> table;  ///< Set for packed units.

  /// Errors as EntropyTable::Parse.
  static StatusOr<ExtentLookup> Of(ExtentRecord record);

  /// Where a unit begins in the extent's location, and its bytes there.
  uint64_t offset(uint32_t unit) const {
    return table ? table->offset(unit) - table->shape().table_bytes() : unit * record.unit_bytes();
  }
  uint64_t bytes(uint32_t unit) const { return table ? table->bytes(unit) : record.unit_bytes(); }
  /// Memory that it takes, about.
  uint64_t charge() const;
  /// CRC-32C of everything that it says.
  uint32_t Checksum() const;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SSD_EXTENT_LOOKUP_H_
