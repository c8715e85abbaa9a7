// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/open_context.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/checksum.h"
#include "common/page/layout.h"

namespace quire::kvserver {
namespace {

/// Every unit of one page, [num_layers][n_kv].
std::vector<UnitRef> UnitsOfPage(const KvSpec& spec, uint32_t page) {
  std::vector<UnitRef> units;
  units.reserve(size_t{spec.num_layers} * spec.num_kv_heads);
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) units.push_back({layer, page, head});
  }
  return units;
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

Status Refuse(uint32_t page, std::string_view what) {
  return AlreadyExists("page ", page, " of the open context has other ", what,
                       ": a page never changes; open another context");
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
  view.keys = std::make_shared<const std::vector<SegmentKey>>(std::move(keys));
  std::shared_ptr<OpenContext> context(
      new OpenContext(std::move(deps), std::make_shared<const ContextView>(std::move(view))));
  if (chain != nullptr) {
    MutexLock lock(context->write_mutex_);
    QUIRE_RETURN_IF_ERROR(context->CopyPages(chain));
    context->first_appended_ = context->view()->num_pages();
  }
  return context;
}

Status OpenContext::CopyPages(const ContextViewPtr& chain) {
  const KvSpec& spec = *chain->spec;
  const auto end = static_cast<uint32_t>(chain->num_tokens / spec.page_tokens);
  for (uint32_t page = view()->num_pages(); page < end; ++page) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                           TokensOfPage(*deps_.store, deps_.tenant, *chain, page));
    std::vector<UnitBytes> units;
    QUIRE_RETURN_IF_ERROR(
        ReadUnits(*deps_.store, deps_.tenant, chain, UnitsOfPage(spec, page), &units));
    Payload payload;
    for (const UnitBytes& unit : units) payload.Append(unit.slice);
    QUIRE_RETURN_IF_ERROR(AppendPage(tokens, payload.Flatten().bytes));
  }
  return OkStatus();
}

ContextViewPtr OpenContext::view() const {
  MutexLock lock(view_mutex_);
  return view_;
}

void OpenContext::SetView(ContextView view) {
  auto next = std::make_shared<const ContextView>(std::move(view));
  MutexLock lock(view_mutex_);
  view_ = std::move(next);
}

StatusOr<uint64_t> OpenContext::Append(uint32_t first_page, std::span<const TokenId> tokens,
                                       std::span<const std::byte> units) {
  MutexLock lock(write_mutex_);
  if (sealed_) return FailedPrecondition("the context is sealed: open one that continues it");
  const ContextViewPtr before = view();
  const KvSpec& spec = *before->spec;
  const uint64_t page_bytes = SegmentBytes(spec, 1);
  if (tokens.empty() || tokens.size() % spec.page_tokens != 0) {
    return InvalidArgument(tokens.size(), " tokens are no whole number of pages of ",
                           spec.page_tokens);
  }
  const uint64_t pages = tokens.size() / spec.page_tokens;
  if (units.size() != pages * page_bytes) {
    return InvalidArgument("the payload has ", units.size(), " bytes: ", pages, " pages take ",
                           pages * page_bytes);
  }
  if (first_page > before->num_pages()) {
    return InvalidArgument("first_page is ", first_page, ", but the context has ",
                           before->num_pages(), " pages: append the ones between first");
  }
  if (uint64_t{first_page} * spec.page_tokens + tokens.size() > kMaxTokens) {
    return ResourceExhausted("a context holds at most ", kMaxTokens, " tokens");
  }
  for (uint32_t i = 0; i < pages; ++i) {
    const auto page_tokens = tokens.subspan(size_t{i} * spec.page_tokens, spec.page_tokens);
    const auto page_units = units.subspan(i * page_bytes, page_bytes);
    const bool known = first_page + i < before->num_pages();
    if (known) {
      QUIRE_RETURN_IF_ERROR(CheckSame(before, first_page + i, page_tokens, page_units));
      continue;
    }
    QUIRE_RETURN_IF_ERROR(AppendPage(page_tokens, page_units));
    appended_crc32c_.push_back(Crc32c(page_units));
  }
  return view()->num_tokens;
}

Status OpenContext::CheckSame(const ContextViewPtr& view, uint32_t page,
                              std::span<const TokenId> tokens,
                              std::span<const std::byte> units) const {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> known_tokens,
                         TokensOfPage(*deps_.store, deps_.tenant, *view, page));
  if (!std::equal(tokens.begin(), tokens.end(), known_tokens.begin(), known_tokens.end())) {
    return Refuse(page, "tokens");
  }
  if (page < first_appended_) return CheckSameBytes(view, page, units);
  return appended_crc32c_[page - first_appended_] == Crc32c(units) ? OkStatus()
                                                                   : Refuse(page, "bytes");
}

