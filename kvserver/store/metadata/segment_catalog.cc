// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/segment_catalog.h"

#include <algorithm>
#include <utility>

#include "common/base/memory/checksum.h"
#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {
namespace {

uint64_t ChargeOf(const SegmentRecord& record) {
  return sizeof(SegmentRecord) + 256 + record.tokens.size() * sizeof(TokenId) +
         record.unit_crc32c.size() * sizeof(uint32_t) +
         (record.object ? record.object->key.size() : 0);
}

/// Checksum of the record as it is encoded.
uint32_t ChecksumOfRecord(const SegmentRecordPtr& record) {
  return TrailerOf(EncodeSegmentRecord(*record));
}

}  // namespace

Status NotStored(const SegmentKey& key) {
  return NotFound("segment ", key.Hex(), " is not stored; put it again");
}

SegmentCatalog::SegmentCatalog(Database* database, uint64_t cache_bytes, Health* health)
    : database_(database),
      health_(health),
      in_memory_limit_(cache_bytes),
      records_(cache_bytes / 4 * 3, &ChecksumOfRecord),
      in_memory_(UINT64_MAX, &ChecksumOfRecord),
      chains_(cache_bytes / 4, &SegmentCatalog::ChecksumOf) {}

uint32_t SegmentCatalog::ChecksumOf(const CachedChain& cached) {
  const Chain& chain = *cached.chain;
  const SpecFingerprint spec = Fingerprint(chain.spec);
  uint32_t sum = Crc32c(AsBytes(cached.tenant));
  sum = Crc32c(std::as_bytes(std::span(spec)), sum);
  sum = Crc32c(std::as_bytes(std::span(&chain.num_tokens, 1)), sum);
  return Crc32c(std::as_bytes(std::span(chain.keys)), sum);
}

std::vector<std::unique_ptr<CacheWalk>> SegmentCatalog::WalkCached() {
  std::vector<std::unique_ptr<CacheWalk>> walks;
  walks.push_back(records_.Walk());
  walks.push_back(in_memory_.Walk());
  walks.push_back(chains_.Walk());
  return walks;
}

StatusOr<SegmentCatalog::Totals> SegmentCatalog::CountAll(const ExtentCounts& whole_extents) {
  Totals totals;
  Status newer;
  const auto visit = [&](std::string_view key, std::string_view value) {
    const StatusOr<SegmentRecord> record = DecodeSegmentRecord(value);
    const auto known = SegmentKey::FromBytes(key);
    if (record.ok() && record->dram_only) {
      if (known) totals.dram_only.push_back(*known);
    } else if (record.ok()) {
      if (known && record->private_pages)
        totals.private_segments.emplace_back(record->tenant, *known);
      const auto whole = known ? whole_extents.find(*known) : whole_extents.end();
      const uint32_t layers = whole != whole_extents.end() ? whole->second : 0;
      if (known && layers != record->num_layers()) totals.incomplete.push_back(*known);
      if (known) {
        totals.segments.push_back({.key = *known,
                                   .tenant = record->tenant,
                                   .parent = record->parent,
                                   .bytes = record->stored_bytes(),
                                   .incarnation = record->incarnation,
                                   .last_use_micros = static_cast<int64_t>(record->incarnation),
                                   .listed = record->listed()});
      }
    } else if (record.status().code() != StatusCode::kDataLoss) {
      newer = record.status();
    } else if (known) {
      totals.segments.push_back({.key = *known, .tenant = {}, .parent = kRootKey});
    }
    return newer.ok();
  };
  QUIRE_RETURN_IF_ERROR(database_->Scan(Table::kSegments, "", visit));
  QUIRE_RETURN_IF_ERROR(newer);
  return totals;
}

Status SegmentCatalog::Drop(const std::vector<SegmentKey>& dram_only) {
  Database::Batch batch = database_->NewBatch();
  for (const SegmentKey& key : dram_only) {
    batch.Delete(Table::kSegments, key.view());
    batch.DeletePrefix(Table::kDigests, key.view());
  }
  return dram_only.empty() ? OkStatus() : database_->Commit(batch, /*sync=*/false);
}

StatusOr<SegmentRecordPtr> SegmentCatalog::Find(std::string_view tenant, const SegmentKey& key) {
  auto cached = records_.Find(key);
  if (!cached) cached = in_memory_.Find(key);
  if (cached) {
    if ((*cached)->tenant != tenant) return NotStored(key);
    return *std::move(cached);
  }
  const uint64_t epoch = records_.epoch();
  const StatusOr<std::string> value = database_->Get(Table::kSegments, key.view());
  if (value.status().code() == StatusCode::kNotFound) return NotStored(key);
  QUIRE_RETURN_IF_ERROR(Annotate(value.status(), "segment ", key.Hex()));
  StatusOr<SegmentRecord> decoded = DecodeSegmentRecord(*value);
  QUIRE_RETURN_IF_ERROR(Annotate(decoded.status(), "segment ", key.Hex()));
  const auto record = std::make_shared<const SegmentRecord>(*std::move(decoded));
  records_.Insert(key, record, ChargeOf(*record), epoch);
  if (record->tenant != tenant) return NotStored(key);
  return record;
}

