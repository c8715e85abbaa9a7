// SPDX-License-Identifier: Apache-2.0
//
// LastUses: when segments that no document refers to were used last, kept in the database over
// restarts, so that their order of eviction and their age go on. A use is written a while after it
// and without a sync: what is lost makes a segment look older, and one without a row was used last
// when it was put. Rows of segments that are gone are harmless, and go when the store is opened.
// Thread-safety: as Database. Units: microseconds since the Unix epoch.
#ifndef QUIRE_KVSERVER_STORE_METADATA_LAST_USES_H_
#define QUIRE_KVSERVER_STORE_METADATA_LAST_USES_H_

#include <cstdint>
#include <unordered_map>

#include "kvserver/store/metadata/database.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

using LastUses = std::unordered_map<SegmentKey, int64_t, SegmentKeyHash>;

void StageLastUse(const SegmentKey& segment, int64_t unix_micros, Database::Batch& batch);
/// Takes the row of a segment that is erased along, where there is one.
void StageForgetLastUse(Database& database, const SegmentKey& segment, Database::Batch& batch);
/// Every row that is one; damaged ones are passed over.
StatusOr<LastUses> ReadLastUses(Database& database);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_LAST_USES_H_
