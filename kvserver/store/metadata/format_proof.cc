// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/format_proof.h"

#include <cerrno>
#include <string_view>

#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/metadata/data_directory.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/ssd/extent_record.h"

namespace quire::kvserver {
namespace {

constexpr std::string_view kRow = "quire-data-format";
constexpr std::string_view kRemedy =
    "; restore the data directory from a backup or choose an empty one";

std::string RowValue(int version) {
  std::string value = std::to_string(version);
  const uint32_t crc32c = Crc32c(AsBytes(value));
  return value.append(AsText(EncodeTrailer(crc32c)));
}

/// True when `table` is empty, or its first row is a record that this code reads.
StatusOr<bool> IsKnown(Database& database, Table table) {
  Status decoded = OkStatus();
  const auto visit = [&](std::string_view, std::string_view value) {
    decoded = table == Table::kSegments ? DecodeSegmentRecord(value).status()
                                        : DecodeExtentRecord(value).status();
    return false;
  };
  QUIRE_RETURN_IF_ERROR(database.Scan(table, "", visit));
  return decoded.ok();
}

}  // namespace

Status NoteFormat(Database& database) {
  const StatusOr<std::string> noted = database.Get(Table::kMetadata, kRow);
  const std::string row = RowValue(DataDirectory::kFormatVersion);
  if (noted.ok() && *noted == row) return OkStatus();
  if (!noted.ok() && noted.status().code() != StatusCode::kNotFound) return noted.status();
  Database::Batch batch = database.NewBatch();
  batch.Put(Table::kMetadata, kRow, {row});
  return database.Commit(batch, /*sync=*/true);
}

StatusOr<int> ProveFormat(Disk& disk, const std::string& path, rocksdb::Env* env) {
  DiskEntry entry;
  // RocksDB has no database before it has this file, and nothing is acknowledged without one.
  const int missing = disk.Examine(path + "/CURRENT", &entry);
  if (missing == ENOENT || missing == ENOTDIR) return NotFound("no database in ", path);
  StatusOr<std::unique_ptr<Database>> opened =
      Database::Open({.path = path, .env = env, .read_only = true});
  if (!opened.ok()) {
    return DataLoss("the database does not say what it was: ", Message(opened.status()), kRemedy);
  }
  Database& database = **opened;
  const StatusOr<std::string> noted = database.Get(Table::kMetadata, kRow);
  if (noted.ok()) {
    for (int version = DataDirectory::kOldestFormatVersion;
         version <= DataDirectory::kFormatVersion; ++version) {
      if (*noted == RowValue(version)) return version;
    }
    if (!VerifyTrailer(*noted)) return DataLoss("the database's note of it is damaged", kRemedy);
    return FailedPrecondition(
        "the database is of another version than ", DataDirectory::kOldestFormatVersion, " to ",
        DataDirectory::kFormatVersion, "; open it with the server that wrote it");
  }
  if (noted.status().code() != StatusCode::kNotFound) return noted.status();
  for (const Table table : {Table::kSegments, Table::kExtents}) {
    QUIRE_ASSIGN_OR_RETURN(const bool known, IsKnown(database, table));
    if (!known) return DataLoss("the database has no note of it and unknown records", kRemedy);
  }
  // Every newer version has its row before its first other record.
  return DataDirectory::kOldestFormatVersion;
}

}  // namespace quire::kvserver
