// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/open_context.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "common/base/memory/checksum.h"
#include "quire/layout.h"

namespace quire::kvserver {
namespace {

/// Sets the waits of a call for the time of a scope.
class WaitsOfCall {
 public:
  WaitsOfCall(CallWaits** place, CallWaits* waits) : place_(place) { *place_ = waits; }
  ~WaitsOfCall() { *place_ = nullptr; }
  WaitsOfCall(const WaitsOfCall&) = delete;
  WaitsOfCall& operator=(const WaitsOfCall&) = delete;

 private:
  CallWaits** const place_;
};

/// Units of one page, [layers][n_kv].
std::vector<UnitRef> UnitsOfPage(const KvSpec& spec, std::span<const uint32_t> layers,
                                 uint32_t page) {
  std::vector<UnitRef> units;
  units.reserve(layers.size() * spec.num_kv_heads);
  for (const uint32_t layer : layers) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) units.push_back({layer, page, head});
  }
  return units;
}

uint64_t GreatestIncarnation(const PageStore& store, const ContextView& view) {
  const std::vector<uint64_t> written_as = store.WrittenAs(*view.keys);
  return written_as.empty() ? 0 : *std::ranges::max_element(written_as);
}

/// Token ids of one page of a view.
StatusOr<std::vector<TokenId>> TokensOfPage(PageStore& store, std::string_view tenant,
                                            const ContextView& view, uint32_t page) {
  if (page >= view.tail_first_page()) return view.tail[page - view.tail_first_page()]->tokens;
  const KvSpec& spec = *view.spec;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                         store.Tokens(tenant, (*view.keys)[page / spec.segment_pages]));
  const size_t first = size_t{page % spec.segment_pages} * spec.page_tokens;
  const size_t count =
      std::min<size_t>(spec.page_tokens, tokens.size() - std::min(first, tokens.size()));
  return std::vector<TokenId>(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                              tokens.begin() + static_cast<std::ptrdiff_t>(first + count));
}

std::vector<uint32_t> AllLayers(const KvSpec& spec) {
  std::vector<uint32_t> layers(spec.num_layers);
  std::iota(layers.begin(), layers.end(), 0u);
  return layers;
}

/// Rows of one page whose units at `layers` are contiguous.
LayerRows RowsOfPage(const KvSpec& spec, std::span<const uint32_t> layers,
                     std::span<const std::byte> units) {
  const uint64_t row_bytes = ExtentBytes(spec, 1);
  return {layers, units.data(), row_bytes, row_bytes};
}

}  // namespace

StatusOr<std::shared_ptr<OpenContext>> OpenContext::Create(Deps deps, const KvSpec& spec,
                                                           const ContextViewPtr& chain) {
  ContextView view;
  view.spec = std::make_shared<const KvSpec>(spec);
  std::vector<SegmentKey> keys;
  if (chain != nullptr) {
    keys = *chain->keys;
    keys.resize(std::min<uint64_t>(keys.size(), chain->num_tokens / spec.segment_tokens()));
    view.num_tokens = keys.size() * uint64_t{spec.segment_tokens()};
  }
  QUIRE_ASSIGN_OR_RETURN(SegmentHold hold, deps.store->HoldSegments(deps.tenant, keys));
  deps.store->NoteHints(deps.tenant, deps.hints, keys);
  view.hold = std::make_shared<SegmentHold>(std::move(hold));
  view.written_as = std::make_shared<const std::vector<uint64_t>>(deps.store->WrittenAs(keys));
  view.keys = std::make_shared<const std::vector<SegmentKey>>(std::move(keys));
  const auto above = chain == nullptr ? nullptr : chain->private_segments;
  if (above != nullptr && above->depth() == PrivateSegments::kMaxDepth) {
    return ResourceExhausted(
        "private contexts continue one another ", PrivateSegments::kMaxDepth,
        " deep, which is the limit; continue the document that the first of them continues");
  }
  if (deps.private_pages || above != nullptr) {
    view.private_segments =
        std::make_shared<const PrivateSegments>(above != nullptr ? above->depth() + 1 : 1);
  }
  Continued continued;
  if (chain != nullptr) {
    continued = {chain->chain_tip(), chain->num_pages(), GreatestIncarnation(*deps.store, *chain)};
  }
  std::shared_ptr<OpenContext> context(new OpenContext(
      std::move(deps), std::make_shared<const ContextView>(std::move(view)), continued));
  if (chain != nullptr) {
    MutexLock lock(context->write_mutex_);
    QUIRE_RETURN_IF_ERROR(context->CopyPages(chain));
  }
  return context;
}

