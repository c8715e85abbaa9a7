// SPDX-License-Identifier: Apache-2.0
//
// ContextView: a context at one moment: stored segments and, for an open one, the following pages
// in memory. Readers take a view and read through it. Appends make new views. Ownership: shared,
// with everything it points to. Thread-safety: immutable. Units: page numbers count from the
// context's start.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_VIEW_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_VIEW_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvserver/select/digest_blocks.h"
#include "kvserver/select/digest_residency.h"
#include "kvserver/session/context/derived_page_digests.h"
#include "kvserver/session/context/memory_budget.h"
#include "kvserver/session/context/private_segments.h"
#include "kvserver/store/page_store.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::kvserver {

/// A complete page of an open context that is not in the store yet.
struct TailPage {
  std::vector<TokenId> tokens;     ///< Token ids, p of them.
  std::vector<std::byte> units;    ///< [num_layers][n_kv] units
  std::vector<uint32_t> crc32c;    ///< [num_layers][n_kv], CRC-32C of the units on arrival
  std::vector<std::byte> digests;  ///< [num_layers][n_kv][2][key_dim], minima and maxima
  std::vector<uint32_t>
      digest_crc32c;                   ///< [num_layers], CRC-32C of the digests when they were made
  mutable DerivedPageDigests derived;  ///< Digests of other kinds, and of this one when damaged.
  MemoryBudget::Lease lease;
};

struct ContextView {
  std::shared_ptr<const KvSpec> spec;
  std::shared_ptr<const std::vector<SegmentKey>> keys;  ///< Stored segments, in order.
  /// PageStore::WrittenAs of `keys` when they were held; null when not requested.
  std::shared_ptr<const std::vector<uint64_t>> written_as = nullptr;
  uint64_t num_tokens = 0;                            ///< Tokens stored and in the tail.
  std::vector<std::shared_ptr<const TailPage>> tail;  ///< Pages after the stored segments.
  bool sealed = false;
  /// Depth of a private context, and the salt of its segments. Null for a context with shared
  /// pages.
  std::shared_ptr<const PrivateSegments> private_segments = nullptr;
  /// Keeps at least `keys` stored. Its context adds to it; readers only keep it. May be null.
  std::shared_ptr<SegmentHold> hold = nullptr;

  /// Number of pages. The last one may be short in a sealed context.
  uint32_t num_pages() const;
  /// First page of the tail; all earlier ones are stored.
  uint32_t tail_first_page() const { return num_pages() - static_cast<uint32_t>(tail.size()); }
  /// Key of the last segment of a sealed context; kRootKey for an open one.
  SegmentKey chain_tip() const { return sealed ? keys->back() : kRootKey; }
};
using ContextViewPtr = std::shared_ptr<const ContextView>;

/// Makes the view of a sealed chain, which it shares.
ContextViewPtr ViewOfChain(const ChainPtr& chain, SegmentHold hold = {},
                           std::vector<uint64_t> written_as = {});

/// True when damaged or lost segments of the view were replaced since they were held.
bool WasReplaced(const PageStore& store, const ContextView& view);

/// Names a unit by page.
struct UnitRef {
  uint32_t layer = 0;
  uint32_t page = 0;
  uint32_t head = 0;
};

/// A unit that did not match its checksum when it came to a client.
struct ReportedRef {
  UnitRef unit;
  uint32_t crc32c = 0;  ///< Checksum of the bytes that came.
};

/// A unit of a page of the view's tail.
UnitBytes TailUnitOf(const ContextView& view, const UnitRef& ref);

/// Reads units of any place for sending: as they are stored where their codec is in `codecs`, and
/// decoded otherwise. `out` has one entry per reference in order and is set only on OK. REQUIRES:
/// references are inside the view.
[[nodiscard]] Status ReadUnits(PageStore& store, const Caller& caller, const ContextViewPtr& view,
                               std::span<const UnitRef> units, std::vector<UnitBytes>* out,
                               const CodecSet& codecs = {});
/// As ReadUnits, for use on the server. DATA_LOSS also for a damaged page of the tail, which has no
/// other copy.
[[nodiscard]] Status ReadVerified(PageStore& store, const Caller& caller, const ContextView& view,
                                  std::span<const UnitRef> units, std::vector<VerifiedBytes>* out);
/// As PageStore::Recheck, for units inside the view.
[[nodiscard]] Status Recheck(PageStore& store, const Caller& caller, const ContextView& view,
                             std::span<const ReportedRef> units);

/// Returns digests of at least the range, which must be inside the view. Uses `resident` if that
/// holds all stored pages of the range (same context, layer and kind).
[[nodiscard]] StatusOr<DigestBlocks> ReadDigests(PageStore& store, const Caller& caller,
                                                 const ContextView& view, const DigestRange& range,
                                                 const ResidentDigests* resident = nullptr);

/// Token ids of the short last page; empty when the context ends with a whole page.
[[nodiscard]] StatusOr<std::vector<TokenId>> ShortPageTokens(PageStore& store,
                                                             std::string_view tenant,
                                                             const ContextView& view);

/// Returns up to `count` token ids from `first` on, of the stored segments of `view`. Errors as
/// PageStore::Tokens.
[[nodiscard]] StatusOr<std::vector<TokenId>> StoredTokens(PageStore& store, std::string_view tenant,
                                                          const ContextView& view, uint64_t first,
                                                          uint64_t count);
/// Number of tokens in the stored segments of `view`.
uint64_t NumStoredTokens(const ContextView& view);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_CONTEXT_VIEW_H_
