// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offloader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/page/layout.h"

namespace quire::worker {

uint64_t Offloader::LayerBytes() const { return ExtentBytes(*parts_.spec, 1); }
uint64_t Offloader::PageBytes() const { return SegmentBytes(*parts_.spec, 1); }

Status Offloader::ExportPage(const BudgetCache& cache, uint32_t layer, uint32_t page, uint32_t rows,
                             std::byte* to) {
  if (units_.size_bytes() == 0) {
    QUIRE_ASSIGN_OR_RETURN(units_, parts_.device->Allocate(LayerBytes()));
  }
  QUIRE_RETURN_IF_ERROR(cache.ExportPage(layer, page, rows, units_.data()));
  return parts_.device->CopyToHost(to, units_.data(), LayerBytes());
}

Status Offloader::Export(const BudgetCache& cache, uint32_t layer, PageRange pages) {
  if (pages.size() == 0) return OkStatus();
  if (pending_.size() == 0) {
    pending_ = pages;
    staging_.resize(pages.size() * PageBytes());
  }
  if (pages != pending_) {
    return Internal("layer ", layer, " completes pages ", pages.first, " to ", pages.end,
                    ", other layers ", pending_.first, " to ", pending_.end);
  }
  for (uint32_t page = pages.first; page < pages.end; ++page) {
    std::byte* const to =
        staging_.data() + (page - pages.first) * PageBytes() + layer * LayerBytes();
    QUIRE_RETURN_IF_ERROR(ExportPage(cache, layer, page, parts_.spec->page_tokens, to));
    if (policy_ == nullptr) continue;
    QUIRE_RETURN_IF_ERROR(policy_->OnPageComplete(layer, page, units_.data()));
  }
  return OkStatus();
}

StatusOr<uint64_t> Offloader::Flush(uint64_t context_id, std::span<const TokenId> tokens) {
  const uint32_t p = parts_.spec->page_tokens;
  if (tokens.size() != uint64_t{pending_.size()} * p) {
    return Internal(tokens.size(), " token ids for ", pending_.size(), " pages");
  }
  const PageRange pages = std::exchange(pending_, {});
  const auto bytes = std::make_shared<const std::vector<std::byte>>(std::exchange(staging_, {}));
  const uint32_t batch = PagesPerBatch(parts_, PageBytes());
  for (uint32_t at = 0; at < pages.size(); at += batch) {
    const uint32_t count = std::min(batch, pages.size() - at);
    Payload payload;
    payload.Append(Slice{std::span(*bytes).subspan(at * PageBytes(), count * PageBytes()), bytes});
    QUIRE_RETURN_IF_ERROR(parts_.client
                              ->AppendPages(context_id, pages.first + at,
                                            tokens.subspan(uint64_t{at} * p, uint64_t{count} * p),
                                            payload)
                              .status());
  }
  return bytes->size();
}

StatusOr<Payload> Offloader::ExportTail(const BudgetCache& cache, uint32_t page, uint32_t rows) {
  std::vector<std::byte> units(PageBytes());
  for (uint32_t layer = 0; layer < cache.num_layers(); ++layer) {
    QUIRE_RETURN_IF_ERROR(
        ExportPage(cache, layer, page, rows, units.data() + layer * LayerBytes()));
  }
  Payload payload;
  payload.Append(std::move(units));
  return payload;
}

}  // namespace quire::worker
