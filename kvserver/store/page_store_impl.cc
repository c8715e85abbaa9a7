// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/page_store_impl.h"

#include <algorithm>
#include <utility>

#include "kernels/api/page_digest.h"
#include "kvserver/store/payload/engine_choice.h"
#include "kvserver/store/policy/eviction_factory.h"
#include "kvserver/store/policy/touch_promotion.h"
#include "kvserver/store/policy/write_budget.h"

namespace quire::kvserver {
namespace {

// Left to the metadata when a volume is made: twice what a put asks for (SegmentWriter).
constexpr uint64_t kLeftForMetadata = 128 << 20;
constexpr size_t kMaxLookupTokens = size_t{1} << 24;
// Extents that were read from SSD and may be read again; 64 bytes each or so.
constexpr size_t kPromotionMemory = 65536;

std::unique_ptr<AdmissionPolicy> MakeAdmission(const PageStore::Options& options) {
  if (options.ssd_write_bytes_per_second == 0) return nullptr;
  return std::make_unique<WriteBudget>(
      WriteBudget::Options{.bytes_per_second = options.ssd_write_bytes_per_second,
                           .burst_bytes = options.ssd_write_burst_bytes});
}

DramTier::Options DramOptions(const PageStore::Options& options) {
  DramTier::Options dram;
  dram.memory = {.bytes = options.dram_bytes,
                 .numa_node = options.dram_numa_node,
                 .prefault = options.dram_prefault};
  dram.high_watermark = options.dram_high_watermark;
  dram.low_watermark = options.dram_low_watermark;
  dram.tenant_quotas = options.tenant_dram_quota_bytes;
  dram.clock = options.clock;
  return dram;
}

Clock* ClockOf(const PageStore::Options& options) {
  return options.clock != nullptr ? options.clock : &SystemClock();
}

/// What volumes may take of the file system, which they would otherwise fill.
StatusOr<uint64_t> FreeForVolumes(Database& database) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, database.FreeBytes());
  return bytes - std::min(bytes, kLeftForMetadata);
}

}  // namespace

StatusOr<std::unique_ptr<PageStoreImpl>> PageStoreImpl::Open(const Options& options,
                                                             const Machine& machine) {
  if (options.promote_after_touches == 0) {
    return InvalidArgument("promote_after_touches is 0, must be at least 1");
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<EvictionPolicy> eviction,
                         MakeEvictionPolicy(options.eviction_policy));
  Parts parts;
  parts.latencies =
      std::make_unique<StoreLatencies>(options.clock != nullptr ? *options.clock : SystemClock());
  QUIRE_ASSIGN_OR_RETURN(parts.directory, DataDirectory::Open(options.ssd_path));
  QUIRE_ASSIGN_OR_RETURN(parts.dram, DramTier::Open(DramOptions(options), std::move(eviction)));
  QUIRE_ASSIGN_OR_RETURN(parts.database, Database::Open({.path = parts.directory->metadata_path(),
                                                         .env = machine.env}));
  QUIRE_RETURN_IF_ERROR(OpenPayload(options, machine, &parts));
  QUIRE_ASSIGN_OR_RETURN(parts.tenants,
                         TenantDirectory::Open(parts.database.get(), options.tenants));
  SsdTier ssd(parts.database.get(), parts.payload.get(), 0);
  QUIRE_ASSIGN_OR_RETURN(const SsdTier::Recovered recovered, ssd.Recover());
  SegmentCatalog catalog(parts.database.get(), 0);
  QUIRE_ASSIGN_OR_RETURN(const SegmentCatalog::Totals stored, catalog.CountAll());
  QUIRE_RETURN_IF_ERROR(catalog.Drop(stored.dram_only));
  auto store = std::unique_ptr<PageStoreImpl>(
      new PageStoreImpl(options, machine, std::move(parts), stored, recovered));
  // One of a tenant that the server has no more stays until the server has it again, and one that
  // cannot be deleted (the disk is full) until the next open: it takes space, and does no harm.
  for (const auto& [tenant, key] : stored.private_segments) {
    (void)store->DeleteSegment(tenant, key);
  }
  if (options.scrub_bytes_per_second > 0) store->scrubber_.Start();
  return store;
}

