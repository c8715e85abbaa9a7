// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offload/layer_sender.h"

#include <algorithm>
#include <utility>

namespace quire::worker {

LayerSender::LayerSender(const EngineParts& parts, uint64_t context_id,
                         std::span<const TokenId> tokens, Executor* executor)
    : parts_(parts), tokens_(tokens), exporter_(parts), sender_(parts, context_id, executor) {}

Status LayerSender::Export(const BudgetCache& cache, uint32_t layer, PageRange pages) {
  const uint32_t most = PagesPerBatch(parts_, exporter_.layer_bytes());
  const uint64_t p = parts_.spec->page_tokens;
  for (uint32_t first = pages.first; first < pages.end;) {
    const uint32_t end = first + std::min(most, pages.end - first);
    const auto tokens = tokens_.subspan(first * p, (end - first) * p);
    PageSender::Batch batch{.pages = {first, end},
                            .tokens = {tokens.begin(), tokens.end()},
                            .layer = layer,
                            .units = {}};
    for (uint32_t page = first; page < end; ++page) {
      QUIRE_RETURN_IF_ERROR(ExportPage(cache, layer, page, &batch.units));
    }
    bytes_added_ += batch.bytes();
    QUIRE_RETURN_IF_ERROR(sender_.Add(std::move(batch)));
    first = end;
  }
  return OkStatus();
}

Status LayerSender::ExportPage(const BudgetCache& cache, uint32_t layer, uint32_t page,
                               std::vector<PageSender::Units>* units) {
  const uint64_t bytes = exporter_.layer_bytes();
  if (units->empty() || units->back().bytes + bytes > exporter_.page_bytes()) {
    QUIRE_ASSIGN_OR_RETURN(auto buffer, parts_.unit_buffers->Take());
    units->push_back({.buffer = std::move(buffer), .bytes = 0});
  }
  PageSender::Units& to = units->back();
  QUIRE_RETURN_IF_ERROR(
      exporter_.Export(cache, layer, page, parts_.spec->page_tokens, to.buffer.get(), to.bytes));
  to.bytes += bytes;
  return OkStatus();
}

StatusOr<uint64_t> LayerSender::Finish() {
  QUIRE_RETURN_IF_ERROR(sender_.Finish());
  return bytes_added_;
}

}  // namespace quire::worker
