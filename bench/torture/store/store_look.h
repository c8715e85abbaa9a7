// SPDX-License-Identifier: Apache-2.0
//
// Queries of torture runs on a store: its salt, and the state of segments of the corpus.
#ifndef QUIRE_BENCH_TORTURE_STORE_STORE_LOOK_H_
#define QUIRE_BENCH_TORTURE_STORE_STORE_LOOK_H_

#include <string>
#include <vector>

#include "bench/torture/store/corpus.h"
#include "bench/torture/store/history.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/page_store_impl.h"
#include "quire/status.h"

namespace quire::torture {

inline constexpr const char* kTenant = "default";

/// Options of a store so small that it constantly evicts, reuses space, and reaches its limit.
kvserver::PageStore::Options SmallStore(const std::string& directory);

/// The salt under which the store keeps the tenant's segments.
StatusOr<TenantSalt> SaltOf(kvserver::PageStoreImpl& store);

/// [chain][segment]
std::vector<std::vector<SegmentKey>> AllKeys(const Corpus& corpus, const TenantSalt& salt);

/// Reads all of a segment. INTERNAL if the bytes differ from the put; otherwise as PageStore.
Status ReadAndCompare(kvserver::PageStore& store, const Corpus& corpus, SegmentId id,
                      const SegmentKey& key);

/// As ReadAndCompare, and also reads digests and tokens. The store's answer is written to `answer`,
/// which may be null.
Found LookAt(kvserver::PageStore& store, const Corpus& corpus, SegmentId id, const SegmentKey& key,
             Status* answer = nullptr);

/// Number of segments in the database outside the corpus.
StatusOr<uint64_t> CountStrangers(kvserver::PageStoreImpl& store,
                                  const std::vector<std::vector<SegmentKey>>& keys);

/// Compares every segment of the corpus, and every key of the database, with the history.
Status CompareAll(kvserver::PageStoreImpl& store, const Corpus& corpus, History* history);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_STORE_STORE_LOOK_H_