Status OpenContext::CheckSameBytes(const ContextViewPtr& view, uint32_t page,
                                   std::span<const std::byte> units) const {
  std::vector<UnitBytes> known;
  QUIRE_RETURN_IF_ERROR(
      ReadUnits(*deps_.store, deps_.tenant, view, UnitsOfPage(*view->spec, page), &known));
  const std::byte* at = units.data();
  for (const UnitBytes& unit : known) {
    const size_t size = unit.slice.bytes.size();
    if (std::memcmp(unit.slice.bytes.data(), at, size) != 0) return Refuse(page, "bytes");
    at += size;
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<const TailPage>> OpenContext::MakeTailPage(
    const KvSpec& spec, std::span<const TokenId> tokens, std::span<const std::byte> units) const {
  const uint64_t unit_bytes = quire::UnitBytes(spec);
  const uint64_t num_units = units.size() / unit_bytes;
  const uint64_t digest_bytes = PageDigestBytes(spec) * spec.num_layers;
  auto page = std::make_shared<TailPage>();
  QUIRE_ASSIGN_OR_RETURN(page->lease, deps_.budget->Take(units.size() + digest_bytes));
  page->tokens.assign(tokens.begin(), tokens.end());
  page->units.assign(units.begin(), units.end());
  page->digests.resize(digest_bytes);
  for (uint64_t u = 0; u < num_units; ++u) {
    page->crc32c.push_back(Crc32c(units.subspan(u * unit_bytes, unit_bytes)));
  }
  const std::vector<int32_t> rows(num_units, static_cast<int32_t>(tokens.size()));
  const kernels::OpStatus status =
      deps_.ops->digest({.units = page->units.data(),
                         .unit_stride = static_cast<int64_t>(spec.rows_per_unit()) * spec.key_dim(),
                         .valid_rows = rows.data(),
                         .digests = page->digests.data(),
                         .n_units = static_cast<int64_t>(num_units),
                         .page_tokens = spec.page_tokens,
                         .head_dim = spec.key_dim(),
                         .dtype = spec.dtype,
                         .out_dtype = spec.dtype});
  if (status != kernels::OpStatus::kOk) {
    return Internal("kernel digest: ", kernels::Describe(status));
  }
  return std::shared_ptr<const TailPage>(std::move(page));
}

Status OpenContext::AppendPage(std::span<const TokenId> tokens, std::span<const std::byte> units) {
  ContextView next = *view();
  const KvSpec& spec = *next.spec;
  QUIRE_ASSIGN_OR_RETURN(auto page, MakeTailPage(spec, tokens, units));
  next.tail.push_back(std::move(page));
  if (next.tail.size() >= spec.segment_pages && !diverged_) {
    // Persisted, whatever the seal will ask for: a chain is as durable as its weakest segment.
    const auto key = Store(*view(), next.tail, Durability::kPersisted);
    diverged_ = absl::IsAlreadyExists(key.status());
    if (!diverged_) {
      QUIRE_RETURN_IF_ERROR(key.status());
      next = Advance(next, *key);
    }
  }
  next.num_tokens += tokens.size();
  SetView(std::move(next));
  return OkStatus();
}

StatusOr<SegmentKey> OpenContext::Store(const ContextView& view,
                                        std::span<const std::shared_ptr<const TailPage>> pages,
                                        Durability durability) const {
  const KvSpec& spec = *view.spec;
  const uint64_t row_bytes = ExtentBytes(spec, 1);  // One page at one layer.
  std::vector<std::byte> payload(SegmentBytes(spec, static_cast<uint32_t>(pages.size())));
  std::vector<TokenId> tokens;
  std::byte* out = payload.data();
  for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const auto& page : pages) {
      std::memcpy(out, page->units.data() + layer * row_bytes, row_bytes);
      out += row_bytes;
    }
  }
  for (const auto& page : pages) {
    tokens.insert(tokens.end(), page->tokens.begin(), page->tokens.end());
  }
  PutSegmentArgs args;
  args.spec = &spec;
  args.parent = view.keys->empty() ? kRootKey : view.keys->back();
  args.tokens = tokens;
  args.payload = payload;
  args.durability = durability;
  args.codec = deps_.codec;
  QUIRE_ASSIGN_OR_RETURN(const PutSegmentResult result,
                         deps_.store->PutSegment(deps_.tenant, args));
  return result.key;
}

ContextView OpenContext::Advance(const ContextView& view, const SegmentKey& key) {
  ContextView next = view;
  std::vector<SegmentKey> keys = *view.keys;
  keys.push_back(key);
  next.keys = std::make_shared<const std::vector<SegmentKey>>(std::move(keys));
  next.tail.clear();
  return next;
}

StatusOr<ContextViewPtr> OpenContext::Seal(std::span<const TokenId> tail_tokens,
                                           std::span<const std::byte> tail_units,
                                           Durability durability) {
  MutexLock lock(write_mutex_);
  const SealRequest request{{tail_tokens.begin(), tail_tokens.end()}, Crc32c(tail_units)};
  if (sealed_) {
    if (*sealed_ == request) return view();
    return FailedPrecondition("the context is sealed already, with another last page");
  }
  ContextView next = *view();
  const KvSpec& spec = *next.spec;
  const uint64_t expected = tail_tokens.empty() ? 0 : SegmentBytes(spec, 1);
  if (tail_tokens.size() >= spec.page_tokens || tail_units.size() != expected) {
    return InvalidArgument("a short last page has fewer than ", spec.page_tokens, " tokens (got ",
                           tail_tokens.size(), ") and ", expected, " bytes (got ",
                           tail_units.size(), ")");
  }
  if (diverged_) {
    return AlreadyExists(
        "other bytes are stored for this context's tokens: it cannot be sealed; "
        "drop it, or register the stored chain");
  }
  if (!tail_tokens.empty()) {
    QUIRE_ASSIGN_OR_RETURN(auto page, MakeTailPage(spec, tail_tokens, tail_units));
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
