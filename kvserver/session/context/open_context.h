// SPDX-License-Identifier: Apache-2.0
//
// OpenContext: a context that a decoding sequence appends complete pages to, and a prefill layers
// of pages, in any order. Every g whole pages after the stored segments become a segment of the
// page store. Sealing stores the rest. A page with missing layers is charged to the budget, and is
// invisible.
//
// Two sequences can produce different bytes for the same tokens (another batch, chunk or
// processor). The first stored bytes stand, and the context continues over them. A strict context
// refuses them: its append or seal is ALREADY_EXISTS.
//
// Pages of a private context come from approximate attention, so no lookup may find them. Its
// segments have their own keys (private_segments.h), and it cannot be sealed.
//
// Thread-safety: safe for concurrent use. Writers run one after another; readers take views and do
// not wait for them. Ownership: shared; the store, kernels and budget outlive it or are shared.
// Errors: a failed append keeps the whole pages before the failure; sending it again continues
// there.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_OPEN_CONTEXT_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_OPEN_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kernels/api/table.h"
#include "kvserver/session/context/context_view.h"
#include "kvserver/session/context/memory_budget.h"
#include "kvserver/session/context/page_assembly.h"
#include "kvserver/store/call_waits.h"
#include "kvserver/store/page_store.h"
#include "quire/hints.h"
#include "quire/status.h"

namespace quire::kvserver {

class OpenContext {
 public:
  static constexpr uint64_t kMaxTokens = uint64_t{1} << 24;

  struct Deps {
    std::string tenant;
    PageStore* store = nullptr;
    const kernels::KernelTable* ops = nullptr;  ///< Needs `digest`.
    std::shared_ptr<MemoryBudget> budget;       ///< For tail pages.
    CodecParams codec = {};                     ///< Codec of its stored segments.
    bool private_pages = false;                 ///< Private, like every context that continues it.
    bool strict = false;                        ///< Refuses stored bytes that differ from its own.
    Hints hints = {};                           ///< Hints of its segments, and those it continues.
  };

  /// Makes an empty context, or one that continues `chain` (null for none). Whole segments are
  /// shared. Complete pages of a short last segment are copied. A short last page is left out.
  static StatusOr<std::shared_ptr<OpenContext>> Create(Deps deps, const KvSpec& spec,
                                                       const ContextViewPtr& chain);

  ContextViewPtr view() const QUIRE_EXCLUDES(view_mutex_);
  /// The chain that it continues; the defaults without one.
  struct Continued {
    SegmentKey tip = kRootKey;  ///< Also of a chain that is open.
    uint32_t num_pages = 0;     ///< Also a short last one, which the context does not have.
    /// Identifies the bytes of the chain, together with its last key: the greatest incarnation that
    /// its segments were written with. Later puts get a greater one.
    uint64_t incarnation = 0;
  };
  const Continued& continued() const { return continued_; }

  /// Appends pages from `first_page` on. `units` is [pages][num_layers][n_kv] units, aligned for
  /// the dtype. Repeated pages must be equal (ALREADY_EXISTS); appended ones are compared by
  /// checksum, since a codec may lose bits. No page may be left out (INVALID_ARGUMENT).
  /// RESOURCE_EXHAUSTED over kMaxTokens or a budget. Returns the context's number of tokens.
  /// `waits`, here and below, is told of what the call waits for; may be null.
  [[nodiscard]] StatusOr<uint64_t> Append(uint32_t first_page, std::span<const TokenId> tokens,
                                          std::span<const std::byte> units,
                                          CallWaits* waits = nullptr) QUIRE_EXCLUDES(write_mutex_);

  /// Takes units of `layers` (ascending, below num_layers) of pages from `first_page` on. `units`
  /// is [layers][pages][n_kv] units, aligned for the dtype. A page with all layers is appended once
  /// those before it are. INVALID_ARGUMENT for a page after a missing one; ALREADY_EXISTS as
  /// Append. RESOURCE_EXHAUSTED over kMaxTokens or when the budget has no room for new pages;
  /// nothing is taken then. Pages that cannot be stored are kept, and any later call retries.
  /// Returns the tokens of appended pages.
  [[nodiscard]] StatusOr<uint64_t> AppendLayers(
      uint32_t first_page, std::span<const TokenId> tokens, std::span<const uint32_t> layers,
      std::span<const std::byte> units, CallWaits* waits = nullptr) QUIRE_EXCLUDES(write_mutex_);

