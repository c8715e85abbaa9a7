// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/held_digest_scrub.h"

#include <string>

#include "common/base/memory/checksum.h"

namespace quire::kvserver {

StatusOr<std::optional<ScrubStep>> HeldDigestScrub::Next() {
  if (blocks_.empty()) return std::nullopt;
  const ResidentBytes block = blocks_.back().lock();
  blocks_.pop_back();
  ScrubStep step;
  if (block == nullptr || block->damaged()) return step;  // Released, or already marked.
  step.counts.bytes = block->bytes().size();
  step.counts.checked = 1;
  if (Crc32c(block->bytes()) == block->crc32c()) return step;
  table_->Drop(block);
  step.counts.damaged = 1;
  step.counts.mended = 1;
  step.found = "digests of segment " + block->id().id.extent.segment.Hex() + " layer " +
               std::to_string(block->id().id.extent.layer) +
               " in memory: those of the store are used instead";
  return step;
}

}  // namespace quire::kvserver
