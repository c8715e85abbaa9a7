// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/digest_store.h"

#include <utility>

#include "common/base/memory/checksum.h"
#include "kernels/api/page_digest.h"
#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {
namespace {

using kernels::DigestKind;

/// Least free bytes of the file system for derived digests: puts need them more.
constexpr uint64_t kMinFreeBytes = uint64_t{256} << 20;
/// Bytes of a cached entry besides its digests.
constexpr uint64_t kEntryBytes = 256;

constexpr size_t kExtentKeyBytes = sizeof(SegmentKey::bytes) + sizeof(uint32_t);

/// Checksum of the source units of one extent's digests.
uint32_t SourceCrc32c(const ExtentId& id, const SegmentRecord& record) {
  const size_t units = record.units_per_layer();
  return Crc32c(std::as_bytes(std::span(record.unit_crc32c).subspan(id.layer * units, units)));
}

DigestBytes Copy(std::span<const std::byte> bytes) {
  return std::make_shared<const KeptDigests>(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

}  // namespace

// Minima and maxima have the key of their extent. Keys of other kinds include the kind.
std::string DigestStore::KeyOf(const DigestId& id) {
  std::string key(id.extent.segment.view());
  for (int shift = 24; shift >= 0; shift -= 8) {
    key.push_back(static_cast<char>(id.extent.layer >> shift));
  }
  if (id.kind != DigestKind::kMinMax) key.push_back(static_cast<char>(id.kind));
  return key;
}

uint64_t DigestBytesPerLayer(const SegmentRecord& record, DigestKind kind) {
  if (record.object) return 0;
  return record.num_pages() * kernels::PageDigestBytes(record.spec, kind);
}

std::vector<int32_t> ValidRows(const SegmentRecord& record) {
  std::vector<int32_t> rows;
  if (record.object) return rows;
  rows.reserve(record.units_per_layer());
  for (uint32_t page = 0; page < record.num_pages(); ++page) {
    const auto tokens = TokensInPage(record.spec, record.tokens.size(), page);
    rows.insert(rows.end(), record.spec.num_kv_heads, static_cast<int32_t>(tokens));
  }
  return rows;
}

void DigestStore::StageRows(const SegmentKey& key, const SegmentRecord& record,
                            std::span<const std::byte> digests, Database::Batch& batch) {
  const uint64_t bytes = DigestBytesPerLayer(record, DigestKind::kMinMax);
  for (uint32_t layer = 0; layer < record.num_digest_layers(); ++layer) {
    const auto of_layer = digests.subspan(layer * bytes, bytes);
    StageKept({{key, layer}, DigestKind::kMinMax}, record, of_layer, Crc32c(of_layer), batch);
  }
}

void DigestStore::StageDropRow(const DigestId& id, Database::Batch& batch) {
  const std::string key = KeyOf(id);
  if (database_->MayHave(Table::kDigests, key)) batch.Delete(Table::kDigests, key);
}

void DigestStore::StageDropRows(const SegmentKey& key, const SegmentRecord& record,
                                Database::Batch& batch) {
  for (uint32_t layer = 0; layer < record.num_digest_layers(); ++layer) {
    StageDropRow({{key, layer}, DigestKind::kMinMax}, batch);
  }
}

void DigestStore::StageErase(const SegmentKey& key, const SegmentRecord* record,
                             Database::Batch& batch) {
  if (record == nullptr) return batch.DeletePrefix(Table::kDigests, key.view());
  for (uint32_t layer = 0; layer < record->num_digest_layers(); ++layer) {
    for (const DigestKind kind : kernels::kDigestKinds) StageDropRow({{key, layer}, kind}, batch);
  }
}

void DigestStore::Forget(const SegmentKey& key, const SegmentRecord& record) {
  for (uint32_t layer = 0; layer < record.num_digest_layers(); ++layer) {
    for (const DigestKind kind : kernels::kDigestKinds) cache_.Invalidate({{key, layer}, kind});
  }
}

StatusOr<DigestBytes> DigestStore::Read(const ExtentId& id, const SegmentRecord& record,
                                        Priority priority) {
  QUIRE_ASSIGN_OR_RETURN(DigestBytes digests, Find({id, DigestKind::kMinMax}, record, priority));
  if (digests != nullptr) return digests;
  return DataLoss("digests of segment ", id.segment.Hex(), " layer ", id.layer,
                  " are missing or fail their checksum; put the segment again");
}

StatusOr<DigestBytes> DigestStore::Find(const DigestId& id, const SegmentRecord& record,
                                        Priority priority) {
  if (const std::optional<DigestBytes> cached = cache_.Find(id)) {
    if (*cached == nullptr || (*cached)->Matches()) {
      hits_.Add();
      return *cached;
    }
    damaged_.Add();
    cache_.Invalidate(id);
  }
  QUIRE_ASSIGN_OR_RETURN(const IoGate::Pass pass, gate_->Enter(record.tenant, priority));
  const uint64_t epoch = cache_.epoch();
  QUIRE_ASSIGN_OR_RETURN(DigestBytes digests, ReadRow(id, record));
  if (digests == nullptr && id.kind == DigestKind::kMinMax && !record.dram_only) {
    QUIRE_ASSIGN_OR_RETURN(digests, ReadExtent(id.extent, record));
  }
  if (digests != nullptr) {
    reads_.Add();
    Remember(id, digests, epoch);
  } else if (id.kind == DigestKind::kRepresentatives) {
    // Other kinds are computed again.
    cache_.Insert(id, nullptr, kEntryBytes, epoch);
  }
  return digests;
}

StatusOr<DigestBytes> DigestStore::ReadRow(const DigestId& id, const SegmentRecord& record) {
  const StatusOr<std::string> value = database_->Get(Table::kDigests, KeyOf(id));
  if (!value.ok()) {
    const bool damaged = IsDataLoss(value.status());
    if (damaged) damaged_.Add();
    if (damaged || IsNotFound(value.status())) return DigestBytes();
    return Annotate(value.status(), "digests of segment ", id.extent.segment.Hex(), " layer ",
                    id.extent.layer);
  }
  const auto stored = StoredIn(*value, id, record);
  if (stored) return Copy(*stored);
  if (!VerifyTrailer(*value)) damaged_.Add();
  return DigestBytes();
}

StatusOr<DigestBytes> DigestStore::ReadExtent(const ExtentId& id, const SegmentRecord& record) {
  SsdTier::UnitRead read{.id = {id.segment, kDigestsLayer}, .unit = id.layer};
  ssd_->ReadUnits({&read, 1});
  if (!read.result.ok()) {
    const bool damaged = IsDataLoss(read.result.status());
    if (damaged) damaged_.Add();
    if (damaged || IsNotFound(read.result.status())) return DigestBytes();
    return read.result.status();
  }
  const std::optional<VerifiedBytes> digests = read.result->Verify();
  if (digests && digests->bytes().size() == DigestBytesPerLayer(record, DigestKind::kMinMax)) {
    return Copy(digests->bytes());
  }
  damaged_.Add();
  return DigestBytes();
}

void DigestStore::Remember(const DigestId& id, const DigestBytes& digests, uint64_t epoch) {
  cache_.Insert(id, digests, digests->bytes().size() + kEntryBytes, epoch);
}

std::optional<std::span<const std::byte>> DigestStore::StoredIn(std::string_view value,
                                                                const DigestId& id,
                                                                const SegmentRecord& record) {
  const auto checked = VerifyTrailer(value);
  const uint64_t bytes = DigestBytesPerLayer(record, id.kind);
  if (!checked) return std::nullopt;
  if (id.kind == DigestKind::kMinMax) {
    if (checked->bytes.size() != bytes) return std::nullopt;
    return checked->bytes;
  }
  const auto source = EncodeTrailer(SourceCrc32c(id.extent, record));
  if (checked->bytes.size() != bytes + source.size() ||
      AsText(checked->bytes.subspan(bytes)) != AsText(source)) {
    return std::nullopt;  // Its units are gone.
  }
  return checked->bytes.first(bytes);
}

bool DigestStore::KeepDerived(const DigestId& id, const SegmentRecord& record,
                              const DigestBytes& digests) {
  Remember(id, digests, cache_.epoch());
  if (!CheckRoom(digests->bytes().size()).ok()) return false;
  Database::Batch batch = database_->NewBatch();
  StageKept(id, record, digests->bytes(), digests->crc32c(), batch);
  return database_->Commit(batch, /*sync=*/false).ok();  // The database counts failures.
}

Status DigestStore::KeepRepresentatives(const SegmentKey& key, const SegmentRecord& record,
                                        std::span<const std::byte> digests) {
  QUIRE_RETURN_IF_ERROR(CheckRoom(digests.size()));
  const uint64_t bytes = DigestBytesPerLayer(record, DigestKind::kRepresentatives);
  Database::Batch batch = database_->NewBatch();
  for (uint32_t layer = 0; layer < record.num_digest_layers(); ++layer) {
    const auto of_layer = digests.subspan(layer * bytes, bytes);
    StageKept({{key, layer}, DigestKind::kRepresentatives}, record, of_layer, Crc32c(of_layer),
              batch);
  }
  QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/true));
  for (uint32_t layer = 0; layer < record.num_digest_layers(); ++layer) {
    cache_.Invalidate({{key, layer}, DigestKind::kRepresentatives});
  }
  return OkStatus();
}

