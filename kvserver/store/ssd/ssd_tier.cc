// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/ssd/ssd_tier.h"

#include <algorithm>
#include <array>
#include <optional>

#include "common/base/memory/checksum.h"

namespace quire::kvserver {
namespace {

/// Limit of unsynced payload, which bounds the reads after a crash.
constexpr uint64_t kMostUnsyncedBytes = 256 << 20;
/// Space worth a sync rather than another volume, as a divisor of kMostUnsyncedBytes.
constexpr uint64_t kWorthASyncShare = 4;
/// Units read together when a segment is verified.
constexpr size_t kUnitsAtOnce = 64;

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

/// Names a unit in messages.
std::string NameOf(const SsdTier::UnitRead& read) {
  const std::string segment = "segment " + read.id.segment.Hex();
  const std::string unit = std::to_string(read.unit);
  if (read.id.layer == kDigestsLayer) return segment + " digests of layer " + unit;
  return segment + " layer " + std::to_string(read.id.layer) + " unit " + unit;
}

/// Zeros after an extent, so that the next one starts with a block.
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

// A failed commit may be in the log and return at the next open.
SsdTier::Change::~Change() {
  if (tier_ == nullptr) return;
  for (Location& location : written_) {
    if (is_staged_) {
      tier_->unsynced_.AddSpace(std::move(location));
    } else {
      tier_->payload_->Release(location);
    }
  }
  tier_->unsynced_.GiveBack(std::move(taken_));
}

// The record leaves the cache before its space is released. A reader that finds it there has a
// guard older than the release, and may read.
void SsdTier::Change::Committed() {
  for (auto& [id, location] : replaced_) {
    tier_->records_.Invalidate(id);
    if (is_sync_) {
      tier_->payload_->Release(location);
    } else {
      tier_->unsynced_.AddSpace(std::move(location));
    }
  }
  for (const Location& location : taken_.space) tier_->payload_->Release(location);
  tier_->unsynced_.AddNotes(std::move(notes_));
  tier_ = nullptr;
}

namespace {

/// An extent in its SSD form.
struct OnSsd {
  ExtentRecord record;  // without its location and its checksums
  std::span<const std::byte> bytes;
  std::vector<std::byte> container;  // owns `bytes` of a packed extent
};

/// Packs a finished extent.
StatusOr<OnSsd> Packed(const ExtentView& extent) {
  QUIRE_RETURN_IF_ERROR(extent.Verify());
  OnSsd out;
  const EntropyShape shape{.units = static_cast<uint32_t>(extent.unit_crc32c.size()),
                           .unit_bytes = static_cast<uint32_t>(extent.unit_bytes())};
  QUIRE_ASSIGN_OR_RETURN(out.container, EncodeEntropy(extent.bytes, shape));
  const std::span<const std::byte> container(out.container);
  const auto table = container.first(shape.table_bytes());
  out.record.packed = {.unit_bytes = shape.unit_bytes, .table = {table.begin(), table.end()}};
  out.bytes = container.subspan(table.size());
  return out;
}

/// The extents of a put one after the other, each padded to whole blocks. They are made on request,
/// except packed ones, whose size must be known before.
class ExtentSpans {
 public:
  ExtentSpans(std::span<const ExtentView> extents, std::span<const OnSsd> on_ssd,
              const SsdTier::MakeExtent& make)
      : extents_(extents), on_ssd_(on_ssd), make_(make) {}

  StatusOr<ByteSpan> Next() {
    if (!padding_.empty()) return std::exchange(padding_, {});
    const size_t extent = next_++;
    if (!extents_[extent].entropy) QUIRE_RETURN_IF_ERROR(make_(extent));
    padding_ = Padding(on_ssd_[extent].bytes.size());
    return on_ssd_[extent].bytes;
  }