  /// Stores the tail and a short last page (`tail_tokens` and its [num_layers][n_kv] units, both
  /// possibly empty). Sealing again with the same arguments answers the same. FAILED_PRECONDITION
  /// for a private context, and, naming page and layer, while a page lacks layers.
  [[nodiscard]] StatusOr<ContextViewPtr> Seal(std::span<const TokenId> tail_tokens,
                                              std::span<const std::byte> tail_units,
                                              Durability durability, CallWaits* waits = nullptr)
      QUIRE_EXCLUDES(write_mutex_);

  /// Releases its hold of the segments; later readers may find them gone. For a sealed context that
  /// is named, or that no client requested.
  void ReleaseSegments() QUIRE_EXCLUDES(write_mutex_, view_mutex_);

  /// Pages of which some layers have come and others not. Their units must not be read: more
  /// come meanwhile.
  std::vector<std::shared_ptr<const TailPage>> ArrivingPages() const QUIRE_EXCLUDES(write_mutex_);
  /// Verifies the layers of an unfinished page that have arrived; writers wait. nullopt when the
  /// page is finished: it does not change any more.
  std::optional<PageCheck> CheckArriving(const TailPage& page) const QUIRE_EXCLUDES(write_mutex_);

  /// Segments of it for which other bytes were stored before its own came.
  uint32_t num_differing() const { return num_differing_.load(std::memory_order_relaxed); }

 private:
  OpenContext(Deps deps, ContextViewPtr view, const Continued& continued)
      : deps_(std::move(deps)),
        view_(std::move(view)),
        first_appended_(view_->num_pages()),
        continued_(continued) {}

  /// Appends copies of the chain's complete pages that the shared segments do not cover.
  Status CopyPages(const ContextViewPtr& chain) QUIRE_REQUIRES(write_mutex_);
  /// Common checks of all appends. A page after `known_pages` would leave a hole.
  Status CheckAppend(uint32_t first_page, std::span<const TokenId> tokens, uint64_t num_layers,
                     uint64_t units_bytes, uint64_t known_pages) const QUIRE_REQUIRES(write_mutex_);
  /// ALREADY_EXISTS unless appended page `page` has these tokens and units.
  Status CheckSame(uint32_t page, std::span<const TokenId> tokens, const LayerRows& rows) const
      QUIRE_REQUIRES(write_mutex_);
  /// As CheckSame, for the units of a page of the continued chain.
  Status CheckSameBytes(const ContextViewPtr& view, uint32_t page, const LayerRows& rows) const;
  StatusOr<std::shared_ptr<const TailPage>> MakeTailPage(const LayerRows& rows,
                                                         std::span<const TokenId> tokens) const;
  /// Appends a page that is new, or that has some layers.
  Status AppendWhole(uint32_t page, std::span<const TokenId> tokens, const LayerRows& rows)
      QUIRE_REQUIRES(write_mutex_);
  /// Appends the whole pages at the front of `arriving_`.
  Status AppendArrived() QUIRE_REQUIRES(write_mutex_);
  Status AppendPage(std::shared_ptr<const TailPage> page) QUIRE_REQUIRES(write_mutex_);
  /// Stores `pages`, the last one possibly short, as the segment after the view's.
  StatusOr<SegmentKey> Store(const ContextView& view,
                             std::span<const std::shared_ptr<const TailPage>> pages,
                             Durability durability) QUIRE_REQUIRES(write_mutex_);
  /// Returns `view` without its tail and with `key`, which it holds, after its segments.
  ContextView Advance(const ContextView& view, const SegmentKey& key) const;
  void SetView(ContextView view) QUIRE_EXCLUDES(view_mutex_);

  struct SealRequest {
    std::vector<TokenId> tail_tokens;
    uint32_t units_crc32c = 0;
    friend bool operator==(const SealRequest&, const SealRequest&) = default;
  };

  const Deps deps_;
  mutable Mutex
      write_mutex_;  ///< Held by one writer at a time, also while it stores; before view_mutex_.
  /// Waits of the call that writes now; null without any.
  CallWaits* waits_ QUIRE_GUARDED_BY(write_mutex_) = nullptr;
  std::optional<SealRequest> sealed_ QUIRE_GUARDED_BY(write_mutex_);
  /// Pages after those of the view, in order, with some of their layers.
  std::deque<PageAssembly> arriving_ QUIRE_GUARDED_BY(write_mutex_);
  /// RowChecksum of each appended page and layer, from page `first_appended_` on.
  std::vector<uint32_t> appended_checksums_ QUIRE_GUARDED_BY(write_mutex_);
  mutable Mutex view_mutex_;
  ContextViewPtr view_ QUIRE_GUARDED_BY(view_mutex_);
  const uint32_t first_appended_;
  const Continued continued_;
  std::atomic<uint32_t> num_differing_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_OPEN_CONTEXT_H_
