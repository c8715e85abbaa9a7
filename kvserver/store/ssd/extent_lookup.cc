// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/ssd/extent_lookup.h"

#include <array>
#include <span>
#include <utility>

#include "common/base/memory/checksum.h"
#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {

StatusOr<ExtentLookup> ExtentLookup::Of(ExtentRecord record) {
  ExtentLookup lookup{.record = std::move(record), .table = {}};
  if (lookup.record.packed) {
    QUIRE_ASSIGN_OR_RETURN(lookup.table, lookup.record.Table());
    lookup.record.packed->table.clear();  // It stands in `table` now.
  }
  return lookup;
}

uint64_t ExtentLookup::charge() const {
  const size_t units = record.unit_crc32c.size();
  return sizeof(ExtentLookup) + 256 + units * (sizeof(uint32_t) + (table ? 24 : 0));
}

uint32_t ExtentLookup::Checksum() const {
  uint32_t sum = TrailerOf(EncodeExtentRecord(record));
  if (!table) return sum;
  for (uint32_t unit = 0; unit < table->shape().units; ++unit) {
    const std::array<uint64_t, 3> place = {table->offset(unit), table->bytes(unit),
                                           table->crc32c(unit)};
    sum = Crc32c(std::as_bytes(std::span(place)), sum);
  }
  return sum;
}

}  // namespace quire::kvserver
