// SPDX-License-Identifier: Apache-2.0
//
// Reading what a sequence starts with from the store, in calls of bounded size.
#ifndef QUIRE_GPUWORKER_ENGINE_PAGE_LOADER_H_
#define QUIRE_GPUWORKER_ENGINE_PAGE_LOADER_H_

#include <cstdint>
#include <vector>

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/document_shares.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/session_source.h"
#include "gpuworker/retrieval/page_observer.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Fetches every page with a fixed slot from `context` into `cache`. Fixed slots
/// are sinks and window, or all pages of a layer that holds everything or is whole. `cache` has
/// been started at its tokens. Pages that others at `document` (null: none) have are copied from
/// them instead. Returns the payload bytes read.
StatusOr<uint64_t> LoadFixedPages(const EngineParts& parts, const ContextRef& context,
                                  const DocumentSeat* document, BudgetCache* cache);

/// Fetches `pages` of one layer, which have fixed slots, likewise.
StatusOr<uint64_t> LoadLayerPages(const EngineParts& parts, const ContextRef& context,
                                  const DocumentSeat* document, BudgetCache* cache, uint32_t layer,
                                  std::vector<uint32_t> pages);

/// Gives `policy` the first `num_pages` pages of every layer, with digests where it wants them.
/// Digests come from others at `document` (null: none), whose whole pages are those pages. Missing
/// ones are read from the sequence of `seat` (null: the policy wants none). Returns the bytes of
/// digests read.
StatusOr<uint64_t> LoadDigests(const EngineParts& parts, SessionSeat* seat,
                               const DocumentSeat* document, uint32_t num_pages,
                               PageObserver* observer);

/// Gives the first `num_pages` pages of `context` to `policy`, one after the other, for every layer
/// that it wants units of (PageObserver::WantsUnits). Returns the payload bytes read.
StatusOr<uint64_t> LoadUnits(const EngineParts& parts, const ContextRef& context,
                             uint32_t num_pages, PageObserver* observer);

/// Token ids of the short last page of the chain that ends with `tip`; empty when it ends with a
/// whole page.
StatusOr<std::vector<TokenId>> ReadTailTokens(const EngineParts& parts, const SegmentKey& tip);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_PAGE_LOADER_H_
