// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offload/offloader.h"

#include <algorithm>
#include <utility>

namespace quire::worker {

Status Offloader::Expect(uint32_t layer, PageRange pages) {
  if (pending_.size() == 0) pending_ = {pages.first, pages.first};
  if (pages.first < pending_.first || pages.first > pending_.end) {
    return Internal("layer ", layer, " completes pages ", pages.first, " to ", pages.end,
                    ", other layers ", pending_.first, " to ", pending_.end);
  }
  for (; pending_.end < pages.end; ++pending_.end) {
    QUIRE_ASSIGN_OR_RETURN(staging_.emplace_back(), parts_.unit_buffers->Take());
  }
  return OkStatus();
}

Status Offloader::ExportBy(JointWork* work, const BudgetCache& cache, uint32_t layer,
                           PageRange pages) {
  if (pages.size() != 1) return Export(cache, layer, pages);
  QUIRE_RETURN_IF_ERROR(Expect(layer, pages));
  QUIRE_ASSIGN_OR_RETURN(void* const units, exporter_.Units());
  QUIRE_RETURN_IF_ERROR(cache.AddPage(layer, pages.first, units, work));
  joint_page_ = {.layer = layer, .page = pages.first, .observed = observer_ == nullptr};
  if (observer_ == nullptr) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(joint_page_->observed,
                         observer_->AddPage(layer, pages.first, units, work));
  return OkStatus();
}

Status Offloader::OnLaunched() {
  if (!joint_page_) return OkStatus();
  const JointPage page = *std::exchange(joint_page_, std::nullopt);
  QUIRE_RETURN_IF_ERROR(exporter_.CopyUnits(staging_[page.page - pending_.first].get(),
                                            page.layer * exporter_.layer_bytes()));
  ++exported_;
  if (page.observed) return OkStatus();
  return observer_->OnPageComplete(page.layer, page.page, exporter_.units());
}

Status Offloader::Export(const BudgetCache& cache, uint32_t layer, PageRange pages) {
  if (pages.size() == 0) return OkStatus();
  QUIRE_RETURN_IF_ERROR(Expect(layer, pages));
  for (uint32_t page = pages.first; page < pages.end; ++page) {
    QUIRE_RETURN_IF_ERROR(exporter_.Export(cache, layer, page, parts_.spec->page_tokens,
                                           staging_[page - pending_.first].get(),
                                           layer * exporter_.layer_bytes()));
    ++exported_;
    if (observer_ == nullptr) continue;
    QUIRE_RETURN_IF_ERROR(observer_->OnPageComplete(layer, page, exporter_.units()));
  }
  return OkStatus();
}

StatusOr<uint64_t> Offloader::Flush(std::span<const TokenId> tokens) {
  const uint64_t p = parts_.spec->page_tokens;
  if (tokens.size() != pending_.size() * p) {
    return Internal(tokens.size(), " token ids for ", pending_.size(), " pages");
  }
  const uint64_t wanted = uint64_t{pending_.size()} * parts_.spec->num_layers;
  if (exported_ != wanted) {
    return Internal("layers completed ", exported_, " pages together, not ", wanted);
  }
  exported_ = 0;
  QUIRE_RETURN_IF_ERROR(sender_.Await(0));
  const PageRange pages = std::exchange(pending_, {});
  const auto staged = std::exchange(staging_, {});
  const uint32_t most = PagesPerBatch(parts_, exporter_.page_bytes());
  for (uint32_t at = 0; at < pages.size();) {
    const uint32_t end = at + std::min(most, pages.size() - at);
    const auto own = tokens.subspan(at * p, (end - at) * p);
    PageSender::Batch batch{.pages = {pages.first + at, pages.first + end},
                            .tokens = {own.begin(), own.end()},
                            .layer = {},
                            .units = {}};
    for (; at < end; ++at) {
      batch.units.push_back({.buffer = staged[at], .bytes = exporter_.page_bytes()});
    }
    QUIRE_RETURN_IF_ERROR(sender_.Add(std::move(batch)));
  }
  return pages.size() * exporter_.page_bytes();
}

}  // namespace quire::worker
