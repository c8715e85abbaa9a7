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

/// The layer in the key of an extent's record; nullopt for another key.
std::optional<uint32_t> LayerOf(std::string_view record_key) {
  if (record_key.size() != sizeof(SegmentKey::bytes) + sizeof(uint32_t)) return std::nullopt;
  uint32_t layer = 0;
  for (const char byte : record_key.substr(sizeof(SegmentKey::bytes))) {
    layer = layer << 8 | static_cast<uint8_t>(byte);
  }
  return layer;
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
  if (tier_ == nullptr) return;
  for (const Location& location : written_) tier_->payload_->Release(location);
}

// The record leaves the cache before its space is released: who finds it there has a guard that is
// older than the release, and may read.
void SsdTier::Change::Committed() {
  for (const auto& [id, location] : replaced_) {
    tier_->records_.Invalidate(id);
    tier_->payload_->Release(location);
  }
  tier_ = nullptr;
}

namespace {

/// What an extent becomes on SSD.
struct OnSsd {
  ExtentRecord record;  // without its location
  std::span<const std::byte> bytes;
  std::vector<std::byte> container;  // owns `bytes` of a packed extent
};

StatusOr<OnSsd> Prepare(const ExtentView& extent) {
  OnSsd out;
  out.record.unit_crc32c.assign(extent.unit_crc32c.begin(), extent.unit_crc32c.end());
  out.bytes = extent.bytes;
  if (!extent.entropy) return out;
  const EntropyShape shape{.units = static_cast<uint32_t>(extent.unit_crc32c.size()),
                           .unit_bytes = static_cast<uint32_t>(extent.unit_bytes())};
  QUIRE_ASSIGN_OR_RETURN(out.container, EncodeEntropy(extent.bytes, shape));
  const std::span<const std::byte> container(out.container);
  const auto table = container.first(shape.table_bytes());
  out.record.packed = {.unit_bytes = shape.unit_bytes, .table = {table.begin(), table.end()}};
  out.bytes = container.subspan(table.size());
  return out;
}

}  // namespace

StatusOr<SsdTier::Change> SsdTier::StagePut(std::span<const ExtentView> extents, bool sync,
                                            Database::Batch& batch) {
  Change change(this);
  std::vector<OnSsd> prepared;
  std::vector<std::span<const std::byte>> spans;
  uint64_t bytes = 0;
  for (const ExtentView& extent : extents) {
    const StatusOr<ExtentRecord> before = FindRecord(extent.id);
    if (before.ok()) change.replaced_.emplace_back(extent.id, before->location);
    QUIRE_ASSIGN_OR_RETURN(OnSsd on_ssd, Prepare(extent));
    spans.push_back(on_ssd.bytes);
    if (const auto padding = Padding(on_ssd.bytes.size()); !padding.empty()) {
      spans.push_back(padding);
    }
    bytes += on_ssd.bytes.size();
    prepared.push_back(std::move(on_ssd));
  }
  QUIRE_ASSIGN_OR_RETURN(Location location, payload_->Write(spans));
  std::span<BlockRun> runs(location.runs);
  for (size_t i = 0; i < extents.size(); ++i) {
    ExtentRecord& record = prepared[i].record;
    record.location = TakeFront(prepared[i].bytes.size(), runs);
    batch.Put(Table::kExtents, RecordKey(extents[i].id), {EncodeExtentRecord(record)});
    change.written_.push_back(std::move(record.location));
  }
  if (sync) QUIRE_RETURN_IF_ERROR(payload_->Sync());
  write_bytes_.Add(bytes);
  return change;
}

