// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/repair/record_scrub.h"

#include <string>

#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/ssd/extent_record.h"

namespace quire::kvserver {
namespace {

/// Rows and bytes that one step reads.
constexpr size_t kRowsAtOnce = 256;
constexpr uint64_t kRowBytesAtOnce = 64 << 10;

}  // namespace

RecordScrub::RecordScrub(const Parts& parts) : parts_(parts) {
  const std::pair<Table, std::string_view> tables[] = {{Table::kSegments, "segments"},
                                                       {Table::kExtents, "extents"},
                                                       {Table::kTenants, "tenants"},
                                                       {Table::kMetadata, "metadata"}};
  for (const auto& [table, name] : tables) {
    tables_.push_back({table, name, RowCursor(parts.database, table)});
  }
}

void RecordScrub::Begin() {
  table_ = 0;
  has_damaged_records_ = false;
  for (TableRows& from : tables_) from.rows.Begin();
}

StatusOr<std::optional<ScrubStep>> RecordScrub::Next() {
  if (table_ == tables_.size()) {
    if (parts_.health != nullptr && !has_damaged_records_) {
      parts_.health->Clear(Trouble::kRecordsDamaged);
    }
    return std::nullopt;
  }
  TableRows& from = tables_[table_];
  ScrubStep step;
  std::vector<std::string> damaged;
  const auto visit = [&](std::string_view key, std::string_view value) {
    if (!Check(from.table, key, value, &step)) damaged.emplace_back(key);
    return step.counts.checked < kRowsAtOnce && step.counts.bytes < kRowBytesAtOnce;
  };
  const StatusOr<size_t> rows = from.rows.Visit(visit);
  for (const std::string& key : damaged) FoundDamage(from, key, &step);
  if (!rows.ok()) {
    // The rest of the table is unreachable from here; the other tables can be read.
    ++step.counts.errors;
    if (absl::IsDataLoss(rows.status())) ++step.counts.damaged;
    step.found = "table " + std::string(from.name) +
                 " cannot be read to its end: " + std::string(Message(rows.status()));
    Raise(step.found);
  }
  if (!rows.ok() || *rows == 0) ++table_;
  return step;
}

void RecordScrub::Raise(const std::string& found) {
  has_damaged_records_ = true;
  if (parts_.health != nullptr) parts_.health->Raise(Trouble::kRecordsDamaged, found);
}

bool RecordScrub::Check(Table table, std::string_view key, std::string_view value,
                        ScrubStep* step) const {
  ++step->counts.checked;
  step->counts.bytes += key.size() + value.size();
  return !absl::IsDataLoss(Verify(table, key, value));
}

void RecordScrub::FoundDamage(const TableRows& from, const std::string& key, ScrubStep* step) {
  const bool of_segment = from.table == Table::kSegments || from.table == Table::kExtents;
  const auto segment = SegmentKey::FromBytes(key.substr(0, sizeof(SegmentKey::bytes)));
  if (of_segment && (!segment || parts_.catalog->IsDamaged(*segment))) return;
  const auto guard = of_segment ? parts_.writers->TryAcquire(*segment) : std::nullopt;
  const StatusOr<std::string> now = parts_.database->Get(from.table, key);
  if ((of_segment && !guard) || !now.ok()) {
    ++step->counts.skipped;
    return;
  }
  const Status status = Verify(from.table, key, *now);
  if (!absl::IsDataLoss(status)) return;
  std::string what = "a record of table " + std::string(from.name);
  if (of_segment) {
    parts_.catalog->MarkDamaged(*segment);
    what += ", of segment " + segment->Hex() + ", which counts as missing until it is put again";
  }
  ++step->counts.damaged;
  step->found = what + ": " + std::string(Message(status));
  if (!of_segment) Raise(step->found);
}

Status RecordScrub::Verify(Table table, std::string_view key, std::string_view value) const {
  switch (table) {
    case Table::kSegments:
      return DecodeSegmentRecord(value).status();
    case Table::kExtents:
      return DecodeExtentRecord(value).status();
    case Table::kTenants:
      if (VerifyTrailer(value)) return OkStatus();
      return DataLoss("the salt of tenant '", key,
                      "' is damaged; restore the directory from a backup before a restart");
    case Table::kMetadata:
      return parts_.check_metadata == nullptr ? OkStatus() : parts_.check_metadata(key, value);
    case Table::kDigests:
      break;
  }
  return OkStatus();
}

}  // namespace quire::kvserver
