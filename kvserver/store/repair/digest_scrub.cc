// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/digest_scrub.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {

namespace {

/// Bytes read at once; the digests of a larger layer are read by themselves.
constexpr uint64_t kBytesAtOnce = 1 << 20;

}  // namespace

void DigestScrub::Begin() {
  rows_.Begin();
  segments_.Begin();
  segment_.reset();
}

StatusOr<std::optional<ScrubStep>> DigestScrub::Next() {
  QUIRE_ASSIGN_OR_RETURN(std::optional<ScrubStep> step, NextRow());
  if (step) return step;
  return NextOfExtents();
}

StatusOr<std::optional<ScrubStep>> DigestScrub::NextRow() {
  std::string key;
  std::string value;
  QUIRE_ASSIGN_OR_RETURN(const bool found, rows_.Next(&key, &value));
  if (!found) return std::nullopt;
  ScrubStep step{.counts = {.bytes = value.size(), .checked = 1}};
  const std::optional<DigestId> id = DigestStore::IdOf(key);
  // Digests of another key belong to no segment; fsck reports them.
  if (!VerifyTrailer(value) && id) FoundDamage(*id, &step);
  return step;
}

StatusOr<std::optional<ScrubStep>> DigestScrub::NextOfExtents() {
  ScrubStep step;
  if (segment_) {
    ReadLayers(&step);
    return step;
  }
  std::string key;
  std::string value;
  QUIRE_ASSIGN_OR_RETURN(const bool found, segments_.Next(&key, &value));
  if (!found) return std::nullopt;
  const auto segment = SegmentKey::FromBytes(key);
  const StatusOr<SegmentRecord> record = DecodeSegmentRecord(value);
  // RecordScrub finds damaged records.
  if (!segment || !record.ok() || record->dram_only || record->object) return step;
  segment_ = {.key = *segment,
              .layers = record->spec.num_layers,
              .bytes_per_layer = DigestBytesPerLayer(*record, kernels::DigestKind::kMinMax)};
  return step;
}

void DigestScrub::ReadLayers(ScrubStep* step) {
  const uint64_t at_once = std::max<uint64_t>(kBytesAtOnce / segment_->bytes_per_layer, 1);
  const auto end =
      static_cast<uint32_t>(std::min<uint64_t>(segment_->layers, segment_->layer + at_once));
  std::vector<SsdTier::UnitRead> reads;
  for (uint32_t layer = segment_->layer; layer < end; ++layer) {
    reads.push_back({.id = {segment_->key, kDigestsLayer}, .unit = layer});
  }
  parts_.ssd->ReadUnits(reads);
  for (const SsdTier::UnitRead& read : reads) {
    const Status& status = read.result.status();
    // Older segments, and those that were only in DRAM, have rows instead.
    if (IsNotFound(status)) continue;
    ++step->counts.checked;
    step->counts.bytes += segment_->bytes_per_layer;
    const DigestId id{{segment_->key, read.unit}};
    if (IsDataLoss(status)) {
      if (!HasRow(id)) FoundDamage(id, step);
    } else if (!status.ok()) {
      ++step->counts.errors;
    }
  }
  segment_->layer = end;
  if (end == segment_->layers) segment_.reset();
}

bool DigestScrub::HasRow(const DigestId& id) const {
  const StatusOr<std::string> row = parts_.database->Get(Table::kDigests, DigestStore::KeyOf(id));
  return row.ok() && VerifyTrailer(*row);
}

void DigestScrub::FoundDamage(const DigestId& id, ScrubStep* step) {
  const Status mended = Mend(id);
  if (IsNotFound(mended)) return;
  ++step->counts.damaged;
  if (mended.ok()) ++step->counts.mended;
  step->found = "digests of kind " + std::to_string(static_cast<int>(id.kind)) + " of segment " +
                id.extent.segment.Hex() + " layer " + std::to_string(id.extent.layer) + ": " +
                (mended.ok() ? "they were made anew" : std::string(Message(mended)));
}

Status DigestScrub::Mend(const DigestId& id) {
  QUIRE_ASSIGN_OR_RETURN(const std::string row,
                         parts_.database->Get(Table::kSegments, id.extent.segment.view()));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecord record, DecodeSegmentRecord(row));
  if (id.extent.layer >= record.num_digest_layers())
    return NotFound("the segment has no such layer");
  return parts_.deriver->Mend(id, record);
}

}  // namespace quire::kvserver