Status DigestStore::CheckRoom(uint64_t bytes) const {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t free_bytes, database_->FreeBytes());
  const uint64_t needed = kMinFreeBytes + 2 * bytes;
  if (free_bytes >= needed) return database_->CheckRoom(4 * bytes);
  return ResourceExhausted("the data directory has ", free_bytes, " bytes free, ", bytes,
                           " bytes of digests need ", needed,
                           "; free space or delete documents, then retry");
}

void DigestStore::StageKept(const DigestId& id, const SegmentRecord& record,
                            std::span<const std::byte> digests, uint32_t crc32c,
                            Database::Batch& batch) {
  if (id.kind == DigestKind::kMinMax) {
    const auto trailer = EncodeTrailer(crc32c);
    batch.Put(Table::kDigests, KeyOf(id), {AsText(digests), AsText(trailer)});
    return;
  }
  const auto source = EncodeTrailer(SourceCrc32c(id.extent, record));
  const auto trailer = EncodeTrailer(Crc32c(AsBytes(AsText(source)), crc32c));
  batch.Put(Table::kDigests, KeyOf(id), {AsText(digests), AsText(source), AsText(trailer)});
}

Status DigestStore::Drop(const DigestId& id) {
  Database::Batch batch = database_->NewBatch();
  batch.Delete(Table::kDigests, KeyOf(id));
  QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/false));
  cache_.Invalidate(id);
  return OkStatus();
}