Status PageStoreImpl::OpenPayload(const Options& options, const Machine& machine, Parts* parts) {
  IoEngine* engine = machine.engine;
  if (engine == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(EngineChoice choice, ChooseEngine(EngineKind::kAuto, {}));
    parts->engine = std::move(choice.engine);
    engine = parts->engine.get();
  }
  parts->timed_engine = std::make_unique<TimedEngine>(engine, parts->latencies.get());
  const VolumeSet::Options volumes{
      .directory = parts->directory->payload_path(),
      .volume_bytes = options.ssd_volume_bytes,
      .free_bytes = [database = parts->database.get()] { return FreeForVolumes(*database); },
      .faults = machine.faults};
  QUIRE_ASSIGN_OR_RETURN(
      parts->payload,
      PayloadStore::Open({.volumes = volumes, .buffers = {}, .faults = machine.faults},
                         parts->timed_engine.get()));
  return OkStatus();
}

PageStoreImpl::PageStoreImpl(const Options& options, const Machine& machine, Parts parts,
                             const SegmentCatalog::Totals& stored,
                             const SsdTier::Recovered& recovered)
    : faults_(machine.faults),
      latencies_(std::move(parts.latencies)),
      directory_(std::move(parts.directory)),
      database_(std::move(parts.database)),
      engine_(std::move(parts.engine)),
      timed_engine_(std::move(parts.timed_engine)),
      payload_(std::move(parts.payload)),
      dram_(std::move(parts.dram)),
      tenants_(std::move(parts.tenants)),
      metadata_(database_.get()),
      ssd_(database_.get(), payload_.get(), options.extent_cache_bytes),
      catalog_(database_.get(), options.catalog_cache_bytes),
      gate_(options.ssd_gate),
      digests_(database_.get(), options.digest_cache_bytes, &gate_),
      reader_({.catalog = &catalog_,
               .dram = dram_.get(),
               .ssd = &ssd_,
               .writers = &writers_,
               .buffers = &payload_->buffers(),
               .gate = &gate_,
               .latencies = latencies_.get(),
               .prefill_cost = options.prefill_cost},
              std::make_unique<TouchPromotion>(options.promote_after_touches, kPromotionMemory)),
      deriver_(
          {.digests = &digests_, .reader = &reader_, .catalog = &catalog_, .writers = &writers_}),
      space_(options.ssd_bytes, options.tenant_ssd_quota_bytes),
      writer_({.database = database_.get(),
               .payload = payload_.get(),
               .catalog = &catalog_,
               .digests = &digests_,
               .dram = dram_.get(),
               .ssd = &ssd_,
               .writers = &writers_,
               .space = &space_,
               .segments = &segments_,
               .faults = machine.faults,
               .latencies = latencies_.get(),
               .clock = ClockOf(options),
               .prefill_cost = options.prefill_cost,
               .directory = directory_->path()},
              MakeAdmission(options)),
      scrubber_({.database = database_.get(),
                 .catalog = &catalog_,
                 .ssd = &ssd_,
                 .writers = &writers_,
                 .clock = ClockOf(options)},
                options.scrub_bytes_per_second) {
  for (const auto& [tenant, bytes] : stored.bytes) space_.ChargeStored(tenant, bytes);
  segments_.Add(stored.segments);
  dropped_.Add(recovered.dropped);
  lost_bytes_.Add(recovered.lost_bytes);
}

StatusOr<PutSegmentResult> PageStoreImpl::PutSegment(std::string_view tenant,
                                                     const PutSegmentArgs& args) {
  const LatencyTimer timer(latencies_->put, latencies_->clock);
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt* salt, tenants_.Salt(tenant));
  return writer_.Put(tenant, *salt, args);
}

