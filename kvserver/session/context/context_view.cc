// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/context_view.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/memory/checksum.h"
#include "quire/layout.h"

namespace quire::kvserver {
namespace {

/// Copies the digests of one kind of a page at one layer. The page begins with token `first_token`
/// of its context.
Status CopyDigests(const KvSpec& spec, const TailPage& page, uint64_t first_token, uint32_t layer,
                   DigestKind kind, std::byte* out) {
  const uint64_t bytes = PageDigestBytes(spec);
  const auto made = std::span(page.digests).subspan(layer * bytes, bytes);
  if (kind == DigestKind::kMinMax && Crc32c(made) == page.digest_crc32c[layer]) {
    std::memcpy(out, made.data(), bytes);
    return OkStatus();
  }
  const size_t heads = spec.num_kv_heads;
  const LayerUnits units{layer, page.units.data() + layer * ExtentBytes(spec, 1),
                         std::span(page.crc32c).subspan(layer * heads, heads),
                         static_cast<uint32_t>(page.tokens.size()), first_token};
  return page.derived.CopyTo(spec, kind, units, out);
}

/// Appends the digests of the tail's pages from the blocks' end on, g pages to a block.
Status AppendTailDigests(const ContextView& view, const DigestRange& range, DigestBlocks* blocks) {
  const KvSpec& spec = *view.spec;
  const uint64_t page_bytes = PageDigestBytes(spec, range.kind);
  for (size_t first = blocks->end_page() - view.tail_first_page(); first < view.tail.size();
       first = blocks->end_page() - view.tail_first_page()) {
    const size_t pages = std::min<size_t>(spec.segment_pages, view.tail.size() - first);
    auto block = std::make_shared<std::vector<std::byte>>(pages * page_bytes);
    for (size_t i = 0; i < pages; ++i) {
      const uint64_t token = (view.tail_first_page() + first + i) * uint64_t{spec.page_tokens};
      QUIRE_RETURN_IF_ERROR(CopyDigests(spec, *view.tail[first + i], token, range.layer, range.kind,
                                        block->data() + i * page_bytes));
    }
    const std::span<const std::byte> bytes(*block);
    blocks->Append(Slice{bytes, std::move(block)});
  }
  return OkStatus();
}

/// Address of a unit that is not in the view's tail.
UnitAddress AddressOf(const ContextView& view, const UnitRef& ref) {
  const uint32_t g = view.spec->segment_pages;
  return {(*view.keys)[ref.page / g], ref.layer, UnitIndex(*view.spec, ref.page % g, ref.head)};
}

/// Addresses of those of `units` that are not in the view's tail, in order.
std::vector<UnitAddress> StoredUnits(const ContextView& view, std::span<const UnitRef> units) {
  std::vector<UnitAddress> stored;
  stored.reserve(units.size());
  for (const UnitRef& ref : units) {
    if (ref.page < view.tail_first_page()) stored.push_back(AddressOf(view, ref));
  }
  return stored;
}

/// Pages of a tail have no other copy.
Status DamagedTail(const UnitRef& ref) {
  return DataLoss("page ", ref.page, " layer ", ref.layer, " KV head ", ref.head,
                  " of the open context was damaged in memory; open another context and send its "
                  "pages again");
}

}  // namespace

UnitBytes TailUnitOf(const ContextView& view, const UnitRef& ref) {
  const std::shared_ptr<const TailPage>& page = view.tail[ref.page - view.tail_first_page()];
  const size_t index = size_t{ref.layer} * view.spec->num_kv_heads + ref.head;
  const uint64_t bytes = quire::UnitBytes(*view.spec);
  return {Slice{std::span(page->units).subspan(index * bytes, bytes), page}, page->crc32c[index]};
}

uint32_t ContextView::num_pages() const { return PageCount(*spec, num_tokens); }

ContextViewPtr ViewOfChain(const ChainPtr& chain, SegmentHold hold,
                           std::vector<uint64_t> written_as) {
  auto view = std::make_shared<ContextView>();
  view->spec = std::shared_ptr<const KvSpec>(chain, &chain->spec);
  view->keys = std::shared_ptr<const std::vector<SegmentKey>>(chain, &chain->keys);
  if (!written_as.empty()) {
    view->written_as = std::make_shared<const std::vector<uint64_t>>(std::move(written_as));
  }
  view->num_tokens = chain->num_tokens;
  view->sealed = true;
  view->hold = std::make_shared<SegmentHold>(std::move(hold));
  return view;
}

bool WasReplaced(const PageStore& store, const ContextView& view) {
  return view.written_as != nullptr && store.WrittenAs(*view.keys) != *view.written_as;
}

Status ReadUnits(PageStore& store, const Caller& caller, const ContextViewPtr& view,
                 std::span<const UnitRef> units, std::vector<UnitBytes>* out,
                 const CodecSet& codecs) {
  const uint32_t tail_first_page = view->tail_first_page();
  const std::vector<UnitAddress> stored = StoredUnits(*view, units);
  std::vector<UnitBytes> read;
  if (!stored.empty()) QUIRE_RETURN_IF_ERROR(store.ReadUnits(caller, stored, codecs, &read));
  if (stored.size() == units.size()) {
    *out = std::move(read);
    return OkStatus();
  }
  std::vector<UnitBytes> merged;
  merged.reserve(units.size());
  auto next = read.begin();
  for (const UnitRef& ref : units) {
    merged.push_back(ref.page < tail_first_page ? std::move(*next++) : TailUnitOf(*view, ref));
  }
  *out = std::move(merged);
  return OkStatus();
}

Status ReadVerified(PageStore& store, const Caller& caller, const ContextView& view,
                    std::span<const UnitRef> units, std::vector<VerifiedBytes>* out) {
  std::vector<VerifiedBytes> stored;
  QUIRE_RETURN_IF_ERROR(store.ReadVerified(caller, StoredUnits(view, units), &stored));
  std::vector<VerifiedBytes> merged;
  merged.reserve(units.size());
  auto next = stored.begin();
  for (const UnitRef& ref : units) {
    if (ref.page < view.tail_first_page()) {
      merged.push_back(std::move(*next++));
      continue;
    }
    auto verified = TailUnitOf(view, ref).Verify();
    if (!verified) return DamagedTail(ref);
    merged.push_back(*std::move(verified));
  }
  *out = std::move(merged);
  return OkStatus();
}

Status Recheck(PageStore& store, const Caller& caller, const ContextView& view,
               std::span<const ReportedRef> units) {
  std::vector<ReportedUnit> stored;
  for (const auto& [ref, crc32c] : units) {
    if (ref.page < view.tail_first_page()) stored.push_back({AddressOf(view, ref), crc32c});
  }
  QUIRE_RETURN_IF_ERROR(store.Recheck(caller, stored));
  for (const auto& [ref, crc32c] : units) {
    if (ref.page >= view.tail_first_page() && !TailUnitOf(view, ref).Matches()) {
      return DamagedTail(ref);
    }
  }
  return OkStatus();
}

StatusOr<DigestBlocks> ReadDigests(PageStore& store, const Caller& caller, const ContextView& view,
                                   const DigestRange& range, const ResidentDigests* resident) {
  DigestRange stored = range;
  stored.end_page = std::min(range.end_page, view.tail_first_page());
  std::optional<DigestBlocks> held;
  if (resident != nullptr && resident->num_pages() >= stored.end_page) {
    held = resident->Blocks(range.layer, stored.first_page, stored.end_page);
  }
  auto blocks = held ? StatusOr<DigestBlocks>(*std::move(held))
                     : ReadDigestBlocks(store, caller, *view.spec, *view.keys, stored);
  if (blocks.ok() && range.end_page > view.tail_first_page()) {
    QUIRE_RETURN_IF_ERROR(AppendTailDigests(view, range, &*blocks));
  }
  return blocks;
}

StatusOr<std::vector<TokenId>> ShortPageTokens(PageStore& store, std::string_view tenant,
                                               const ContextView& view) {
  const uint64_t short_tokens = view.num_tokens % view.spec->page_tokens;
  if (short_tokens == 0) return std::vector<TokenId>();
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, store.Tokens(tenant, view.keys->back()));
  if (tokens.size() < short_tokens) {
    return Internal("segment ", view.keys->back().Hex(), " has ", tokens.size(), " tokens");
  }
  tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(short_tokens));
  return tokens;
}

uint64_t NumStoredTokens(const ContextView& view) {
  return view.num_tokens -
         std::min(view.num_tokens, view.tail.size() * uint64_t{view.spec->page_tokens});
}

StatusOr<std::vector<TokenId>> StoredTokens(PageStore& store, std::string_view tenant,
                                            const ContextView& view, uint64_t first,
                                            uint64_t count) {
  const uint64_t segment_tokens = view.spec->segment_tokens();
  const uint64_t end = std::min(NumStoredTokens(view), first + count);
  std::vector<TokenId> tokens;
  while (first + tokens.size() < end) {
    const uint64_t at = first + tokens.size();
    const SegmentKey& key = (*view.keys)[at / segment_tokens];
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> segment, store.Tokens(tenant, key));
    const uint64_t from = at % segment_tokens;
    const uint64_t some = std::min(segment_tokens - from, end - at);
    if (segment.size() < from + some) {
      return Internal("segment ", key.Hex(), " has ", segment.size(), " tokens");
    }
    const auto begin = segment.begin() + static_cast<std::ptrdiff_t>(from);
    tokens.insert(tokens.end(), begin, begin + static_cast<std::ptrdiff_t>(some));
  }
  return tokens;
}

}  // namespace quire::kvserver