 private:
  const std::span<const ExtentView> extents_;
  const std::span<const OnSsd> on_ssd_;
  const SsdTier::MakeExtent& make_;
  size_t next_ = 0;
  ByteSpan padding_;  ///< Padding of the previous extent.
};

/// Bytes with padding.
uint64_t BytesWithPadding(std::span<const OnSsd> extents) {
  uint64_t bytes = 0;
  for (const OnSsd& extent : extents) bytes += RoundUp(extent.bytes.size(), kBlockBytes);
  return bytes;
}

}  // namespace

StatusOr<SsdTier::Change> SsdTier::StagePut(std::span<const ExtentView> extents,
                                            const MakeExtent& make, bool sync,
                                            Database::Batch& batch) {
  Change change(this);
  std::vector<OnSsd> on_ssd(extents.size());
  uint64_t bytes = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const StatusOr<ExtentRecord> before = FindRecord(extents[i].id);
    if (before.ok()) change.replaced_.emplace_back(extents[i].id, before->location);
    on_ssd[i].bytes = extents[i].bytes;
    if (extents[i].entropy) {
      QUIRE_RETURN_IF_ERROR(make(i));
      QUIRE_ASSIGN_OR_RETURN(on_ssd[i], Packed(extents[i]));
    }
    bytes += on_ssd[i].bytes.size();
  }
  QUIRE_ASSIGN_OR_RETURN(
      Location location, WritePayload(BytesWithPadding(on_ssd), [&]() -> SpanSource {
        return [spans = ExtentSpans(extents, on_ssd, make)]() mutable { return spans.Next(); };
      }));
  std::span<BlockRun> runs(location.runs);
  for (size_t i = 0; i < extents.size(); ++i) {
    ExtentRecord& record = on_ssd[i].record;
    record.unit_crc32c.assign(extents[i].unit_crc32c.begin(), extents[i].unit_crc32c.end());
    record.location = TakeFront(on_ssd[i].bytes.size(), runs);
    batch.Put(Table::kExtents, RecordKey(extents[i].id), {EncodeExtentRecord(record)});
    change.written_.push_back(std::move(record.location));
  }
  change.is_sync_ = sync;
  if (sync) {
    change.taken_ = unsynced_.Take();
    QUIRE_RETURN_IF_ERROR(payload_->Sync());
    UnsyncedChanges::StageForget(change.taken_.notes, batch);
  } else {
    for (size_t i = 0; i < extents.size(); ++i) {
      const SegmentKey& segment = extents[i].id.segment;
      if (i > 0 && segment == extents[i - 1].id.segment) continue;
      change.notes_.numbers.push_back(unsynced_.StageNote(segment, batch));
    }
    change.notes_.bytes = bytes;
  }
  change.is_staged_ = true;
  write_bytes_.Add(bytes);
  return change;
}

Status SsdTier::MakeRoom(uint64_t bytes) {
  const bool many_notes = unsynced_.noted_bytes() >= kMostUnsyncedBytes;
  const bool much_waits =
      unsynced_.waiting_bytes() >= payload_->new_volume_bytes() / kWorthASyncShare;
  if (!many_notes && !(much_waits && !payload_->HasRoom(bytes))) return OkStatus();
  return Sync();
}

StatusOr<Location> SsdTier::WritePayload(uint64_t bytes,
                                         const std::function<SpanSource()>& source) {
  QUIRE_RETURN_IF_ERROR(MakeRoom(bytes));
  StatusOr<Location> location = payload_->Write(bytes, source());
  const bool full = location.status().code() == StatusCode::kResourceExhausted;
  if (!full || unsynced_.waiting_bytes() == 0) return location;
  QUIRE_RETURN_IF_ERROR(Sync());
  return payload_->Write(bytes, source());
}

Status SsdTier::Sync() {
  UnsyncedChanges::Taken taken = unsynced_.Take();
  Database::Batch batch = database_->NewBatch();
  UnsyncedChanges::StageForget(taken.notes, batch);
  Status status = payload_->Sync();
  // Even without notes, other commits may need to become durable.
  if (status.ok()) {
    status =
        taken.notes.numbers.empty() ? database_->Sync() : database_->Commit(batch, /*sync=*/true);
  }
  if (!status.ok()) {
    unsynced_.GiveBack(std::move(taken));
    return status;
  }
  for (const Location& location : taken.space) payload_->Release(location);
  return OkStatus();
}

Status SsdTier::ReclaimSpace() { return unsynced_.waiting_bytes() == 0 ? OkStatus() : Sync(); }

StatusOr<SsdTier::Change> SsdTier::StageErase(const SegmentKey& segment, Database::Batch& batch) {
  Change change(this);
  // Damaged records have no space to free. Key by key: see DeletePrefix.
  QUIRE_RETURN_IF_ERROR(database_->Scan(
      Table::kExtents, segment.view(), [&](std::string_view key, std::string_view value) {
        if (!key.starts_with(segment.view())) return false;
        batch.Delete(Table::kExtents, key);
        StatusOr<ExtentRecord> record = DecodeExtentRecord(value);
        if (const auto layer = LayerOf(key); layer && record.ok()) {
          change.replaced_.emplace_back(ExtentId{segment, *layer}, std::move(record->location));
        }
        return true;
      }));
  change.is_staged_ = true;
  return change;
}

Status SsdTier::Erase(const SegmentKey& segment) {
  Database::Batch batch = database_->NewBatch();
  QUIRE_ASSIGN_OR_RETURN(Change change, StageErase(segment, batch));
  QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/false));
  change.Committed();
  return OkStatus();
}

