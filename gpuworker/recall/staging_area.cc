// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/staging_area.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/wire/limits.h"

namespace quire::worker {

Status StagingArea::Reserve(uint32_t sequence) {
  if (landing_ == nullptr && !session_->LandsDirectly()) return OkStatus();
  if (landing_ != nullptr && sequence < landing_->num_sequences()) return OkStatus();
  // Doubled, so that a batch that fills up makes few of them.
  const uint32_t sequences = std::min(std::bit_ceil(sequence + 1), wire::kMaxSequences);
  auto landing = session_->MakeLanding(sequences);
  if (!landing.ok()) {
    return Annotate(landing.status(), "memory for the server to write ", sequences,
                    " sequences' units into (recalls in messages need none: --transport ucx)");
  }
  landing_ = *std::move(landing);
  return OkStatus();
}

}  // namespace quire::worker
