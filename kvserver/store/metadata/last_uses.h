// SPDX-License-Identifier: Apache-2.0
//
// LastUses: the last use of each segment that no document refers to. The database keeps them, so
// eviction order and age survive restarts. A use is written some time later and without a sync. A
// lost use makes a segment look older. A segment without a row was last used when it was put. Rows
// of deleted segments are harmless and are removed at open. Thread-safety: as Database. Units:
// microseconds since the Unix epoch.
#ifndef QUIRE_KVSERVER_STORE_METADATA_LAST_USES_H_
#define QUIRE_KVSERVER_STORE_METADATA_LAST_USES_H_

#include <cstdint>
#include <unordered_map>

#include "common/base/status.h"
#include "common/page/key.h"
#include "kvserver/store/metadata/database.h"

namespace quire::kvserver {

using LastUses = std::unordered_map<SegmentKey, int64_t, SegmentKeyHash>;

void StageLastUse(const SegmentKey& segment, int64_t unix_micros, Database::Batch& batch);
/// Removes the row of an erased segment, if there is one.
void StageForgetLastUse(Database& database, const SegmentKey& segment, Database::Batch& batch);
/// Reads all rows. Skips damaged ones.
StatusOr<LastUses> ReadLastUses(Database& database);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_LAST_USES_H_
