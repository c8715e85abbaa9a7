// SPDX-License-Identifier: Apache-2.0
//
// Proof of the data directory's format: a row of the database with the version. A server writes the
// row when it first opens the directory. The file FORMAT is small and separate; after a loss it is
// rewritten from the row. Thread-safety: as Database.
#ifndef QUIRE_KVSERVER_STORE_METADATA_FORMAT_PROOF_H_
#define QUIRE_KVSERVER_STORE_METADATA_FORMAT_PROOF_H_

#include <string>

#include "common/base/status.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/payload/disk.h"

namespace quire::kvserver {

/// Durably notes DataDirectory::kFormatVersion in the database, unless it is there.
[[nodiscard]] Status NoteFormat(Database& database);

/// OK when the database in `path` is of DataDirectory::kFormatVersion. The proof is its row;
/// without a row, an empty database or records that only this version writes. Changes nothing.
/// NOT_FOUND without a database, FAILED_PRECONDITION for another version, DATA_LOSS without a
/// proof.
[[nodiscard]] Status ProveFormat(Disk& disk, const std::string& path, rocksdb::Env* env);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_FORMAT_PROOF_H_
