// SPDX-License-Identifier: Apache-2.0
//
// UnitFetch: reading ranges of units, deleting segments and sizing contexts: what the Store service
// offers beyond single calls of the page store.
// Thread-safety: pure functions over thread-safe objects.
#ifndef QUIRE_KVSERVER_SERVICE_UNIT_FETCH_H_
#define QUIRE_KVSERVER_SERVICE_UNIT_FETCH_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvserver/registry/document_registry.h"
#include "kvserver/session/context_view.h"
#include "kvserver/store/page_store.h"
#include "quire/status.h"
#include "quire/units.h"

namespace quire::kvserver {

/// Reads the units of `ranges`, which are inside the view, in order. RESOURCE_EXHAUSTED when they
/// take more than `max_bytes`.
[[nodiscard]] StatusOr<std::vector<UnitBytes>> FetchRanges(PageStore& store, const Caller& caller,
                                                           const ContextViewPtr& view,
                                                           std::span<const UnitRange> ranges,
                                                           uint64_t max_bytes);

/// Where a context's bytes are; pages in memory only count as bytes.
[[nodiscard]] StatusOr<ChainStat> StatContext(PageStore& store, std::string_view tenant,
                                              const ContextView& view);

/// Deletes those of `keys` that are stored and returns how many. FAILED_PRECONDITION, before
/// anything is deleted, when a document refers to one; NOT_FOUND when none is stored.
[[nodiscard]] StatusOr<uint32_t> DeleteSegments(DocumentRegistry& registry, std::string_view tenant,
                                                std::span<const SegmentKey> keys);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_UNIT_FETCH_H_
