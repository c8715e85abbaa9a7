// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/ssd_tier.h"

#include <algorithm>
#include <array>
#include <optional>

#include "common/base/checksum.h"

namespace quire::kvserver {
namespace {

void AppendBigEndian(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

/// What an extent is followed by, so that the next one starts with a block.
std::span<const std::byte> Padding(uint64_t bytes) {
  static constexpr std::array<std::byte, kBlockBytes> kZeros{};
  return std::span(kZeros).first(RoundUp(bytes, kBlockBytes) - bytes);
}

/// Takes the blocks of the next `bytes` bytes off the front of `runs`.
Location TakeFront(uint64_t bytes, std::span<BlockRun>& runs) {
  Location part{.runs = {}, .bytes = bytes};
  for (uint64_t left = RoundUp(bytes, kBlockBytes); left > 0;) {
    BlockRun& run = runs.front();
    const uint64_t length = std::min(left, run.length);
    part.runs.push_back({run.volume, run.offset, length});
    run.offset += length;
    run.length -= length;
    left -= length;
    if (run.length == 0) runs = runs.subspan(1);
  }
  return part;
}

}  // namespace

std::string SsdTier::RecordKey(const ExtentId& id) {
  std::string key(id.segment.view());
  AppendBigEndian(id.layer, key);
  return key;
}

SsdTier::Change::~Change() {
  if (payload_ == nullptr) return;
  for (const Location& location : written_) payload_->Release(location);
}

void SsdTier::Change::Committed() {
  for (const Location& location : replaced_) payload_->Release(location);
  payload_ = nullptr;
}

StatusOr<SsdTier::Change> SsdTier::StagePut(std::span<const ExtentView> extents, bool sync,
                                            Database::Batch& batch) {
  Change change(payload_);
  std::vector<std::span<const std::byte>> spans;
  uint64_t bytes = 0;
  for (const ExtentView& extent : extents) {
    const StatusOr<ExtentRecord> before = FindRecord(extent.id);
    if (before.ok()) change.replaced_.push_back(before->location);
    spans.push_back(extent.bytes);
    if (const auto padding = Padding(extent.bytes.size()); !padding.empty()) {
      spans.push_back(padding);
    }
    bytes += extent.bytes.size();
  }
  QUIRE_ASSIGN_OR_RETURN(Location location, payload_->Write(spans));
  std::span<BlockRun> runs(location.runs);
  for (const ExtentView& extent : extents) {
    change.written_.push_back(TakeFront(extent.bytes.size(), runs));
    const ExtentRecord record{
        .location = change.written_.back(),
        .unit_crc32c = {extent.unit_crc32c.begin(), extent.unit_crc32c.end()}};
    batch.Put(Table::kExtents, RecordKey(extent.id), {EncodeExtentRecord(record)});
  }
  if (sync) QUIRE_RETURN_IF_ERROR(payload_->Sync());
  write_bytes_.Add(bytes);
  return change;
}

StatusOr<std::vector<Location>> SsdTier::LocationsOf(const SegmentKey& segment) {
  std::vector<Location> locations;
  QUIRE_RETURN_IF_ERROR(database_->Scan(
      Table::kExtents, segment.view(), [&](std::string_view key, std::string_view value) {
        if (!key.starts_with(segment.view())) return false;
        if (StatusOr<ExtentRecord> record = DecodeExtentRecord(value); record.ok()) {
          locations.push_back(std::move(record->location));
        }
        return true;
      }));
  return locations;
}

StatusOr<SsdTier::Change> SsdTier::StageErase(const SegmentKey& segment, Database::Batch& batch) {
  Change change(payload_);
  QUIRE_ASSIGN_OR_RETURN(change.replaced_, LocationsOf(segment));
  batch.DeletePrefix(Table::kExtents, segment.view());
  return change;
}

Status SsdTier::Finish(Database::Batch& batch, StatusOr<Change> change) {
  QUIRE_RETURN_IF_ERROR(change.status());
  QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/false));
  change->Committed();
  return OkStatus();
}

Status SsdTier::Put(std::span<const ExtentView> extents) {
  for (const ExtentView& extent : extents) QUIRE_RETURN_IF_ERROR(CheckShape(extent));
  Database::Batch batch = database_->NewBatch();
  return Finish(batch, StagePut(extents, /*sync=*/false, batch));
}

Status SsdTier::Erase(const SegmentKey& segment) {
  Database::Batch batch = database_->NewBatch();
  return Finish(batch, StageErase(segment, batch));
}

StatusOr<ExtentRecord> SsdTier::FindRecord(const ExtentId& id) {
  QUIRE_ASSIGN_OR_RETURN(const std::string value, database_->Get(Table::kExtents, RecordKey(id)));
  return DecodeExtentRecord(value);
}

