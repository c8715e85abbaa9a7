// SPDX-License-Identifier: Apache-2.0
//
// OpenContext: a context that a decoding sequence appends complete pages to, and a prefill the
// layers of pages, in any order. As soon as g whole pages stand after the stored segments they
// become a segment of the page store; sealing stores the rest. A page whose layers are not all
// there takes its bytes of the budget, and nobody sees it.
//
// Two sequences can produce different bytes for the same tokens (another batch, chunk or
// processor). The first bytes that were stored stand, and the context goes on over them, unless it
// was opened as strict: then the append or seal that would take them is ALREADY_EXISTS.
//
// A private context is one whose pages must never be taken for what their tokens give, because
// they come of approximate attention: its segments are its own (private_segments.h), and it cannot
// be sealed.
//
// Thread-safety: safe for concurrent use; writers run one after another, readers take views and do
// not wait for them. Ownership: shared; the store, kernels and budget outlive it or are shared.
// Errors: a failed append keeps the whole pages before the failure; sending it again goes on there.
#ifndef QUIRE_KVSERVER_SESSION_OPEN_CONTEXT_H_
#define QUIRE_KVSERVER_SESSION_OPEN_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "kernels/api/table.h"
#include "kvserver/session/context_view.h"
#include "kvserver/session/memory_budget.h"
#include "kvserver/session/page_assembly.h"
#include "kvserver/store/page_store.h"
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
    CodecParams codec = {};                     ///< Of the segments that it stores.
    bool private_pages = false;                 ///< Private; so is what continues such a one.
    bool strict = false;                        ///< Takes no stored bytes but its own.
  };

  /// An empty context, or one that continues `chain` (null for none): whole segments are shared,
  /// the complete pages of a short last segment are copied, a short last page is left out.
  static StatusOr<std::shared_ptr<OpenContext>> Create(Deps deps, const KvSpec& spec,
                                                       const ContextViewPtr& chain);

  ContextViewPtr view() const QUIRE_EXCLUDES(view_mutex_);
  /// Names the bytes of the chain that it continues, together with the chain's last key: the
  /// greatest incarnation that its segments were written as. Whatever is put later gets a greater
  /// one. 0 where it continues nothing.
  uint64_t continued_incarnation() const { return continued_incarnation_; }

  /// Appends pages from `first_page` on. `units` is [pages][num_layers][n_kv] units, aligned for
  /// the dtype. Pages that the context has must be the same (ALREADY_EXISTS; pages that were
  /// appended to it are compared by checksum, since a codec may lose bits), and none may be left
  /// out (INVALID_ARGUMENT). RESOURCE_EXHAUSTED over kMaxTokens or a budget. Returns the context's
  /// number of tokens.
  [[nodiscard]] StatusOr<uint64_t> Append(uint32_t first_page, std::span<const TokenId> tokens,
                                          std::span<const std::byte> units)
      QUIRE_EXCLUDES(write_mutex_);

  /// Takes units of `layers` (ascending, below num_layers) of pages from `first_page` on: `units`
  /// is [layers][pages][n_kv] units, aligned for the dtype. A page whose layers are all there is
  /// appended when those before it are. INVALID_ARGUMENT for a page after one of which nothing has
  /// come; ALREADY_EXISTS as for Append; RESOURCE_EXHAUSTED over kMaxTokens or when the budget has
  /// no room for the pages that are new: then nothing is taken. When whole pages cannot be stored,
  /// everything is kept, and any later call goes on. Returns the tokens of appended pages.
  [[nodiscard]] StatusOr<uint64_t> AppendLayers(uint32_t first_page,
                                                std::span<const TokenId> tokens,
                                                std::span<const uint32_t> layers,
                                                std::span<const std::byte> units)
      QUIRE_EXCLUDES(write_mutex_);

  /// Stores the tail and a short last page (`tail_tokens` and its [num_layers][n_kv] units, both
  /// possibly empty). Sealing again with the same arguments answers the same. FAILED_PRECONDITION
  /// for a private context, and, naming page and layer, while a page lacks layers.
  [[nodiscard]] StatusOr<ContextViewPtr> Seal(std::span<const TokenId> tail_tokens,
                                              std::span<const std::byte> tail_units,
                                              Durability durability) QUIRE_EXCLUDES(write_mutex_);

  /// Ends its hold of the segments, which whoever reads it may find gone from then on. For a sealed
  /// context, when somebody else keeps them or nobody asked for them.
  void LetGo() QUIRE_EXCLUDES(write_mutex_, view_mutex_);

  /// Pages of which some layers have come and others not. Of their units nothing may be read: more
  /// come meanwhile.
  std::vector<std::shared_ptr<const TailPage>> ArrivingPages() const QUIRE_EXCLUDES(write_mutex_);
  /// Verifies the layers of one of them that have come, and writers wait; nullopt when it is none
  /// of them any more: then nothing changes it.
  std::optional<PageCheck> CheckArriving(const TailPage& page) const QUIRE_EXCLUDES(write_mutex_);

  /// Segments of it for which other bytes were stored before its own came.
  uint32_t num_differing() const { return num_differing_.load(std::memory_order_relaxed); }

 private:
  OpenContext(Deps deps, ContextViewPtr view, uint64_t continued_incarnation)
      : deps_(std::move(deps)),
        view_(std::move(view)),
        first_appended_(view_->num_pages()),
        continued_incarnation_(continued_incarnation) {}

  /// Appends copies of the chain's complete pages that the shared segments do not cover.
  Status CopyPages(const ContextViewPtr& chain) QUIRE_REQUIRES(write_mutex_);
  /// What every append must keep to; `known_pages` is where a hole would begin.
  Status CheckAppend(uint32_t first_page, std::span<const TokenId> tokens, uint64_t num_layers,
                     uint64_t units_bytes, uint64_t known_pages) const QUIRE_REQUIRES(write_mutex_);
  /// ALREADY_EXISTS unless appended page `page` has these tokens and units.
  Status CheckSame(uint32_t page, std::span<const TokenId> tokens, const LayerRows& rows) const
      QUIRE_REQUIRES(write_mutex_);
  /// The same for the units of a page that the chain had.
  Status CheckSameBytes(const ContextViewPtr& view, uint32_t page, const LayerRows& rows) const;
  StatusOr<std::shared_ptr<const TailPage>> MakeTailPage(const LayerRows& rows,
                                                         std::span<const TokenId> tokens) const;
  /// A page that is known, of which layers are there, or that is new.
  Status AppendWhole(uint32_t page, std::span<const TokenId> tokens, const LayerRows& rows)
      QUIRE_REQUIRES(write_mutex_);
  /// Appends the whole pages at the front of `arriving_`.
  Status AppendArrived() QUIRE_REQUIRES(write_mutex_);
  Status AppendPage(std::shared_ptr<const TailPage> page) QUIRE_REQUIRES(write_mutex_);
  /// Stores `pages`, the last one possibly short, as the segment after the view's.
  StatusOr<SegmentKey> Store(const ContextView& view,
                             std::span<const std::shared_ptr<const TailPage>> pages,
                             Durability durability) QUIRE_REQUIRES(write_mutex_);
  /// `view` with `key`, which it holds, after its segments, without the tail.
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
  std::optional<SealRequest> sealed_ QUIRE_GUARDED_BY(write_mutex_);
  /// Pages after those of the view, in order, of which some layers have come.
  std::deque<PageAssembly> arriving_ QUIRE_GUARDED_BY(write_mutex_);
  /// RowChecksum of each appended page and layer, the first page being `first_appended_`.
  std::vector<uint32_t> appended_checksums_ QUIRE_GUARDED_BY(write_mutex_);
  mutable Mutex view_mutex_;
  ContextViewPtr view_ QUIRE_GUARDED_BY(view_mutex_);
  const uint32_t first_appended_;
  const uint64_t continued_incarnation_;
  std::atomic<uint32_t> num_differing_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_OPEN_CONTEXT_H_
