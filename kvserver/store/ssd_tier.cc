// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/ssd_tier.h"

#include <memory>
#include <utility>

#include "common/base/checksum.h"
#include "kvserver/store/checked_value.h"

namespace quire::kvserver {
namespace {

void AppendBigEndian(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

std::string ExtentKey(const ExtentId& id) {
  std::string key(id.segment.view());
  AppendBigEndian(id.layer, key);
  return key;
}

}  // namespace

std::string SsdTier::UnitKey(const ExtentId& id, uint32_t unit) {
  std::string key = ExtentKey(id);
  AppendBigEndian(unit, key);
  return key;
}

void SsdTier::StagePut(std::span<const ExtentView> extents, Database::Batch& batch) {
  for (const ExtentView& extent : extents) {
    for (uint32_t unit = 0; unit < extent.unit_crc32c.size(); ++unit) {
      const auto bytes = extent.bytes.subspan(unit * extent.unit_bytes(), extent.unit_bytes());
      const auto trailer = EncodeTrailer(extent.unit_crc32c[unit]);
      batch.Put(Table::kUnits, UnitKey(extent.id, unit), {AsText(bytes), AsText(trailer)});
    }
    write_bytes_.Add(extent.bytes.size());
  }
}

void SsdTier::StageErase(const SegmentKey& segment, Database::Batch& batch) {
  batch.DeletePrefix(Table::kUnits, segment.view());
}

Status SsdTier::Put(std::span<const ExtentView> extents) {
  for (const ExtentView& extent : extents) QUIRE_RETURN_IF_ERROR(CheckShape(extent));
  Database::Batch batch = database_->NewBatch();
  StagePut(extents, batch);
  return database_->Commit(batch, /*sync=*/false);
}

Status SsdTier::Erase(const SegmentKey& segment) {
  Database::Batch batch = database_->NewBatch();
  StageErase(segment, batch);
  return database_->Commit(batch, /*sync=*/false);
}

StatusOr<UnitBytes> SsdTier::ReadUnit(const ExtentId& id, uint32_t unit) {
  StatusOr<std::string> value = database_->Get(Table::kUnits, UnitKey(id, unit));
  if (!value.ok()) {
    if (value.status().code() == StatusCode::kDataLoss) checksum_failures_.Add();
    return value.status();
  }
  unit_reads_.Add();
  read_bytes_.Add(value->size());
  const auto owner = std::make_shared<const std::string>(*std::move(value));
  const auto checked = VerifyTrailer(*owner);
  if (!checked) {
    checksum_failures_.Add();
    return DataLoss("segment ", id.segment.Hex(), " layer ", id.layer, " unit ", unit,
                    ": the bytes on SSD fail their checksum; put the segment again");
  }
  return UnitBytes{.slice = {.bytes = checked->bytes, .owner = owner}, .crc32c = checked->crc32c};
}

StatusOr<bool> SsdTier::Has(const ExtentId& id) {
  const std::string prefix = ExtentKey(id);
  bool found = false;
  QUIRE_RETURN_IF_ERROR(
      database_->Scan(Table::kUnits, prefix, [&](std::string_view key, std::string_view) {
        found = key.starts_with(prefix);
        return false;
      }));
  return found;
}

void SsdTier::VisitCounters(const CounterVisitor& visit) const {
  visit("ssd_unit_reads", unit_reads_.Get());
  visit("ssd_read_bytes", read_bytes_.Get());
  visit("ssd_write_bytes", write_bytes_.Get());
  visit("ssd_checksum_failures", checksum_failures_.Get());
}

}  // namespace quire::kvserver
