// SPDX-License-Identifier: Apache-2.0
//
// Damage of units on SSD, past the store. `directory` is the data directory of `database`.
#ifndef QUIRE_KVSERVER_STORE_TESTING_VOLUME_DAMAGE_H_
#define QUIRE_KVSERVER_STORE_TESTING_VOLUME_DAMAGE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "kvserver/store/ssd/ssd_tier.h"

namespace quire::kvserver::testing {

inline ExtentRecord RecordOnSsd(Database& database, const ExtentId& id) {
  return DecodeExtentRecord(database.Get(Table::kExtents, SsdTier::RecordKey(id)).value()).value();
}

/// The file of one unit, and the offset in it.
inline std::pair<std::string, uint64_t> PlaceOnSsd(Database& database, const std::string& directory,
                                                   const ExtentId& id, uint32_t unit) {
  const ExtentRecord record = RecordOnSsd(database, id);
  const LocatedPiece piece =
      FirstPiece(record.location.runs, unit * record.unit_bytes(), record.unit_bytes());
  EXPECT_EQ(piece.length, record.unit_bytes());
  char name[32];
  std::snprintf(name, sizeof name, "/payload/%08u.vol", piece.volume);
  return {directory + name, piece.file_offset};
}

/// Overwrites the start of one unit.
inline void OverwriteOnSsd(Database& database, const std::string& directory, const ExtentId& id,
                           uint32_t unit, std::string_view bytes) {
  const auto [path, offset] = PlaceOnSsd(database, directory, id, unit);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  ASSERT_TRUE(file.good());
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_VOLUME_DAMAGE_H_
