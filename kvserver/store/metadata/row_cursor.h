// SPDX-License-Identifier: Apache-2.0
//
// RowCursor: reads a table of the database row by row, over any time. It keeps a key instead of an
// iterator, which would keep RocksDB from freeing old data. Rows that come or go meanwhile may be
// missed. Thread-safety: none. Ownership: the database outlives it.
#ifndef QUIRE_KVSERVER_STORE_METADATA_ROW_CURSOR_H_
#define QUIRE_KVSERVER_STORE_METADATA_ROW_CURSOR_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "kvserver/store/metadata/database.h"

namespace quire::kvserver {

class RowCursor {
 public:
  RowCursor(Database* database, Table table) : database_(database), table_(table) {}

  /// Returns to the first row.
  void Begin() { next_.clear(); }
  /// Calls visit(key, value) with the next rows until it returns false. Returns their number; 0 at
  /// the end of the table. Errors as Database::Scan; rows before the error have been visited.
  StatusOr<size_t> Visit(const std::function<bool(std::string_view, std::string_view)>& visit) {
    size_t rows = 0;
    std::string last;
    const Status scanned =
        database_->Scan(table_, next_, [&](std::string_view key, std::string_view value) {
          ++rows;
          last = key;
          return visit(key, value);
        });
    if (rows > 0) next_ = last + '\0';
    QUIRE_RETURN_IF_ERROR(scanned);
    return rows;
  }
  /// Reads the next row. Returns false at the end.
  StatusOr<bool> Next(std::string* key, std::string* value) {
    QUIRE_ASSIGN_OR_RETURN(const size_t rows,
                           Visit([&](std::string_view row_key, std::string_view row) {
                             *key = row_key;
                             *value = row;
                             return false;
                           }));
    return rows > 0;
  }

 private:
  Database* const database_;
  const Table table_;
  std::string next_;  ///< Lower bound of the next row's key.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_ROW_CURSOR_H_
