// SPDX-License-Identifier: Apache-2.0
//
// What torture runs ask of a store: its salt, and whether it holds a segment of the corpus whole.
#ifndef QUIRE_BENCH_TORTURE_STORE_LOOK_H_
#define QUIRE_BENCH_TORTURE_STORE_LOOK_H_

#include <string>
#include <vector>

#include "bench/torture/corpus.h"
#include "bench/torture/history.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/page_store_impl.h"
#include "quire/status.h"

namespace quire::torture {

inline constexpr const char* kTenant = "default";

/// A store so small that eviction, reuse of space, and the limit of its size are met all the time.
kvserver::PageStore::Options SmallStore(const std::string& directory);

/// The salt under which the store keeps the tenant's segments.
StatusOr<TenantSalt> SaltOf(kvserver::PageStoreImpl& store);

/// [chain][segment]
std::vector<std::vector<SegmentKey>> AllKeys(const Corpus& corpus, const TenantSalt& salt);

/// Reads all of a segment. INTERNAL when what was handed out is not what was put; otherwise as
/// PageStore.
Status ReadAndCompare(kvserver::PageStore& store, const Corpus& corpus, SegmentId id,
                      const SegmentKey& key);

/// As ReadAndCompare, and its digests and tokens; what the store answered is left in `answer`,
/// which may be null.
Found LookAt(kvserver::PageStore& store, const Corpus& corpus, SegmentId id, const SegmentKey& key,
             Status* answer = nullptr);

/// Segments in the database that are none of the corpus.
StatusOr<uint64_t> CountStrangers(kvserver::PageStoreImpl& store,
                                  const std::vector<std::vector<SegmentKey>>& keys);

/// Compares every segment of the corpus, and every key of the database, with the history.
Status CompareAll(kvserver::PageStoreImpl& store, const Corpus& corpus, History* history);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_STORE_LOOK_H_
