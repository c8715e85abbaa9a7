// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/payload_scrub.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace quire::kvserver {
namespace {

/// Bytes read at once, under the segment's lock; a larger unit is read by itself.
constexpr uint64_t kPayloadAtOnce = 1 << 20;

bool IsDamage(const Status& status) { return IsDataLoss(status) || IsNotFound(status); }

}  // namespace

void PayloadScrub::Begin() {
  rows_.Begin();
  segment_.reset();
}

StatusOr<std::optional<ScrubStep>> PayloadScrub::Next() {
  ScrubStep step;
  if (segment_) {
    ReadUnits(&step);
    return step;
  }
  std::string key;
  std::string value;
  QUIRE_ASSIGN_OR_RETURN(const bool found, rows_.Next(&key, &value));
  if (!found) return std::nullopt;
  Take(key, std::move(value));
  return step;
}

void PayloadScrub::Take(const std::string& raw_key, std::string value) {
  const auto key = SegmentKey::FromBytes(raw_key);
  if (!key || parts_.catalog->IsDamaged(*key)) return;
  StatusOr<SegmentRecord> record = DecodeSegmentRecord(value);
  if (!record.ok() || record->dram_only) return;  // RecordScrub finds damaged records.
  segment_.emplace(Segment{*key, std::move(value), *std::move(record)});
}

void PayloadScrub::ReadUnits(ScrubStep* step) {
  const SegmentRecord& record = segment_->record;
  const uint32_t units = record.units_per_layer();
  const auto at_once = static_cast<uint32_t>(
      std::clamp<uint64_t>(kPayloadAtOnce / record.stored_unit_bytes(), 1, units));
  const uint32_t end = std::min(units, segment_->unit + at_once);
  const auto guard = parts_.writers->TryAcquire(segment_->key);
  if (!guard || !IsSame()) {
    ++step->counts.skipped;
    segment_.reset();
    return;
  }
  std::vector<SsdTier::UnitRead> reads;
  for (uint32_t unit = segment_->unit; unit < end; ++unit) {
    reads.push_back({.id = {segment_->key, segment_->layer}, .unit = unit});
  }
  parts_.ssd->ReadUnits(reads);
  step->counts.bytes += reads.size() * record.stored_unit_bytes();
  const size_t row = size_t{segment_->layer} * units;
  for (const SsdTier::UnitRead& read : reads) {
    ++step->counts.checked;
    Status status = read.result.status();
    if (status.ok() && read.result->crc32c() != record.unit_crc32c[row + read.unit]) {
      status =
          DataLoss("layer ", segment_->layer, " unit ", read.unit, " is not the one that was put");
    }
    if (IsDamage(status)) {
      FoundDamage(segment_->key, status, step);
      segment_.reset();
      return;
    }
    if (!status.ok()) ++step->counts.errors;
  }
  segment_->unit = end;
  if (end < units) return;
  segment_->unit = 0;
  if (++segment_->layer == record.num_layers()) segment_.reset();
}

bool PayloadScrub::IsSame() const {
  const StatusOr<std::string> now = parts_.database->Get(Table::kSegments, segment_->key.view());
  return now.ok() && *now == segment_->encoded;
}

void PayloadScrub::FoundDamage(const SegmentKey& key, const Status& what, ScrubStep* step) {
  parts_.catalog->MarkDamaged(key);
  ++step->counts.damaged;
  step->found = "segment " + key.Hex() + " on SSD: " + std::string(Message(what)) +
                "; it counts as missing until it is put again";
}

}  // namespace quire::kvserver