std::optional<DigestId> DigestStore::IdOf(std::string_view key) {
  if (key.size() != kExtentKeyBytes && key.size() != kExtentKeyBytes + 1) return std::nullopt;
  DigestId id;
  id.extent.segment = *SegmentKey::FromBytes(key.substr(0, sizeof(SegmentKey::bytes)));
  for (const char byte : key.substr(sizeof(SegmentKey::bytes), sizeof(uint32_t))) {
    id.extent.layer = id.extent.layer << 8 | static_cast<uint8_t>(byte);
  }
  if (key.size() == kExtentKeyBytes) return id;
  id.kind = static_cast<DigestKind>(key.back());
  if (!kernels::IsKnown(id.kind) || id.kind == DigestKind::kMinMax) return std::nullopt;
  return id;
}

bool DigestStore::IsKey(std::string_view key, uint32_t layers) {
  const std::optional<DigestId> id = IdOf(key);
  return id && id->extent.layer < layers;
}

void DigestStore::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("digest_reads", "Digests read from SSD.", reads_.Get());
  visit.Counter("digest_cache_hits", "Digests found in memory.", hits_.Get());
  visit.Counter("digests_damaged",
                "Digests of one segment and layer that failed their checksum, in memory or on SSD; "
                "they are read again or made anew.",
                damaged_.Get());
  visit.Gauge("digest_bytes_cached", "Digests held in memory.", cache_.used_bytes());
}

}  // namespace quire::kvserver