Status OpenContext::CopyPages(const ContextViewPtr& chain) {
  const KvSpec& spec = *chain->spec;
  const std::vector<uint32_t> layers = AllLayers(spec);
  const auto end = static_cast<uint32_t>(chain->num_tokens / spec.page_tokens);
  for (uint32_t page = view()->num_pages(); page < end; ++page) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                           TokensOfPage(*deps_.store, deps_.tenant, *chain, page));
    std::vector<VerifiedBytes> units;
    QUIRE_RETURN_IF_ERROR(
        ReadVerified(*deps_.store, deps_.tenant, *chain, UnitsOfPage(spec, layers, page), &units));
    Payload payload;
    std::vector<uint32_t> crc32c;
    for (const VerifiedBytes& unit : units) {
      payload.Append(unit.slice());
      crc32c.push_back(unit.crc32c());
    }
    const Slice bytes = payload.Flatten();
    LayerRows rows = RowsOfPage(spec, layers, bytes.bytes);
    rows.unit_crc32c = crc32c;
    QUIRE_ASSIGN_OR_RETURN(auto copy, MakeTailPage(rows, tokens));
    QUIRE_RETURN_IF_ERROR(AppendPage(std::move(copy)));
  }
  return OkStatus();
}

ContextViewPtr OpenContext::view() const {
  MutexLock lock(view_mutex_);
  return view_;
}

void OpenContext::SetView(ContextView view) {
  auto next = std::make_shared<const ContextView>(std::move(view));
  // The old view is destroyed after the lock: its hold may delete segments.
  MutexLock lock(view_mutex_);
  view_.swap(next);
}

void OpenContext::ReleaseSegments() {
  MutexLock lock(write_mutex_);
  ContextView next = *view();
  next.hold = nullptr;
  SetView(std::move(next));
}

std::vector<std::shared_ptr<const TailPage>> OpenContext::ArrivingPages() const {
  MutexLock lock(write_mutex_);
  std::vector<std::shared_ptr<const TailPage>> pages;
  for (const PageAssembly& arriving : arriving_) pages.push_back(arriving.page());
  return pages;
}

std::optional<PageCheck> OpenContext::CheckArriving(const TailPage& page) const {
  MutexLock lock(write_mutex_);
  for (const PageAssembly& arriving : arriving_) {
    if (arriving.page().get() == &page) return arriving.CheckArrived();
  }
  return std::nullopt;
}

Status OpenContext::CheckAppend(uint32_t first_page, std::span<const TokenId> tokens,
                                uint64_t num_layers, uint64_t units_bytes,
                                uint64_t known_pages) const {
  if (sealed_) return FailedPrecondition("the context is sealed: open one that continues it");
  const KvSpec& spec = *view()->spec;
  if (tokens.empty() || tokens.size() % spec.page_tokens != 0) {
    return InvalidArgument(tokens.size(), " tokens are no whole number of pages of ",
                           spec.page_tokens);
  }
  const uint64_t pages = tokens.size() / spec.page_tokens;
  const uint64_t expected = pages * num_layers * ExtentBytes(spec, 1);
  if (units_bytes != expected) {
    return InvalidArgument("the payload has ", units_bytes, " bytes: ", pages, " pages take ",
                           expected);
  }
  if (first_page > known_pages) {
    return InvalidArgument("first_page is ", first_page, ", but the context has ", known_pages,
                           " pages: append the ones between first");
  }
  if (uint64_t{first_page} * spec.page_tokens + tokens.size() > kMaxTokens) {
    return ResourceExhausted("a context holds at most ", kMaxTokens, " tokens");
  }
  return OkStatus();
}