StatusOr<ExtentRecord> SsdTier::FindRecord(const ExtentId& id) {
  QUIRE_ASSIGN_OR_RETURN(const std::string value, database_->Get(Table::kExtents, RecordKey(id)));
  return DecodeExtentRecord(value);
}

/// A unit on its way: read into `buffer`, from where `from` says.
struct SsdTier::Pending {
  UnitRead* read = nullptr;
  LookupPtr from;
  AlignedBuffer buffer;
};

StatusOr<SsdTier::LookupPtr> SsdTier::LookUp(const ExtentId& id) {
  if (auto cached = records_.Find(id)) return *std::move(cached);
  const uint64_t epoch = records_.epoch();
  QUIRE_ASSIGN_OR_RETURN(ExtentRecord record, FindRecord(id));
  QUIRE_ASSIGN_OR_RETURN(ExtentLookup found, ExtentLookup::Of(std::move(record)));
  const auto lookup = std::make_shared<const ExtentLookup>(std::move(found));
  records_.Insert(id, lookup, lookup->charge(), epoch);
  return LookupPtr(lookup);
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
  EntropyDecoder decoder;
  payload_->Read(guard, requests, [&](ReadRequest& request) {
    Pending& done = pending[static_cast<size_t>(&request - requests.data())];
    done.read->result = Finished(request, done, decoder);
  });
  for (const UnitRead& read : reads) {
    if (read.result.status().code() == StatusCode::kDataLoss) checksum_failures_.Add();
  }
}

StatusOr<SsdTier::Pending> SsdTier::Plan(UnitRead& read, LookupPtr from) {
  if (read.unit >= from->record.unit_crc32c.size()) {
    return NotFound(NameOf(read), ": there is none");
  }
  QUIRE_ASSIGN_OR_RETURN(AlignedBuffer buffer, payload_->buffers().Take(from->bytes(read.unit)));
  return Pending{&read, std::move(from), std::move(buffer)};
}

StatusOr<UnitBytes> SsdTier::Finished(const ReadRequest& request, Pending& pending,
                                      EntropyDecoder& decoder) {
  if (request.status.ok()) return Verified(pending, decoder);
  return Annotate(request.status, NameOf(*pending.read));
}

