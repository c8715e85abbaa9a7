// SPDX-License-Identifier: Apache-2.0
//
// Proof of the data directory's format: a row of the database with the version. A server writes the
// row when it first opens the directory. The file FORMAT is small and separate; after a loss it is
// rewritten from the row. Thread-safety: as Database.
#ifndef QUIRE_KVSERVER_STORE_METADATA_FORMAT_PROOF_H_
#define QUIRE_KVSERVER_STORE_METADATA_FORMAT_PROOF_H_

#include <string>

#include "kvserver/store/metadata/database.h"
#include "kvserver/store/payload/disk.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Durably notes DataDirectory::kFormatVersion in the database, unless it is there.
[[nodiscard]] Status NoteFormat(Database& database);

/// Returns the version of the database in `path`, which this code reads. The proof is its row;
/// without a row, an empty database or records that the oldest version has, too. Changes nothing.
/// NOT_FOUND without a database, FAILED_PRECONDITION for a version that this code does not read,
/// DATA_LOSS without a proof.
[[nodiscard]] StatusOr<int> ProveFormat(Disk& disk, const std::string& path, rocksdb::Env* env);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_FORMAT_PROOF_H_