StatusOr<bool> SsdTier::Has(const ExtentId& id) {
  const StatusOr<std::string> value = database_->Get(Table::kExtents, RecordKey(id));
  if (value.status().code() == StatusCode::kNotFound) return false;
  QUIRE_RETURN_IF_ERROR(value.status());
  return true;
}

StatusOr<UnitBytes> SsdTier::ReadUnit(const ExtentId& id, uint32_t unit) {
  UnitRead read{.id = id, .unit = unit};
  ReadUnits({&read, 1});
  return std::move(read.result);
}

/// The record of one extent, and how to read its units.
struct SsdTier::Lookup {
  ExtentId id;
  StatusOr<ExtentRecord> record;
};

void SsdTier::ReadUnits(std::span<UnitRead> reads) {
  const PayloadStore::ReadGuard guard = payload_->StartReading();  // Before any record is read.
  std::vector<std::unique_ptr<Lookup>> lookups;
  struct Planned {
    UnitRead* read = nullptr;
    uint32_t crc32c = 0;
    AlignedBuffer buffer;
  };
  std::vector<Planned> planned;
  std::vector<ReadRequest> requests;
  planned.reserve(reads.size());
  requests.reserve(reads.size());
  for (UnitRead& read : reads) {
    if (lookups.empty() || lookups.back()->id != read.id) {
      lookups.push_back(std::make_unique<Lookup>(Lookup{read.id, FindRecord(read.id)}));
    }
    const StatusOr<ExtentRecord>& record = lookups.back()->record;
    if (!record.ok()) {
      read.result = record.status();
    } else if (read.unit >= record->unit_crc32c.size()) {
      read.result = NotFound("segment ", read.id.segment.Hex(), " layer ", read.id.layer,
                             " has no unit ", read.unit);
    } else if (StatusOr<AlignedBuffer> buffer = payload_->buffers().Take(record->unit_bytes());
               !buffer.ok()) {
      read.result = buffer.status();
    } else {
      requests.push_back({.location = &record->location,
                          .offset = read.unit * record->unit_bytes(),
                          .destination = buffer->bytes(),
                          .status = OkStatus()});
      planned.push_back({&read, record->unit_crc32c[read.unit], *std::move(buffer)});
    }
  }
  (void)payload_->Read(guard, requests);  // Each request has its own status.
  for (size_t i = 0; i < planned.size(); ++i) {
    Planned& plan = planned[i];
    if (requests[i].status.ok()) {
      plan.read->result = Verified(*plan.read, std::move(plan.buffer), plan.crc32c);
    } else {
      plan.read->result = Annotate(requests[i].status, "segment ", plan.read->id.segment.Hex(),
                                   " layer ", plan.read->id.layer, " unit ", plan.read->unit);
    }
  }
  for (const UnitRead& read : reads) {
    if (read.result.status().code() == StatusCode::kDataLoss) checksum_failures_.Add();
  }
}

StatusOr<UnitBytes> SsdTier::Verified(const UnitRead& read, AlignedBuffer buffer, uint32_t crc32c) {
  unit_reads_.Add();
  read_bytes_.Add(buffer.bytes().size());
  if (Crc32c(buffer.bytes()) != crc32c) {
    return DataLoss("segment ", read.id.segment.Hex(), " layer ", read.id.layer, " unit ",
                    read.unit, ": the bytes on SSD fail their checksum; put the segment again");
  }
  return UnitBytes{.slice = std::move(buffer).ToSlice(), .crc32c = crc32c};
}

StatusOr<SsdTier::Recovered> SsdTier::Recover() {
  Recovered recovered;
  Database::Batch drop = database_->NewBatch();
  Status newer = OkStatus();
  QUIRE_RETURN_IF_ERROR(
      database_->Scan(Table::kExtents, "", [&](std::string_view key, std::string_view value) {
        const StatusOr<ExtentRecord> record = DecodeExtentRecord(value);
        if (record.status().code() == StatusCode::kFailedPrecondition) {
          newer = record.status();
          return false;
        }
        const StatusOr<uint64_t> lost =
            record.ok() ? payload_->Recover(record->location) : record.status();
        if (lost.ok()) {
          ++recovered.extents;
          recovered.lost_bytes += *lost;
        } else {
          drop.Delete(Table::kExtents, key);
          ++recovered.dropped;
        }
        return true;
      }));
  QUIRE_RETURN_IF_ERROR(newer);
  if (recovered.dropped > 0) QUIRE_RETURN_IF_ERROR(database_->Commit(drop, /*sync=*/true));
  payload_->FinishRecovery();
  return recovered;
}

void SsdTier::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("ssd_unit_reads", "Units read from SSD.", unit_reads_.Get());
  visit.Counter("ssd_read_bytes", "Payload of units read from SSD.", read_bytes_.Get());
  visit.Counter("ssd_write_bytes", "Payload of extents written to SSD.", write_bytes_.Get());
  visit.Counter("ssd_checksum_failures", "Units whose bytes on SSD were not those that were put.",
                checksum_failures_.Get());
}

}  // namespace quire::kvserver