StatusOr<std::vector<SegmentKey>> PageStoreImpl::Lookup(std::string_view tenant, const KvSpec& spec,
                                                        std::span<const TokenId> tokens) {
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt* salt, tenants_.Salt(tenant));
  if (const std::string problem = Problem(spec); !problem.empty()) {
    return InvalidArgument("KvSpec: ", problem);
  }
  if (tokens.size() > kMaxLookupTokens) {
    return InvalidArgument("a lookup of ", tokens.size(), " tokens; give at most ",
                           kMaxLookupTokens);
  }
  const SpecFingerprint fingerprint = Fingerprint(spec);
  std::vector<SegmentKey> keys;
  SegmentKey parent = kRootKey;
  for (uint32_t i = 0; i < SegmentCount(spec, tokens.size()); ++i) {
    const auto segment =
        tokens.subspan(size_t{i} * spec.segment_tokens(), TokensInSegment(spec, tokens.size(), i));
    parent = ComputeKey(*salt, fingerprint, parent, segment);
    const StatusOr<SegmentRecordPtr> record = catalog_.Find(tenant, parent);
    const StatusCode code = record.status().code();
    // A damaged segment counts as missing: the caller computes it again, and the put repairs it.
    if (code == StatusCode::kNotFound || code == StatusCode::kDataLoss) break;
    QUIRE_RETURN_IF_ERROR(record.status());
    if (catalog_.IsDamaged(parent) || !writer_.IsThere(parent, **record)) break;
    keys.push_back(parent);
  }
  return keys;
}

StatusOr<ChainPtr> PageStoreImpl::ResolveChain(std::string_view tenant, const SegmentKey& tip) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, tip));
  if (!record->private_pages) return catalog_.Resolve(tenant, tip);
  return NotFound("segment ", tip.Hex(), " is private to an open context; name the context");
}

StatusOr<std::vector<TokenId>> PageStoreImpl::Tokens(std::string_view tenant,
                                                     const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  return record->tokens;
}

Status PageStoreImpl::ReadUnits(const Caller& caller, std::span<const UnitAddress> units,
                                std::vector<UnitBytes>* out) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(caller.tenant));
  return reader_.Read(caller, units, out);
}

StatusOr<SegmentDigests> PageStoreImpl::ReadDigests(const Caller& caller, const SegmentKey& key,
                                                    uint32_t layer, kernels::DigestKind kind) {
  const LatencyTimer timer(latencies_->digests, latencies_->clock);
  QUIRE_RETURN_IF_ERROR(CheckTenant(caller.tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(caller.tenant, key));
  if (layer >= record->spec.num_layers) {
    return InvalidArgument("segment ", key.Hex(), " has no layer ", layer, ": it has ",
                           record->spec.num_layers);
  }
  if (!kernels::HasDigest(record->spec, kind)) {
    return InvalidArgument("segment ", key.Hex(), " cannot have digests of kind ",
                           static_cast<int>(kind), ": discs pair channels, and it has ",
                           record->spec.key_dim());
  }
  const ExtentId id{key, layer};
  StatusOr<DigestBytes> digests = kind == kernels::DigestKind::kMinMax
                                      ? digests_.Read(id, *record, caller.priority)
                                      : deriver_.Read({id, kind}, *record);
  if (digests.status().code() == StatusCode::kDataLoss) catalog_.MarkDamaged(key);
  QUIRE_RETURN_IF_ERROR(digests.status());
  return SegmentDigests{.bytes = *std::move(digests), .num_pages = record->num_pages()};
}

StatusOr<bool> PageStoreImpl::PutRepresentatives(std::string_view tenant, const SegmentKey& key,
                                                 std::span<const std::byte> digests) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  const KeyedLock::Guard guard = writers_.Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  constexpr auto kKind = kernels::DigestKind::kRepresentatives;
  const uint64_t bytes = record->spec.num_layers * DigestBytesPerLayer(*record, kKind);
  if (digests.size() != bytes) {
    return InvalidArgument("representatives of segment ", key.Hex(), " are ", bytes, " bytes, not ",
                           digests.size());
  }
  bool existed = true;
  for (uint32_t layer = 0; layer < record->spec.num_layers && existed; ++layer) {
    QUIRE_ASSIGN_OR_RETURN(const DigestBytes kept,
                           digests_.FindKept({{key, layer}, kKind}, *record));
    existed = kept != nullptr;
  }
  if (existed) return true;
  QUIRE_RETURN_IF_ERROR(digests_.KeepRepresentatives(key, *record, digests));
  return false;
}

