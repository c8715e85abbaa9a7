// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/digest_scrub.h"

#include <string>

#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {

StatusOr<std::optional<ScrubStep>> DigestScrub::Next() {
  std::string key;
  std::string value;
  QUIRE_ASSIGN_OR_RETURN(const bool found, rows_.Next(&key, &value));
  if (!found) return std::nullopt;
  ScrubStep step{.counts = {.bytes = value.size(), .checked = 1}};
  if (VerifyTrailer(value)) return step;
  const std::optional<DigestId> id = DigestStore::IdOf(key);
  if (!id) return step;  // Belongs to no segment; fsck reports it.
  const Status mended = Mend(*id);
  if (absl::IsNotFound(mended)) return step;
  ++step.counts.damaged;
  if (mended.ok()) ++step.counts.mended;
  step.found = "digests of kind " + std::to_string(static_cast<int>(id->kind)) + " of segment " +
               id->extent.segment.Hex() + " layer " + std::to_string(id->extent.layer) + ": " +
               (mended.ok() ? "they were made anew" : std::string(Message(mended)));
  return step;
}

Status DigestScrub::Mend(const DigestId& id) {
  QUIRE_ASSIGN_OR_RETURN(const std::string row,
                         parts_.database->Get(Table::kSegments, id.extent.segment.view()));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecord record, DecodeSegmentRecord(row));
  if (id.extent.layer >= record.spec.num_layers) return NotFound("the segment has no such layer");
  return parts_.deriver->Mend(id, record);
}

}  // namespace quire::kvserver