StatusOr<SegmentRecordPtr> SegmentCatalog::FindPages(std::string_view tenant,
                                                     const SegmentKey& key) {
  QUIRE_ASSIGN_OR_RETURN(SegmentRecordPtr record, Find(tenant, key));
  if (record->object) return NotStored(key);
  return record;
}

StatusOr<ChainPtr> SegmentCatalog::Resolve(std::string_view tenant, const SegmentKey& tip) {
  if (const auto cached = chains_.Find(tip); cached && cached->tenant == tenant) {
    return cached->chain;
  }
  const uint64_t epoch = chains_.epoch();
  QUIRE_ASSIGN_OR_RETURN(ChainPtr chain, Walk(tenant, tip));
  const uint64_t charge = sizeof(Chain) + 256 + chain->keys.size() * sizeof(SegmentKey);
  chains_.Insert(tip, {std::string(tenant), chain}, charge, epoch);
  return chain;
}

StatusOr<ChainPtr> SegmentCatalog::Walk(std::string_view tenant, const SegmentKey& tip) {
  QUIRE_ASSIGN_OR_RETURN(SegmentRecordPtr record, FindPages(tenant, tip));
  auto chain = std::make_shared<Chain>();
  chain->spec = record->spec;
  chain->num_tokens = record->first_token + record->tokens.size();
  chain->keys.push_back(tip);
  // Positions strictly decrease towards the root and are bounded, so the walk ends.
  while (record->first_token != 0) {
    const SegmentKey parent = record->parent;
    const uint64_t expected = record->first_token - chain->spec.segment_tokens();
    QUIRE_ASSIGN_OR_RETURN(record, Find(tenant, parent));
    if (record->first_token != expected || !record->is_full() || record->spec != chain->spec) {
      return DataLoss("segment ", parent.Hex(), " does not fit the chain of ", tip.Hex(),
                      "; put the chain again");
    }
    chain->keys.push_back(parent);
  }
  std::ranges::reverse(chain->keys);
  return chain;
}

void SegmentCatalog::StagePut(const SegmentKey& key, const SegmentRecord& record,
                              Database::Batch& batch) {
  batch.Put(Table::kSegments, key.view(), {EncodeSegmentRecord(record)});
}

void SegmentCatalog::StageErase(const SegmentKey& key, Database::Batch& batch) {
  batch.Delete(Table::kSegments, key.view());
}

void SegmentCatalog::Remember(const SegmentKey& key, SegmentRecordPtr record) {
  const uint64_t charge = ChargeOf(*record);
  records_.Replace(key, std::move(record), charge);
  in_memory_.Invalidate(key);
  repaired_.Add(ForgetDamage(key));
}

void SegmentCatalog::KeepInMemory(const SegmentKey& key, SegmentRecordPtr record) {
  const uint64_t charge = ChargeOf(*record);
  in_memory_.Replace(key, std::move(record), charge);
  records_.Invalidate(key);
  repaired_.Add(ForgetDamage(key));
}

void SegmentCatalog::Forget(const SegmentKey& key, bool was_private) {
  records_.Invalidate(key);
  in_memory_.Invalidate(key);
  if (!was_private) chains_.Clear();  // Any chain may contain it.
  (void)ForgetDamage(key);
}

void SegmentCatalog::MarkDamaged(std::span<const SegmentKey> keys, std::string_view detail) {
  size_t fresh = 0;
  {
    MutexLock lock(damaged_mutex_);
    for (const SegmentKey& key : keys) fresh += damaged_.insert(key).second ? 1 : 0;
  }
  if (fresh > 0) Tell(keys.front(), detail);
}

void SegmentCatalog::Tell(const SegmentKey& key, std::string_view detail) {
  if (health_ == nullptr) return;
  if (!detail.empty()) return health_->Raise(Trouble::kDataDamaged, detail);
  health_->Raise(Trouble::kDataDamaged,
                 "segment " + key.Hex() +
                     " failed its checksums or is gone, and counts as missing; check the device, "
                     "and put the documents again of which `quire ls` says that segments are lost");
}

size_t SegmentCatalog::ForgetDamage(const SegmentKey& key) {
  size_t erased = 0;
  bool none_left = false;
  {
    MutexLock lock(damaged_mutex_);
    erased = damaged_.erase(key);
    none_left = damaged_.empty();
  }
  if (erased > 0 && none_left && health_ != nullptr) health_->Clear(Trouble::kDataDamaged);
  return erased;
}

uint64_t SegmentCatalog::NumDamaged() const {
  MutexLock lock(damaged_mutex_);
  return damaged_.size();
}

bool SegmentCatalog::IsDamaged(const SegmentKey& key) const {
  MutexLock lock(damaged_mutex_);
  return damaged_.contains(key);
}

void SegmentCatalog::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("catalog_bytes_cached", "Segment records and chains held in memory.",
              records_.used_bytes() + chains_.used_bytes());
  visit.Gauge("catalog_bytes_in_memory",
              "Records of objects in DRAM alone, which the database does not have.",
              in_memory_.used_bytes());
  visit.Counter("segments_repaired", "Damaged segments that a put made whole.", repaired_.Get());
  MutexLock lock(damaged_mutex_);
  visit.Gauge("segments_damaged", "Segments known to be damaged.", damaged_.size());
}

}  // namespace quire::kvserver
