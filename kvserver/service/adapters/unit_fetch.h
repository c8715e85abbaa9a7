// SPDX-License-Identifier: Apache-2.0
//
// UnitFetch: operations of the Store service that take several calls of the page store: reading
// ranges of units, deleting segments, sizing contexts. Thread-safety: pure functions over
// thread-safe objects.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_UNIT_FETCH_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_UNIT_FETCH_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/page/unit_sizes.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/session/context/context_view.h"
#include "kvserver/store/page_store.h"
#include "quire/status.h"
#include "quire/units.h"

namespace quire::kvserver {

/// Reads the units of `ranges`, which are inside the view, in order, in a codec of `sizes`.
/// RESOURCE_EXHAUSTED when they would exceed `max_bytes` decoded.
[[nodiscard]] StatusOr<std::vector<UnitBytes>> FetchRanges(PageStore& store, const Caller& caller,
                                                           const ContextViewPtr& view,
                                                           std::span<const UnitRange> ranges,
                                                           const UnitSizes& sizes,
                                                           uint64_t max_bytes);

/// Places of a context's bytes. Pages in memory count only as bytes.
[[nodiscard]] StatusOr<ChainStat> StatContext(PageStore& store, std::string_view tenant,
                                              const ContextView& view);

/// Deletes the stored ones of `keys` and returns how many. FAILED_PRECONDITION, before any
/// deletion, when a document refers to one; NOT_FOUND when none is stored.
[[nodiscard]] StatusOr<uint32_t> DeleteSegments(DocumentRegistry& registry, std::string_view tenant,
                                                std::span<const SegmentKey> keys);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_UNIT_FETCH_H_
