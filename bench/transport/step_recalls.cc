// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/step_recalls.h"

#include <algorithm>
#include <utility>

namespace quire::bench {

StatusOr<std::unique_ptr<StepRecalls>> StepRecalls::Open(Client* client, const SegmentKey& document,
                                                         const RecallShape& shape, uint32_t units) {
  if (2 * units > shape.pages) {
    return InvalidArgument("a document of ", shape.pages, " pages is too small for recalls of ",
                           units, " units");
  }
  std::unique_ptr<StepRecalls> self(new StepRecalls(shape, units));
  QUIRE_ASSIGN_OR_RETURN(
      self->session_, client->OpenSession(document, {.spec = shape.spec, .slots_per_head = units}));
  if (self->session_->LandsDirectly()) {
    QUIRE_ASSIGN_OR_RETURN(self->landing_, self->session_->MakeLanding());
  }
  return self;
}

void StepRecalls::Prepare() {
  const std::vector<uint32_t>& before = resident_[layer_];
  std::vector<uint32_t> pages;
  while (pages.size() < units_) {
    const auto page = static_cast<uint32_t>(random_.Below(shape_.pages));
    if (std::ranges::binary_search(before, page)) continue;
    const auto at = std::ranges::lower_bound(pages, page);
    if (at == pages.end() || *at != page) pages.insert(at, page);
  }
  wants_.assign(1, {.layer = layer_});
  wants_.front().pages.AppendHead(pages);
  resident_[layer_] = std::move(pages);
  layer_ = (layer_ + 1) % shape_.spec.num_layers;
}

Status StepRecalls::Run() {
  QUIRE_ASSIGN_OR_RETURN(const auto recall,
                         session_->Start(wants_, {.landing = landing_.get(), .verify = false}));
  uint64_t units = 0;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<RecallPart> part, recall->Next());
    if (!part) break;
    QUIRE_RETURN_IF_ERROR(slots_.Fill(*part));
    session_->Applied(*part);
    units += part->placements.size();
  }
  if (units == units_) return OkStatus();
  return Internal("a recall moved ", units, " units instead of ", units_);
}

}  // namespace quire::bench
