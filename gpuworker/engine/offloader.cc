// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offloader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/payload.h"

namespace quire::worker {

Status Offloader::Export(const BudgetCache& cache, uint32_t layer, PageRange pages) {
  if (pages.size() == 0) return OkStatus();
  if (pending_.size() == 0) {
    pending_ = pages;
    staging_.resize(pages.size() * exporter_.page_bytes());
  }
  if (pages != pending_) {
    return Internal("layer ", layer, " completes pages ", pages.first, " to ", pages.end,
                    ", other layers ", pending_.first, " to ", pending_.end);
  }
  for (uint32_t page = pages.first; page < pages.end; ++page) {
    std::byte* const to = staging_.data() + (page - pages.first) * exporter_.page_bytes() +
                          layer * exporter_.layer_bytes();
    QUIRE_RETURN_IF_ERROR(exporter_.Export(cache, layer, page, parts_.spec->page_tokens, to));
    if (policy_ == nullptr) continue;
    QUIRE_RETURN_IF_ERROR(policy_->OnPageComplete(layer, page, exporter_.units()));
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
  const uint64_t page_bytes = exporter_.page_bytes();
  const uint32_t batch = PagesPerBatch(parts_, page_bytes);
  for (uint32_t at = 0; at < pages.size(); at += batch) {
    const uint32_t count = std::min(batch, pages.size() - at);
    Payload payload;
    payload.Append(Slice{std::span(*bytes).subspan(at * page_bytes, count * page_bytes), bytes});
    QUIRE_RETURN_IF_ERROR(parts_.client
                              ->AppendPages(context_id, pages.first + at,
                                            tokens.subspan(uint64_t{at} * p, uint64_t{count} * p),
                                            payload)
                              .status());
  }
  return bytes->size();
}

}  // namespace quire::worker