StatusOr<uint64_t> OpenContext::Append(uint32_t first_page, std::span<const TokenId> tokens,
                                       std::span<const std::byte> units, CallWaits* waits) {
  MutexLock lock(write_mutex_);
  const WaitsOfCall of_call(&waits_, waits);
  const ContextViewPtr before = view();
  const KvSpec& spec = *before->spec;
  QUIRE_RETURN_IF_ERROR(
      CheckAppend(first_page, tokens, spec.num_layers, units.size(), before->num_pages()));
  const std::vector<uint32_t> layers = AllLayers(spec);
  const uint32_t p = spec.page_tokens;
  const uint64_t page_bytes = SegmentBytes(spec, 1);
  for (uint32_t i = 0; i < tokens.size() / p; ++i) {
    const LayerRows rows = RowsOfPage(spec, layers, units.subspan(i * page_bytes, page_bytes));
    QUIRE_RETURN_IF_ERROR(AppendWhole(first_page + i, tokens.subspan(size_t{i} * p, p), rows));
  }
  return view()->num_tokens;
}

Status OpenContext::AppendWhole(uint32_t page, std::span<const TokenId> tokens,
                                const LayerRows& rows) {
  if (page < view()->num_pages()) return CheckSame(page, tokens, rows);
  if (arriving_.empty()) {
    QUIRE_ASSIGN_OR_RETURN(auto whole, MakeTailPage(rows, tokens));
    return AppendPage(std::move(whole));
  }
  QUIRE_RETURN_IF_ERROR(arriving_.front().Check(page, tokens, rows));
  QUIRE_RETURN_IF_ERROR(arriving_.front().Put(rows, *deps_.ops));
  return AppendArrived();
}

StatusOr<uint64_t> OpenContext::AppendLayers(uint32_t first_page, std::span<const TokenId> tokens,
                                             std::span<const uint32_t> layers,
                                             std::span<const std::byte> units, CallWaits* waits) {
  MutexLock lock(write_mutex_);
  const WaitsOfCall of_call(&waits_, waits);
  const ContextViewPtr before = view();
  const KvSpec& spec = *before->spec;
  const uint32_t appended = before->num_pages();
  QUIRE_RETURN_IF_ERROR(CheckAppend(first_page, tokens, layers.size(), units.size(),
                                    uint64_t{appended} + arriving_.size()));
  const uint32_t p = spec.page_tokens;
  const auto pages = static_cast<uint32_t>(tokens.size() / p);
  const uint64_t row_bytes = ExtentBytes(spec, 1);
  const auto tokens_of = [&](uint32_t i) { return tokens.subspan(size_t{i} * p, p); };
  const auto rows_of = [&](uint32_t i) {
    return LayerRows{layers, units.data() + i * row_bytes, pages * row_bytes, row_bytes};
  };
  // All checks and allocations come before the first change.
  std::vector<PageAssembly> added;
  for (uint32_t i = 0; i < pages; ++i) {
    const uint32_t page = first_page + i;
    if (page < appended) {
      QUIRE_RETURN_IF_ERROR(CheckSame(page, tokens_of(i), rows_of(i)));
    } else if (page - appended < arriving_.size()) {
      QUIRE_RETURN_IF_ERROR(arriving_[page - appended].Check(page, tokens_of(i), rows_of(i)));
    } else {
      QUIRE_ASSIGN_OR_RETURN(auto room,
                             PageAssembly::Create(before->spec, tokens_of(i), *deps_.budget));
      added.push_back(std::move(room));
    }
  }
  std::ranges::move(added, std::back_inserter(arriving_));
  for (uint32_t i = 0; i < pages; ++i) {
    if (first_page + i < appended) continue;
    QUIRE_RETURN_IF_ERROR(arriving_[first_page + i - appended].Put(rows_of(i), *deps_.ops));
  }
  QUIRE_RETURN_IF_ERROR(AppendArrived());
  return view()->num_tokens;
}