StatusOr<SsdTier::Change> SsdTier::StageErase(const SegmentKey& segment, Database::Batch& batch) {
  Change change(this);
  // Damaged records have no space to give back.
  QUIRE_RETURN_IF_ERROR(database_->Scan(
      Table::kExtents, segment.view(), [&](std::string_view key, std::string_view value) {
        if (!key.starts_with(segment.view())) return false;
        StatusOr<ExtentRecord> record = DecodeExtentRecord(value);
        if (const auto layer = LayerOf(key); layer && record.ok()) {
          change.replaced_.emplace_back(ExtentId{segment, *layer}, std::move(record->location));
        }
        return true;
      }));
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

/// The record of one extent, and where its units are.
struct SsdTier::Lookup {
  ExtentRecord record;
  std::optional<EntropyTable> table;  ///< Of packed units.

  uint64_t offset(uint32_t unit) const {
    return table ? table->offset(unit) - table->shape().table_bytes() : unit * record.unit_bytes();
  }
  uint64_t bytes(uint32_t unit) const { return table ? table->bytes(unit) : record.unit_bytes(); }
  /// Memory that it takes, about.
  uint64_t charge() const {
    const size_t units = record.unit_crc32c.size();
    return sizeof(Lookup) + 256 + units * (sizeof(uint32_t) + (table ? 24 : 0));
  }
};

/// A unit on its way: read into `buffer`, from where `from` says.
struct SsdTier::Pending {
  UnitRead* read = nullptr;
  LookupPtr from;
  AlignedBuffer buffer;
};

StatusOr<SsdTier::LookupPtr> SsdTier::LookUp(const ExtentId& id) {
  if (auto cached = records_.Find(id)) return *std::move(cached);
  const uint64_t epoch = records_.epoch();
  auto found = std::make_shared<Lookup>();
  QUIRE_ASSIGN_OR_RETURN(found->record, FindRecord(id));
  if (found->record.packed) {
    QUIRE_ASSIGN_OR_RETURN(found->table, found->record.Table());
    found->record.packed->table.clear();  // It stands in `table` now.
  }
  records_.Insert(id, found, found->charge(), epoch);
  return LookupPtr(std::move(found));
}

void SsdTier::ReadUnits(std::span<UnitRead> reads) {
  const PayloadStore::ReadGuard guard = payload_->StartReading();  // Before any record is read.
  StatusOr<LookupPtr> lookup{LookupPtr()};
  std::vector<Pending> pending;
  std::vector<ReadRequest> requests;
  pending.reserve(reads.size());
  requests.reserve(reads.size());
  for (size_t i = 0; i < reads.size(); ++i) {
    UnitRead& read = reads[i];
    if (i == 0 || reads[i - 1].id != read.id) lookup = LookUp(read.id);
    StatusOr<Pending> planned = lookup.ok() ? Plan(read, *lookup) : lookup.status();
    if (!planned.ok()) {
      read.result = planned.status();
      continue;
    }
    requests.push_back({.location = &planned->from->record.location,
                        .offset = planned->from->offset(read.unit),
                        .destination = planned->buffer.bytes(),
                        .status = OkStatus()});
    pending.push_back(*std::move(planned));
  }
  (void)payload_->Read(guard, requests);  // Each request has its own status.
  EntropyDecoder decoder;
  for (size_t i = 0; i < pending.size(); ++i) {
    UnitRead& read = *pending[i].read;
    read.result = requests[i].status.ok()
                      ? Verified(std::move(pending[i]), decoder)
                      : Annotate(requests[i].status, "segment ", read.id.segment.Hex(), " layer ",
                                 read.id.layer, " unit ", read.unit);
  }
  for (const UnitRead& read : reads) {
    if (read.result.status().code() == StatusCode::kDataLoss) checksum_failures_.Add();
  }
}

StatusOr<SsdTier::Pending> SsdTier::Plan(UnitRead& read, LookupPtr from) {
  if (read.unit >= from->record.unit_crc32c.size()) {
    return NotFound("segment ", read.id.segment.Hex(), " layer ", read.id.layer, " has no unit ",
                    read.unit);
  }
  QUIRE_ASSIGN_OR_RETURN(AlignedBuffer buffer, payload_->buffers().Take(from->bytes(read.unit)));
  return Pending{&read, std::move(from), std::move(buffer)};
}

StatusOr<UnitBytes> SsdTier::Verified(Pending pending, EntropyDecoder& decoder) {
  const UnitRead& read = *pending.read;
  AlignedBuffer buffer = std::move(pending.buffer);
  unit_reads_.Add();
  read_bytes_.Add(buffer.bytes().size());
  Status intact = OkStatus();
  if (const auto& table = pending.from->table) {
    QUIRE_ASSIGN_OR_RETURN(AlignedBuffer unpacked,
                           payload_->buffers().Take(pending.from->record.unit_bytes()));
    intact = decoder.Unit(*table, read.unit, buffer.bytes(), unpacked.bytes());
    buffer = std::move(unpacked);
  }
  const uint32_t crc32c = pending.from->record.unit_crc32c[read.unit];
  if (!intact.ok() || Crc32c(buffer.bytes()) != crc32c) {
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
  visit.Gauge("ssd_record_bytes_cached", "Memory of cached records of extents on SSD.",
              records_.used_bytes());
}

}  // namespace quire::kvserver
