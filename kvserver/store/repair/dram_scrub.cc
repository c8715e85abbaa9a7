// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/dram_scrub.h"

#include <string>

namespace quire::kvserver {

void DramScrub::Begin() {
  cursor_ = {};
  extents_.clear();
}

StatusOr<std::optional<ScrubStep>> DramScrub::Next() {
  ScrubStep step;
  if (extents_.empty()) {
    if (!parts_.dram->Walk(&cursor_, &extents_)) return std::nullopt;
    return step;
  }
  const ExtentId id = extents_.back();
  extents_.pop_back();
  std::string tenant;
  {
    const ResidentPtr resident = parts_.dram->Get(id);
    if (resident == nullptr) return step;  // It has left DRAM.
    step.counts.bytes = resident->size_bytes();
    step.counts.checked = resident->num_units();
    if (resident->Verify()) return step;
    tenant = resident->tenant();
  }
  // Release the damaged extent first: its replacement may need the room.
  Mend(tenant, id, &step);
  return step;
}

void DramScrub::Mend(std::string_view tenant, const ExtentId& id, ScrubStep* step) {
  const StatusOr<bool> mended = parts_.reader->MendExtent({tenant, Priority::kPrefetch}, id);
  // Another reader repaired it, or the segment is gone.
  if ((mended.ok() && !*mended) || absl::IsNotFound(mended.status())) return;
  ++step->counts.damaged;
  const bool whole = mended.ok() && !parts_.catalog->IsDamaged(id.segment);
  if (whole) ++step->counts.mended;
  step->found = "segment " + id.segment.Hex() + " layer " + std::to_string(id.layer) +
                " in DRAM: " +
                (whole         ? std::string("it was read from SSD again")
                 : mended.ok() ? std::string("and it is damaged on SSD; put it again")
                               : std::string(Message(mended.status())));
}

}  // namespace quire::kvserver