StatusOr<ChainStat> PageStoreImpl::StatChain(std::string_view tenant, const Chain& chain) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  ChainStat stat;
  for (const SegmentKey& key : chain.keys) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
    stat.bytes += record->payload_bytes();
    if (!record->dram_only) ++stat.segments_on_ssd;
    if (dram_->HasAny(key)) ++stat.segments_in_dram;
  }
  return stat;
}

Status PageStoreImpl::DeleteSegment(std::string_view tenant, const SegmentKey& key) {
  const LatencyTimer timer(latencies_->erase, latencies_->clock);
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  const KeyedLock::Guard guard = writers_.Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  Database::Batch batch = database_->NewBatch();
  catalog_.StageErase(key, batch);
  digests_.StageErase(key, batch);
  QUIRE_ASSIGN_OR_RETURN(SsdTier::Change change, ssd_.StageErase(key, batch));
  Reach(faults_, FaultPoint::kBeforeCommit);
  {
    const LatencyTimer commit_timer(latencies_->commit, latencies_->clock);
    QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/false));
  }
  Reach(faults_, FaultPoint::kCommitted);
  change.Committed();
  QUIRE_RETURN_IF_ERROR(dram_->Erase(key));
  catalog_.Forget(key, *record);
  digests_.Forget(key, *record);
  if (!record->dram_only) space_.Release(tenant, record->stored_bytes());
  segments_.Sub(1);
  deletes_.Add();
  return OkStatus();
}

Status PageStoreImpl::PinSegments(std::string_view tenant, std::span<const SegmentKey> keys) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  for (size_t i = 0; i < keys.size(); ++i) {
    const Status pinned = PinSegment(tenant, keys[i]);
    if (pinned.ok()) continue;
    // A segment that was deleted meanwhile has no pin to take back.
    for (const SegmentKey& key : keys.first(i)) (void)dram_->Unpin(key);
    return pinned;
  }
  return OkStatus();
}

Status PageStoreImpl::PinSegment(std::string_view tenant, const SegmentKey& key) {
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  const uint64_t slot_bytes =
      Arena::SlotBytes(record->stored_extent_bytes(record->spec.segment_pages));
  // Before it comes, so that no part of it leaves while the rest is on its way.
  QUIRE_RETURN_IF_ERROR(dram_->Pin(key, record->spec.num_layers * slot_bytes));
  const Status brought = reader_.BringToDram(tenant, key);
  if (!brought.ok()) (void)dram_->Unpin(key);
  return brought;
}

Status PageStoreImpl::UnpinSegments(std::string_view tenant, std::span<const SegmentKey> keys) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  for (const SegmentKey& key : keys) {
    QUIRE_RETURN_IF_ERROR(catalog_.Find(tenant, key).status());
    QUIRE_RETURN_IF_ERROR(dram_->Unpin(key));
  }
  return OkStatus();
}

Status PageStoreImpl::CheckTenant(std::string_view tenant) const {
  return tenants_.Salt(tenant).status();
}

void PageStoreImpl::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("segments", "Segments stored.", segments_.Get());
  visit.Counter("deletes", "Segments deleted.", deletes_.Get());
  space_.VisitMetrics(visit);
  writer_.VisitMetrics(visit);
  latencies_->VisitMetrics(visit);
  gate_.VisitMetrics(visit);
  reader_.VisitMetrics(visit);
  catalog_.VisitMetrics(visit);
  digests_.VisitMetrics(visit);
  deriver_.VisitMetrics(visit);
  dram_->VisitMetrics(visit);
  ssd_.VisitMetrics(visit);
  visit.Counter("ssd_extents_dropped",
                "Extents whose records could not be used when the store was opened.",
                dropped_.Get());
  visit.Counter("ssd_bytes_lost",
                "Payload in volumes that were missing or cut when the store was opened.",
                lost_bytes_.Get());
  payload_->VisitMetrics(visit);
  database_->VisitMetrics(visit);
  scrubber_.VisitMetrics(visit);
}

}  // namespace quire::kvserver
