// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offloader.h"

#include <algorithm>
#include <utility>

namespace quire::worker {

Status Offloader::Export(const BudgetCache& cache, uint32_t layer, PageRange pages) {
  if (pages.size() == 0) return OkStatus();
  if (pending_.size() == 0) {
    pending_ = pages;
    staging_.resize(pages.size());
    for (std::shared_ptr<UnitBuffer>& buffer : staging_) {
      QUIRE_ASSIGN_OR_RETURN(buffer, parts_.unit_buffers->Take());
    }
  }
  if (pages != pending_) {
    return Internal("layer ", layer, " completes pages ", pages.first, " to ", pages.end,
                    ", other layers ", pending_.first, " to ", pending_.end);
  }
  for (uint32_t page = pages.first; page < pages.end; ++page) {
    QUIRE_RETURN_IF_ERROR(exporter_.Export(cache, layer, page, parts_.spec->page_tokens,
                                           staging_[page - pages.first].get(),
                                           layer * exporter_.layer_bytes()));
    if (policy_ == nullptr) continue;
    QUIRE_RETURN_IF_ERROR(policy_->OnPageComplete(layer, page, exporter_.units()));
  }
  return OkStatus();
}

StatusOr<uint64_t> Offloader::Flush(std::span<const TokenId> tokens) {
  const uint64_t p = parts_.spec->page_tokens;
  if (tokens.size() != pending_.size() * p) {
    return Internal(tokens.size(), " token ids for ", pending_.size(), " pages");
  }
  QUIRE_RETURN_IF_ERROR(sender_.Await(0));
  const PageRange pages = std::exchange(pending_, {});
  const uint32_t most = PagesPerBatch(parts_, exporter_.page_bytes());
  for (uint32_t at = 0; at < pages.size();) {
    const uint32_t end = at + std::min(most, pages.size() - at);
    const auto own = tokens.subspan(at * p, (end - at) * p);
    PageSender::Batch batch{.pages = {pages.first + at, pages.first + end},
                            .tokens = {own.begin(), own.end()},
                            .layer = {},
                            .units = {}};
    for (; at < end; ++at) {
      batch.units.push_back({.buffer = std::move(staging_[at]), .bytes = exporter_.page_bytes()});
    }
    QUIRE_RETURN_IF_ERROR(sender_.Add(std::move(batch)));
  }
  return pages.size() * exporter_.page_bytes();
}

}  // namespace quire::worker