Status OpenContext::AppendArrived() {
  while (!arriving_.empty() && !arriving_.front().missing_layer()) {
    QUIRE_RETURN_IF_ERROR(AppendPage(arriving_.front().page()));
    arriving_.pop_front();
  }
  return OkStatus();
}

Status OpenContext::CheckSame(uint32_t page, std::span<const TokenId> tokens,
                              const LayerRows& rows) const {
  const ContextViewPtr now = view();
  const KvSpec& spec = *now->spec;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> known_tokens,
                         TokensOfPage(*deps_.store, deps_.tenant, *now, page));
  if (!std::ranges::equal(tokens, known_tokens)) return OtherThanKnown(page, "tokens");
  if (page < first_appended_) return CheckSameBytes(now, page, rows);
  const size_t first = size_t{page - first_appended_} * spec.num_layers;
  for (size_t i = 0; i < rows.layers.size(); ++i) {
    const uint32_t known = appended_checksums_[first + rows.layers[i]];
    if (RowChecksum(rows.row(i), quire::UnitBytes(spec)) != known) {
      return OtherThanKnown(page, "bytes");
    }
  }
  return OkStatus();
}

Status OpenContext::CheckSameBytes(const ContextViewPtr& view, uint32_t page,
                                   const LayerRows& rows) const {
  std::vector<VerifiedBytes> known;
  QUIRE_RETURN_IF_ERROR(ReadVerified(*deps_.store, deps_.tenant, *view,
                                     UnitsOfPage(*view->spec, rows.layers, page), &known));
  const uint64_t unit_bytes = quire::UnitBytes(*view->spec);
  const uint32_t heads = view->spec->num_kv_heads;
  for (size_t i = 0; i < known.size(); ++i) {
    const std::byte* const given = rows.row(i / heads).data() + i % heads * unit_bytes;
    if (std::memcmp(known[i].bytes().data(), given, unit_bytes) != 0) {
      return OtherThanKnown(page, "bytes");
    }
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<const TailPage>> OpenContext::MakeTailPage(
    const LayerRows& rows, std::span<const TokenId> tokens) const {
  QUIRE_ASSIGN_OR_RETURN(PageAssembly page,
                         PageAssembly::Create(view()->spec, tokens, *deps_.budget));
  QUIRE_RETURN_IF_ERROR(page.Put(rows, *deps_.ops));
  return page.page();
}

Status OpenContext::AppendPage(std::shared_ptr<const TailPage> page) {
  ContextView next = *view();
  const KvSpec& spec = *next.spec;
  next.tail.push_back(page);
  if (next.tail.size() == spec.segment_pages) {
    // Persisted, whatever the seal will ask for: a chain is as durable as its weakest segment. A
    // private one does not outlive the server anyway.
    const auto durability =
        next.private_segments == nullptr ? Durability::kPersisted : Durability::kMemory;
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey key, Store(*view(), next.tail, durability));
    next = Advance(next, key);
  }
  next.num_tokens += page->tokens.size();
  SetView(std::move(next));
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    appended_checksums_.push_back(RowChecksum(
        std::span(page->crc32c).subspan(size_t{layer} * spec.num_kv_heads, spec.num_kv_heads)));
  }
  return OkStatus();
}

