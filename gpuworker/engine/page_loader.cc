// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/page_loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/api/page_digest.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

StatusOr<std::shared_ptr<const StoredDigests>> ReadLayerDigests(const EngineParts& parts,
                                                                SessionSeat* seat, uint32_t layer,
                                                                uint32_t num_pages,
                                                                kernels::DigestKind kind) {
  const uint64_t page_bytes = kernels::PageDigestBytes(*parts.spec, kind);
  const uint32_t batch = PagesPerBatch(parts, page_bytes);
  std::vector<std::byte> digests(num_pages * page_bytes);
  for (uint32_t first = 0; first < num_pages;) {
    const uint32_t end = first + std::min(batch, num_pages - first);
    QUIRE_ASSIGN_OR_RETURN(
        const Payload payload,
        seat->session().Digests({&layer, 1}, first, end, seat->sequence(), 0, kind));
    payload.CopyTo(digests.data() + first * page_bytes);
    first = end;
  }
  return StoredDigests::Make(*parts.spec, kind, parts.device, num_pages, digests);
}

}  // namespace

StatusOr<uint64_t> LoadFixedPages(const EngineParts& parts, const ContextRef& context,
                                  const DocumentSeat* document, BudgetCache* cache) {
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < cache->num_layers(); ++layer) {
    QUIRE_ASSIGN_OR_RETURN(
        const uint64_t read,
        LoadLayerPages(parts, context, document, cache, layer, cache->table(layer).FixedPages()));
    bytes += read;
  }
  return bytes;
}

StatusOr<uint64_t> LoadLayerPages(const EngineParts& parts, const ContextRef& context,
                                  const DocumentSeat* document, BudgetCache* cache, uint32_t layer,
                                  std::vector<uint32_t> pages) {
  const uint32_t batch = PagesPerBatch(parts, ExtentBytes(*parts.spec, 1));
  uint64_t bytes = 0;
  if (document != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(pages, document->CopyPages(layer, std::move(pages), cache));
  }
  for (size_t at = 0; at < pages.size(); at += batch) {
    const size_t count = std::min<size_t>(batch, pages.size() - at);
    const auto first = pages.begin() + static_cast<ptrdiff_t>(at);
    const UnitRange range{
        .layer = layer, .pages = {first, first + static_cast<ptrdiff_t>(count)}, .heads = {}};
    QUIRE_ASSIGN_OR_RETURN(
        const FetchedUnits units,
        parts.client->FetchUnits(context, {&range, 1}, *parts.spec, CodecSet::All()));
    QUIRE_RETURN_IF_ERROR(cache->FillFixed(layer, range.pages, units.payload, units.codecs));
    bytes += units.payload.size_bytes();
  }
  return bytes;
}

StatusOr<uint64_t> LoadDigests(const EngineParts& parts, SessionSeat* seat,
                               const DocumentSeat* document, uint32_t num_pages,
                               PageObserver* observer) {
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < parts.spec->num_layers; ++layer) {
    std::shared_ptr<const StoredDigests> digests;
    const auto kind = num_pages > 0 ? observer->WantedDigests(layer) : std::nullopt;
    if (kind && document != nullptr) digests = document->FindDigests(layer, *kind);
    if (kind && digests == nullptr) {
      QUIRE_ASSIGN_OR_RETURN(digests, ReadLayerDigests(parts, seat, layer, num_pages, *kind));
      if (document != nullptr) document->PutDigests(layer, *kind, digests);
      bytes += digests->size_bytes();
    }
    QUIRE_RETURN_IF_ERROR(observer->OnPrefillLayer(layer, num_pages, std::move(digests)));
  }
  return bytes;
}

StatusOr<uint64_t> LoadUnits(const EngineParts& parts, const ContextRef& context,
                             uint32_t num_pages, PageObserver* observer) {
  const uint64_t page_bytes = ExtentBytes(*parts.spec, 1);
  const uint32_t batch = PagesPerBatch(parts, page_bytes);
  QUIRE_ASSIGN_OR_RETURN(const DeviceBuffer page, parts.device->Allocate(page_bytes));
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < parts.spec->num_layers; ++layer) {
    if (!observer->WantsUnits(layer)) continue;
    for (uint32_t first = 0; first < num_pages; first += batch) {
      UnitRange range{.layer = layer, .pages = {}, .heads = {}};
      range.pages.resize(std::min(batch, num_pages - first));
      std::iota(range.pages.begin(), range.pages.end(), first);
      QUIRE_ASSIGN_OR_RETURN(const Payload payload, parts.client->Fetch(context, {&range, 1}));
      std::vector<std::byte> units(payload.size_bytes());
      payload.CopyTo(units.data());
      for (size_t i = 0; i < range.pages.size(); ++i) {
        QUIRE_RETURN_IF_ERROR(
            parts.device->CopyToDevice(page.data(), units.data() + i * page_bytes, page_bytes));
        QUIRE_RETURN_IF_ERROR(observer->OnPageComplete(layer, range.pages[i], page.data()));
      }
      bytes += units.size();
    }
  }
  return bytes;
}

StatusOr<std::vector<TokenId>> ReadTailTokens(const EngineParts& parts, const SegmentKey& tip) {
  const SessionOptions options{.spec = *parts.spec, .slots_per_head = 1, .managed_layers = {0}};
  QUIRE_ASSIGN_OR_RETURN(const auto session, parts.client->OpenSession(ContextRef(tip), options));
  const std::span<const TokenId> tail = session->tail_tokens();
  return std::vector<TokenId>(tail.begin(), tail.end());
}

}  // namespace quire::worker