StatusOr<UnitBytes> SsdTier::Verified(Pending& pending, EntropyDecoder& decoder) {
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
    return DataLoss(NameOf(read), ": the bytes on SSD fail their checksum; put the segment again");
  }
  return UnitBytes(std::move(buffer).ToSlice(), crc32c);
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
          recovered.lost_bytes += *lost;
          if (LayerOf(key) == kDigestsLayer) return true;  // Lost digests are computed again.
          ++recovered.extents;
          const auto segment = SegmentKey::FromBytes(key.substr(0, sizeof(SegmentKey::bytes)));
          if (*lost == 0 && segment) ++recovered.whole_extents[*segment];
        } else {
          drop.Delete(Table::kExtents, key);
          ++recovered.dropped;
        }
        return true;
      }));
  QUIRE_RETURN_IF_ERROR(newer);
  if (recovered.dropped > 0) QUIRE_RETURN_IF_ERROR(database_->Commit(drop, /*sync=*/true));
  payload_->FinishRecovery();
  QUIRE_RETURN_IF_ERROR(RecoverUnsynced(&recovered));
  return recovered;
}

StatusOr<bool> SsdTier::IsWhole(const SegmentKey& segment) {
  std::vector<UnitRead> reads;
  bool whole = true;
  QUIRE_RETURN_IF_ERROR(database_->Scan(
      Table::kExtents, segment.view(), [&](std::string_view key, std::string_view value) {
        if (!key.starts_with(segment.view())) return false;
        const StatusOr<ExtentRecord> record = DecodeExtentRecord(value);
        const auto layer = LayerOf(key);
        whole = whole && record.ok() && layer;
        const size_t units = whole ? record->unit_crc32c.size() : 0;
        for (uint32_t unit = 0; unit < units; ++unit) {
          reads.push_back({.id = {segment, *layer}, .unit = unit});
        }
        return whole;
      }));
  for (size_t first = 0; whole && first < reads.size(); first += kUnitsAtOnce) {
    const auto part = std::span(reads).subspan(first, std::min(kUnitsAtOnce, reads.size() - first));
    ReadUnits(part);
    for (UnitRead& read : part) {
      const StatusCode code = read.result.status().code();
      // A device failure now is no reason to drop the segment.
      if (!read.result.ok() && code != StatusCode::kDataLoss) return read.result.status();
      whole = whole && read.result.ok();
      read.result = Status(StatusCode::kUnknown, "");  // Returns its buffer.
    }
  }
  return whole;
}

// After a crash the payload is in the page cache and complete; after a power failure it may not be.
Status SsdTier::RecoverUnsynced(Recovered* recovered) {
  UnsyncedChanges::Notes notes;
  std::vector<SegmentKey> segments;
  QUIRE_RETURN_IF_ERROR(
      UnsyncedChanges::VisitNotes(*database_, [&](uint64_t number, const SegmentKey& segment) {
        notes.numbers.push_back(number);
        segments.push_back(segment);
      }));
  if (notes.numbers.empty()) return OkStatus();
  std::ranges::sort(segments);
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
  for (const SegmentKey& segment : segments) {
    QUIRE_ASSIGN_OR_RETURN(const bool whole, IsWhole(segment));
    if (whole) continue;
    QUIRE_RETURN_IF_ERROR(Erase(segment));
    recovered->torn.push_back(segment);
  }
  payload_->MarkAllDirty();
  UnsyncedChanges::Taken taken = unsynced_.Take();  // Space of erased extents.
  QUIRE_RETURN_IF_ERROR(payload_->Sync());
  Database::Batch batch = database_->NewBatch();
  UnsyncedChanges::StageForget(notes, batch);
  for (const SegmentKey& segment : recovered->torn) {
    batch.Delete(Table::kSegments, segment.view());
    batch.DeletePrefix(Table::kDigests, segment.view());
  }
  QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/true));
  for (const Location& location : taken.space) payload_->Release(location);
  return OkStatus();
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