StatusOr<SegmentKey> OpenContext::Store(const ContextView& view,
                                        std::span<const std::shared_ptr<const TailPage>> pages,
                                        Durability durability) {
  const KvSpec& spec = *view.spec;
  const uint64_t row_bytes = ExtentBytes(spec, 1);  // One page at one layer.
  std::vector<std::span<const std::byte>> rows;
  std::vector<uint32_t> crc32c;
  rows.reserve(spec.num_layers * pages.size());
  crc32c.reserve(size_t{spec.num_layers} * pages.size() * spec.num_kv_heads);
  std::vector<TokenId> tokens;
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const auto& page : pages) {
      rows.push_back(std::span(page->units).subspan(layer * row_bytes, row_bytes));
      const auto row = page->crc32c.begin() + std::ptrdiff_t{layer} * spec.num_kv_heads;
      crc32c.insert(crc32c.end(), row, row + spec.num_kv_heads);
    }
  }
  for (const auto& page : pages) {
    tokens.insert(tokens.end(), page->tokens.begin(), page->tokens.end());
  }
  PutSegmentArgs args;
  args.spec = &spec;
  args.parent = view.keys->empty() ? kRootKey : view.keys->back();
  args.tokens = tokens;
  args.payload_rows = rows;
  args.unit_crc32c = crc32c;
  args.durability = durability;
  args.codec = deps_.codec;
  args.strict = deps_.strict;
  args.waits = waits_;
  if (view.private_segments != nullptr) args.private_salt = &view.private_segments->salt();
  SegmentHold hold;
  args.hold = &hold;
  QUIRE_ASSIGN_OR_RETURN(const PutSegmentResult result,
                         deps_.store->PutSegment(deps_.tenant, args));
  view.hold->Add(std::move(hold));
  deps_.store->NoteHints(deps_.tenant, deps_.hints, {&result.key, 1});
  if (result.differs) num_differing_.fetch_add(1, std::memory_order_relaxed);
  return result.key;
}

ContextView OpenContext::Advance(const ContextView& view, const SegmentKey& key) const {
  ContextView next = view;
  std::vector<SegmentKey> keys = *view.keys;
  keys.push_back(key);
  next.keys = std::make_shared<const std::vector<SegmentKey>>(std::move(keys));
  std::vector<uint64_t> written_as = *view.written_as;
  written_as.push_back(deps_.store->WrittenAs({&key, 1}).front());
  next.written_as = std::make_shared<const std::vector<uint64_t>>(std::move(written_as));
  next.tail.clear();
  return next;
}

StatusOr<ContextViewPtr> OpenContext::Seal(std::span<const TokenId> tail_tokens,
                                           std::span<const std::byte> tail_units,
                                           Durability durability, CallWaits* waits) {
  MutexLock lock(write_mutex_);
  const WaitsOfCall of_call(&waits_, waits);
  const SealRequest request{{tail_tokens.begin(), tail_tokens.end()}, Crc32c(tail_units)};
  if (sealed_) {
    if (*sealed_ == request) return view();
    return FailedPrecondition("the context is sealed already, with another last page");
  }
  if (view()->private_segments != nullptr) {
    return FailedPrecondition(
        "the context's pages are private to it: it cannot be sealed; open one without "
        "private_pages and append pages of exact attention");
  }
  QUIRE_RETURN_IF_ERROR(AppendArrived());
  ContextView next = *view();
  const KvSpec& spec = *next.spec;
  const uint64_t expected = tail_tokens.empty() ? 0 : SegmentBytes(spec, 1);
  if (tail_tokens.size() >= spec.page_tokens || tail_units.size() != expected) {
    return InvalidArgument("a short last page has fewer than ", spec.page_tokens, " tokens (got ",
                           tail_tokens.size(), ") and ", expected, " bytes (got ",
                           tail_units.size(), ")");
  }
  if (!arriving_.empty()) {
    return FailedPrecondition("page ", next.num_pages(), " of the context lacks layer ",
                              *arriving_.front().missing_layer(),
                              ": append the layers that are missing, then seal");
  }
  if (!tail_tokens.empty()) {
    const std::vector<uint32_t> layers = AllLayers(spec);
    QUIRE_ASSIGN_OR_RETURN(auto page,
                           MakeTailPage(RowsOfPage(spec, layers, tail_units), tail_tokens));
    next.tail.push_back(std::move(page));
    next.num_tokens += tail_tokens.size();
  }
  if (next.num_tokens == 0) return InvalidArgument("an empty context cannot be sealed");
  if (!next.tail.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey key, Store(next, next.tail, durability));
    next = Advance(next, key);
  }
  next.sealed = true;
  SetView(std::move(next));
  sealed_ = request;
  return view();
}

}  // namespace quire::kvserver
