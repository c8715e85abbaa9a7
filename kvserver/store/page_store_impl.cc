// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/page_store_impl.h"

#include <algorithm>
#include <utility>

#include "kernels/api/page_digest.h"
#include "kvserver/store/metadata/format_proof.h"
#include "kvserver/store/metadata/last_uses.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/policy/eviction/eviction_factory.h"
#include "kvserver/store/policy/touch_promotion.h"
#include "kvserver/store/policy/write_budget.h"
#include "kvserver/store/repair/cached_record_scrub.h"
#include "kvserver/store/repair/digest_scrub.h"
#include "kvserver/store/repair/dram_scrub.h"
#include "kvserver/store/repair/payload_scrub.h"
#include "kvserver/store/repair/record_scrub.h"

namespace quire::kvserver {
namespace {

// Bytes left to the metadata when a volume is made: twice the request of a put (SegmentWriter).
constexpr uint64_t kLeftForMetadata = 128 << 20;
constexpr size_t kMaxLookupTokens = size_t{1} << 24;
// Most remembered reads of extents from SSD, some 64 bytes each.
constexpr size_t kPromotionMemory = 65536;
// I/O that takes longer is reported. A batch has at most 8 MiB, so no working device takes that
// long.
constexpr Duration kStallBound = std::chrono::seconds(5);
/// Time without a failed read after which the device counts as sound again.
constexpr Duration kReadsQuiet = std::chrono::minutes(1);
// Upper bound of the volumes that one line names.
constexpr size_t kMostNamedVolumes = 3;

std::unique_ptr<AdmissionPolicy> MakeAdmission(const PageStore::Options& options) {
  if (options.ssd_write_bytes_per_second == 0) return nullptr;
  return std::make_unique<WriteBudget>(
      WriteBudget::Options{.bytes_per_second = options.ssd_write_bytes_per_second,
                           .burst_bytes = options.ssd_write_burst_bytes});
}

DramTier::Options DramOptions(const PageStore::Options& options, SegmentEventLog* events) {
  DramTier::Options dram;
  dram.memory = {.bytes = options.dram_bytes,
                 .numa_node = options.dram_numa_node,
                 .prefault = options.dram_prefault};
  dram.high_watermark = options.dram_high_watermark;
  dram.low_watermark = options.dram_low_watermark;
  dram.tenant_quotas = options.tenant_dram_quota_bytes;
  dram.events = events;
  return dram;
}

Clock* ClockOf(const PageStore::Options& options) {
  return options.clock != nullptr ? options.clock : &SystemClock();
}

/// Bytes of the file system that volumes may take; without this bound they would fill it.
StatusOr<uint64_t> FreeForVolumes(Database& database) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t bytes, database.FreeBytes());
  return bytes - std::min(bytes, kLeftForMetadata);
}

/// Divides the store's part of the disk: the option, or a share of the free bytes and its present
/// files.
StatusOr<SsdBudget> BudgetOf(const PageStore::Options& options, const DataDirectory& directory,
                             Disk& disk, rocksdb::Env* env) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t volumes,
                         VolumeSet::BytesIn(directory.payload_path(), disk));
  if (options.ssd_bytes != 0) {
    return DivideSsd(options.ssd_bytes, options.ssd_volume_bytes, volumes);
  }
  QUIRE_ASSIGN_OR_RETURN(const Database::Space space,
                         Database::Measure(directory.metadata_path(), env));
  const uint64_t bytes = space.free_bytes + space.used_bytes + volumes;
  const auto share = static_cast<uint64_t>(PageStore::kSsdShare * static_cast<double>(bytes));
  // A default limit must not keep a store from being opened.
  const uint64_t least = volumes + SsdBudget::kLeastBytes;
  QUIRE_ASSIGN_OR_RETURN(SsdBudget budget,
                         DivideSsd(std::max(share, least), options.ssd_volume_bytes, volumes));
  budget.volume_bytes = options.ssd_volume_bytes;
  return budget;
}

/// Restores the last uses of segments, and drops rows of others.
Status RestoreLastUses(Database& database, std::vector<SegmentCatalog::Listed>* segments) {
  QUIRE_ASSIGN_OR_RETURN(LastUses uses, ReadLastUses(database));
  for (SegmentCatalog::Listed& segment : *segments) {
    const auto use = uses.find(segment.key);
    if (use == uses.end()) continue;
    segment.last_use_micros = std::max(segment.last_use_micros, use->second);
    uses.erase(use);
  }
  if (uses.empty()) return OkStatus();
  Database::Batch batch = database.NewBatch();
  for (const auto& [key, use] : uses) StageForgetLastUse(database, key, batch);
  return database.Commit(batch, /*sync=*/false);
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
  QUIRE_ASSIGN_OR_RETURN(parts.cached_eviction, MakeEvictionPolicy(options.eviction_policy));
  parts.health = options.health;
  if (parts.health == nullptr) {
    parts.own_health = std::make_unique<Health>(ClockOf(options));
    parts.health = parts.own_health.get();
  }
  parts.watch = std::make_unique<StallWatch>(ClockOf(options), kStallBound);
  parts.reads = std::make_unique<RecurringTrouble>(parts.health, Trouble::kReadFailed,
                                                   ClockOf(options), kReadsQuiet);
  parts.latencies =
      std::make_unique<StoreLatencies>(options.clock != nullptr ? *options.clock : SystemClock());
  Disk& disk = machine.disk != nullptr ? *machine.disk : SystemDisk();
  QUIRE_ASSIGN_OR_RETURN(parts.directory, DataDirectory::Open(options.ssd_path, disk, machine.env));
  parts.events = std::make_unique<SegmentEventLog>(
      ClockOf(options),
      static_cast<uint64_t>(std::max<int64_t>(ClockOf(options)->UnixMicros(), 1)));
  QUIRE_ASSIGN_OR_RETURN(
      parts.dram, DramTier::Open(DramOptions(options, parts.events.get()), std::move(eviction)));
  QUIRE_ASSIGN_OR_RETURN(parts.budget, BudgetOf(options, *parts.directory, disk, machine.env));
  QUIRE_ASSIGN_OR_RETURN(parts.database,
                         Database::Open({.path = parts.directory->metadata_path(),
                                         .env = machine.env,
                                         .watch = parts.watch.get(),
                                         .health = parts.health,
                                         .reads = parts.reads.get(),
                                         .limit_bytes = parts.budget.metadata_bytes,
                                         .buffer_bytes = parts.budget.buffer_bytes}));
  QUIRE_RETURN_IF_ERROR(parts.directory->Upgrade());
  QUIRE_RETURN_IF_ERROR(NoteFormat(*parts.database));
  QUIRE_RETURN_IF_ERROR(OpenPayload(machine, &parts));
  QUIRE_ASSIGN_OR_RETURN(parts.tenants, TenantDirectory::Open(parts.database.get(), options.tenants,
                                                              options.agree_on_salts));
  SsdTier ssd(parts.database.get(), parts.payload.get(), 0);
  QUIRE_ASSIGN_OR_RETURN(const SsdTier::Recovered recovered, ssd.Recover());
  SegmentCatalog catalog(parts.database.get(), 0);
  QUIRE_ASSIGN_OR_RETURN(SegmentCatalog::Totals stored, catalog.CountAll(recovered.whole_extents));
  QUIRE_RETURN_IF_ERROR(RestoreLastUses(*parts.database, &stored.segments));
  QUIRE_RETURN_IF_ERROR(catalog.Drop(stored.dram_only));
  auto store = std::unique_ptr<PageStoreImpl>(
      new PageStoreImpl(options, machine, std::move(parts), stored, recovered));
  // A segment of a removed tenant stays until the server has the tenant again. One that cannot be
  // deleted (the disk is full) stays until the next open. It takes space, and does no harm.
  for (const auto& [tenant, key] : stored.private_segments) {
    (void)store->DeleteSegment(tenant, key);
  }
  store->StartScrubbing(options);
  return store;
}

Status PageStoreImpl::OpenPayload(const Machine& machine, Parts* parts) {
  IoEngine* engine = machine.engine;
  if (engine == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(EngineChoice choice, ChooseEngine(EngineKind::kAuto, {}));
    parts->engine = std::move(choice.engine);
    engine = parts->engine.get();
  }
  parts->timed_engine =
      std::make_unique<TimedEngine>(engine, parts->latencies.get(), parts->watch.get());
  const VolumeSet::Options volumes{
      .directory = parts->directory->payload_path(),
      .volume_bytes = parts->budget.volume_bytes,
      .limit_bytes = parts->budget.volumes_bytes,
      .free_bytes = [database = parts->database.get()] { return FreeForVolumes(*database); },
      .faults = machine.faults,
      .disk = machine.disk};
  QUIRE_ASSIGN_OR_RETURN(parts->payload, PayloadStore::Open({.volumes = volumes,
                                                             .buffers = {},
                                                             .faults = machine.faults,
                                                             .health = parts->health,
                                                             .reads = parts->reads.get()},
                                                            parts->timed_engine.get()));
  return OkStatus();
}

PageStoreImpl::PageStoreImpl(const Options& options, const Machine& machine, Parts parts,
                             const SegmentCatalog::Totals& stored,
                             const SsdTier::Recovered& recovered)
    : own_health_(std::move(parts.own_health)),
      health_(*parts.health),
      watch_(std::move(parts.watch)),
      reads_(std::move(parts.reads)),
      latencies_(std::move(parts.latencies)),
      directory_(std::move(parts.directory)),
      database_(std::move(parts.database)),
      engine_(std::move(parts.engine)),
      timed_engine_(std::move(parts.timed_engine)),
      payload_(std::move(parts.payload)),
      events_(std::move(parts.events)),
      dram_(std::move(parts.dram)),
      tenants_(std::move(parts.tenants)),
      budget_(parts.budget),
      metadata_(database_.get()),
      ssd_(database_.get(), payload_.get(), options.extent_cache_bytes),
      catalog_(database_.get(), options.catalog_cache_bytes, &health_),
      damage_(dram_.get(), &catalog_, &health_),
      gate_(options.ssd_gate),
      digests_(database_.get(), &ssd_, options.digest_cache_bytes, &gate_),
      reader_({.catalog = &catalog_,
               .dram = dram_.get(),
               .damage = &damage_,
               .ssd = &ssd_,
               .writers = &writers_,
               .buffers = &payload_->buffers(),
               .gate = &gate_,
               .latencies = latencies_.get(),
               .health = &health_,
               .prefill_cost = options.prefill_cost},
              std::make_unique<TouchPromotion>(options.promote_after_touches, kPromotionMemory)),
      deriver_(
          {.digests = &digests_, .reader = &reader_, .catalog = &catalog_, .writers = &writers_}),
      space_(parts.budget.payload_bytes, options.tenant_ssd_quota_bytes),
      keeper_({.database = database_.get(),
               .catalog = &catalog_,
               .digests = &digests_,
               .dram = dram_.get(),
               .ssd = &ssd_,
               .writers = &writers_,
               .space = &space_,
               .faults = machine.faults,
               .health = &health_,
               .latencies = latencies_.get(),
               .clock = ClockOf(options),
               .events = events_.get()},
              std::move(parts.cached_eviction),
              {.tier_bytes = parts.budget.payload_bytes, .quotas = options.tenant_ssd_quota_bytes},
              options.cached_ttl),
      hints_(dram_.get(), &keeper_, ClockOf(options)),
      writer_({.database = database_.get(),
               .catalog = &catalog_,
               .digests = &digests_,
               .dram = dram_.get(),
               .damage = &damage_,
               .ssd = &ssd_,
               .writers = &writers_,
               .space = &space_,
               .keeper = &keeper_,
               .faults = machine.faults,
               .health = &health_,
               .latencies = latencies_.get(),
               .clock = ClockOf(options),
               .prefill_cost = options.prefill_cost,
               .directory = directory_->path()},
              MakeAdmission(options)) {
  std::vector<SegmentCatalog::Listed> segments = stored.segments;
  std::ranges::sort(segments, {}, [](const SegmentCatalog::Listed& segment) {
    return std::pair(segment.last_use_micros, segment.incarnation);
  });
  for (const SegmentCatalog::Listed& segment : segments) {
    if (!segment.tenant.empty()) space_.ChargeStored(segment.tenant, segment.bytes);
    keeper_.Restore({.key = segment.key,
                     .tenant = segment.tenant,
                     .parent = segment.parent,
                     .bytes = segment.bytes,
                     // 0 means about to be put; segments older than incarnations have 1.
                     .incarnation = std::max<uint64_t>(segment.incarnation, 1),
                     .listed = segment.listed},
                    segment.last_use_micros);
  }
  dropped_.Add(recovered.dropped);
  torn_.Add(recovered.torn.size());
  lost_bytes_.Add(recovered.lost_bytes);
  lost_segments_.Add(stored.incomplete.size());
  TellWhatIsLost(stored, recovered);
}

void PageStoreImpl::TellWhatIsLost(const SegmentCatalog::Totals& stored,
                                   const SsdTier::Recovered& recovered) {
  if (!stored.incomplete.empty()) {
    std::string where;
    const std::vector<std::string> volumes = payload_->LostVolumes();
    for (size_t i = 0; i < std::min(volumes.size(), kMostNamedVolumes); ++i) {
      where += (i > 0 ? ", " : "") + volumes[i];
    }
    if (volumes.size() > kMostNamedVolumes) {
      where += " and " + std::to_string(volumes.size() - kMostNamedVolumes) + " more";
    }
    catalog_.MarkDamaged(
        stored.incomplete,
        std::to_string(stored.incomplete.size()) + " segments are lost, " +
            std::to_string(recovered.lost_bytes) +
            " bytes of their payload with volumes that are " + "missing or were cut (" +
            (where.empty() ? "none" : where) + "), " + std::to_string(recovered.dropped) +
            " extents with records that cannot be used; they count as missing: stop the server and "
            "give the volumes back if they are elsewhere, or put the documents again of which "
            "`quire ls` says that segments are lost");
  }
  if (!recovered.torn.empty()) {
    health_.Note(Trouble::kDataTorn,
                 std::to_string(recovered.torn.size()) +
                     " segments that were put without a sync were not whole after the machine or "
                     "the server had stopped, and were dropped; put their documents again, at "
                     "durability persisted when they are to survive that");
  }
}

void PageStoreImpl::StartScrubbing(const Options& options) {
  const auto add = [&](std::unique_ptr<ScrubWork> work, uint64_t bytes_per_second) {
    scrubbers_.push_back(std::make_unique<Scrubber>(
        std::move(work),
        Scrubber::Options{bytes_per_second, ClockOf(options), options.scrub_observer}));
    if (bytes_per_second > 0) scrubbers_.back()->Start();
  };
  Database* const database = database_.get();
  const ScrubRates& rates = options.scrub_bytes_per_second;
  add(std::make_unique<PayloadScrub>(PayloadScrub::Parts{database, &catalog_, &ssd_, &writers_}),
      rates.payload);
  add(std::make_unique<DramScrub>(DramScrub::Parts{dram_.get(), &reader_, &catalog_}), rates.dram);
  add(std::make_unique<DigestScrub>(DigestScrub::Parts{database, &ssd_, &deriver_}), rates.digests);
  add(std::make_unique<RecordScrub>(
          RecordScrub::Parts{database, &catalog_, &writers_, options.check_metadata, &health_}),
      rates.records);
  add(std::make_unique<CachedRecordScrub>(CachedRecordScrub::Parts{&catalog_, &ssd_}),
      rates.records);
}

// When a sync fails, unsynced acknowledgements keep their promise, and the next open checks them.
// Errors are therefore not reported. The same is true of unwritten last uses.
PageStoreImpl::~PageStoreImpl() {
  (void)keeper_.NoteUses();
  (void)ssd_.Sync();
}

StatusOr<PutSegmentResult> PageStoreImpl::PutSegment(std::string_view tenant,
                                                     const PutSegmentArgs& args) {
  const LatencyTimer timer(latencies_->put, latencies_->clock);
  const WaitTimer waiting(args.waits, WaitedFor::kSsd);
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
    if (catalog_.IsDamaged(parent) || !writer_.IsReadable(parent, **record)) break;
    keys.push_back(parent);
  }
  return keys;
}

StatusOr<StoredObjectStat> PageStoreImpl::FindObject(std::string_view tenant,
                                                     std::string_view object_key,
                                                     SegmentHold* hold) {
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt* salt, tenants_.Salt(tenant));
  const SegmentKey key = ComputeObjectKey(*salt, object_key);
  SegmentHold held;
  if (hold != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(held, keeper_.Hold({&key, 1}));
  }
  const StatusOr<SegmentRecordPtr> found = catalog_.Find(tenant, key);
  // A damaged object counts as missing: its owner puts it again, which repairs it.
  if (IsDataLoss(found.status())) return NotStored(key);
  QUIRE_RETURN_IF_ERROR(found.status());
  const SegmentRecord& record = **found;
  if (!record.object || catalog_.IsDamaged(key) || !writer_.IsHere(key, record)) {
    return NotStored(key);
  }
  if (hold != nullptr) hold->Add(std::move(held));
  return StoredObjectStat{
      .key = key, .size_bytes = record.object->size_bytes, .incarnation = record.incarnation};
}

StatusOr<ChainPtr> PageStoreImpl::ResolveChain(std::string_view tenant, const SegmentKey& tip) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.FindPages(tenant, tip));
  if (!record->private_pages) return catalog_.Resolve(tenant, tip);
  return NotFound("segment ", tip.Hex(), " is private to an open context; name the context");
}

StatusOr<std::vector<TokenId>> PageStoreImpl::Tokens(std::string_view tenant,
                                                     const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.FindPages(tenant, key));
  return record->tokens;
}

StatusOr<CodecParams> PageStoreImpl::StoredCodec(std::string_view tenant, const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.FindPages(tenant, key));
  if (catalog_.IsDamaged(key)) return NotStored(key);
  return record->codec;
}

Status PageStoreImpl::ReadUnits(const Caller& caller, std::span<const UnitAddress> units,
                                const CodecSet& codecs, std::vector<UnitBytes>* out) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(caller.tenant));
  return reader_.Read(caller, units, codecs, out);
}

Status PageStoreImpl::ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                                   std::vector<VerifiedBytes>* out) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(caller.tenant));
  return reader_.ReadVerified(caller, units, out);
}

Status PageStoreImpl::Recheck(const Caller& caller, std::span<const ReportedUnit> units) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(caller.tenant));
  return reader_.Recheck(caller, units);
}

StatusOr<SegmentDigests> PageStoreImpl::ReadDigests(const Caller& caller, const SegmentKey& key,
                                                    uint32_t layer, kernels::DigestKind kind) {
  const LatencyTimer timer(latencies_->digests, latencies_->clock);
  const WaitTimer waiting(caller.waits, WaitedFor::kSsd);
  QUIRE_RETURN_IF_ERROR(CheckTenant(caller.tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.FindPages(caller.tenant, key));
  if (layer >= record->spec.num_layers) {
    return InvalidArgument("segment ", key.Hex(), " has no layer ", layer, ": it has ",
                           record->spec.num_layers);
  }
  if (!kernels::HasDigest(record->spec, kind)) {
    return InvalidArgument("segment ", key.Hex(), " cannot have digests of kind ",
                           static_cast<int>(kind));
  }
  QUIRE_ASSIGN_OR_RETURN(DigestBytes digests,
                         deriver_.Read({{key, layer}, kind}, *record, caller.priority));
  return SegmentDigests{.bytes = {digests, &digests->bytes()},
                        .num_pages = record->num_pages(),
                        .crc32c = digests->crc32c()};
}

StatusOr<bool> PageStoreImpl::PutRepresentatives(std::string_view tenant, const SegmentKey& key,
                                                 std::span<const std::byte> digests) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  const KeyedLock::Guard guard = writers_.Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.FindPages(tenant, key));
  constexpr auto kKind = kernels::DigestKind::kRepresentatives;
  const uint64_t bytes = record->spec.num_layers * DigestBytesPerLayer(*record, kKind);
  if (digests.size() != bytes) {
    return InvalidArgument("representatives of segment ", key.Hex(), " are ", bytes, " bytes, not ",
                           digests.size());
  }
  bool existed = true;
  for (uint32_t layer = 0; layer < record->spec.num_layers && existed; ++layer) {
    QUIRE_ASSIGN_OR_RETURN(const DigestBytes kept, digests_.Find({{key, layer}, kKind}, *record));
    existed = kept != nullptr;
  }
  if (existed) return true;
  QUIRE_RETURN_IF_ERROR(digests_.KeepRepresentatives(key, *record, digests));
  return false;
}

StatusOr<std::vector<std::byte>> PageStoreImpl::ReadRepresentatives(const Caller& caller,
                                                                    const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(caller.tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.FindPages(caller.tenant, key));
  std::vector<std::byte> all;
  for (uint32_t layer = 0; layer < record->spec.num_layers; ++layer) {
    const DigestId id{{key, layer}, kernels::DigestKind::kRepresentatives};
    QUIRE_ASSIGN_OR_RETURN(const DigestBytes kept, digests_.Find(id, *record, caller.priority));
    if (kept == nullptr) return std::vector<std::byte>();
    all.insert(all.end(), kept->bytes().begin(), kept->bytes().end());
  }
  return all;
}

StatusOr<ChainStat> PageStoreImpl::StatChain(std::string_view tenant, const Chain& chain) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  ChainStat stat;
  for (const SegmentKey& key : chain.keys) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
    stat.bytes += record->payload_bytes();
    if (!record->dram_only) ++stat.segments_on_ssd;
    if (dram_->HasAny(key)) ++stat.segments_in_dram;
    if (catalog_.IsDamaged(key) || !writer_.IsReadable(key, *record)) ++stat.segments_lost;
  }
  return stat;
}

Status PageStoreImpl::DeleteSegment(std::string_view tenant, const SegmentKey& key) {
  const LatencyTimer timer(latencies_->erase, latencies_->clock);
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckMayRemove(tenant, key));
  return keeper_.Delete(key);
}

uint32_t PageStoreImpl::LostSegments(std::string_view tenant, const SegmentKey& tip) {
  if (!catalog_.HasDamaged() && !keeper_.MissesNamed()) return 0;
  const StatusOr<ChainPtr> chain = catalog_.Resolve(tenant, tip);
  if (!chain.ok()) return 1;
  return static_cast<uint32_t>(std::ranges::count_if(
      (*chain)->keys, [&](const SegmentKey& key) { return catalog_.IsDamaged(key); }));
}

void PageStoreImpl::CheckDevice() {
  const auto stall = watch_->Find();
  if (!stall) return health_.Clear(Trouble::kDeviceStalled);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(stall->in_flight).count();
  health_.Raise(Trouble::kDeviceStalled, std::string(stall->what) + " has been in flight for " +
                                             std::to_string(seconds) + " s in " +
                                             directory_->path() + "; check the device");
}

// A damaged record does not tell its owner; any caller with its key may remove it.
Status PageStoreImpl::CheckMayRemove(std::string_view tenant, const SegmentKey& key) {
  const Status found = catalog_.Find(tenant, key).status();
  return IsDataLoss(found) ? OkStatus() : found;
}

StatusOr<SegmentHold> PageStoreImpl::HoldSegments(std::string_view tenant,
                                                  std::span<const SegmentKey> keys) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  return keeper_.Hold(keys);
}

Status PageStoreImpl::NameSegments(std::string_view tenant, std::span<const SegmentKey> keys) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  return keeper_.Name(keys);
}

Status PageStoreImpl::RemoveMarked(std::string_view tenant, const SegmentKey& key,
                                   uint64_t incarnation) {
  const LatencyTimer timer(latencies_->erase, latencies_->clock);
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_RETURN_IF_ERROR(CheckMayRemove(tenant, key));
  return keeper_.RemoveMarked(key, incarnation);
}

Status PageStoreImpl::PinSegments(std::string_view tenant, std::span<const SegmentKey> keys) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  for (size_t i = 0; i < keys.size(); ++i) {
    const Status pinned = PinSegment(tenant, keys[i]);
    if (pinned.ok()) continue;
    // A segment deleted meanwhile has no pin to release.
    for (const SegmentKey& key : keys.first(i)) (void)UnpinSegment(key);
    return pinned;
  }
  return OkStatus();
}

Status PageStoreImpl::PinSegment(std::string_view tenant, const SegmentKey& key) {
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  const uint64_t slot_bytes = Arena::SlotBytes(record->slot_bytes());
  QUIRE_ASSIGN_OR_RETURN(SegmentHold hold, keeper_.Hold({&key, 1}));
  // Pin before loading, so that no extent leaves while others load.
  QUIRE_RETURN_IF_ERROR(dram_->Pin(key, record->num_layers() * slot_bytes));
  const Status brought = reader_.BringToDram(tenant, key);
  if (brought.ok()) {
    hold.Detach();  // UnpinSegment releases it.
  } else {
    (void)dram_->Unpin(key);
  }
  return brought;
}

Status PageStoreImpl::UnpinSegment(const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(dram_->Unpin(key));
  keeper_.ReleaseSegments({&key, 1});
  return OkStatus();
}

Status PageStoreImpl::UnpinSegments(std::string_view tenant, std::span<const SegmentKey> keys) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  for (const SegmentKey& key : keys) {
    QUIRE_RETURN_IF_ERROR(catalog_.Find(tenant, key).status());
    QUIRE_RETURN_IF_ERROR(UnpinSegment(key));
  }
  return OkStatus();
}

std::vector<ListedSegment> PageStoreImpl::ListSegments(std::string_view tenant,
                                                       const SegmentKey& after,
                                                       size_t limit) const {
  std::vector<ListedSegment> listed = keeper_.List(tenant, after, limit);
  for (ListedSegment& segment : listed) segment.in_dram = dram_->HasAny(segment.segment);
  return listed;
}

StatusOr<HeldChain> PageStoreImpl::HoldConversation(std::string_view tenant,
                                                    std::string_view conversation) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SegmentKey> segments,
                         hints_.SegmentsOf(tenant, conversation));
  // A chain leaves from its end, so the rest of one that has begun to leave is found, too.
  for (const SegmentKey& segment : segments) {
    StatusOr<HeldChain> held = HoldChain(tenant, segment);
    if (held.ok() || !(IsNotFound(held.status()) || IsDataLoss(held.status()))) return held;
  }
  return NotFound("nothing of conversation '", conversation, "' is stored any more");
}

Status PageStoreImpl::CheckTenant(std::string_view tenant) const {
  return tenants_.Salt(tenant).status();
}

void PageStoreImpl::VisitMetrics(MetricsVisitor& visit) const {
  if (own_health_ != nullptr) own_health_->VisitMetrics(visit);
  keeper_.VisitMetrics(visit);
  hints_.VisitMetrics(visit);
  events_->VisitMetrics(visit);
  space_.VisitMetrics(visit);
  writer_.VisitMetrics(visit);
  latencies_->VisitMetrics(visit);
  gate_.VisitMetrics(visit);
  reader_.VisitMetrics(visit);
  catalog_.VisitMetrics(visit);
  digests_.VisitMetrics(visit);
  deriver_.VisitMetrics(visit);
  dram_->VisitMetrics(visit);
  damage_.VisitMetrics(visit);
  ssd_.VisitMetrics(visit);
  visit.Counter("ssd_extents_dropped",
                "Extents whose records could not be used when the store was opened.",
                dropped_.Get());
  visit.Counter(
      "segments_torn",
      "Segments that were put without a sync and were not whole when the store was opened.",
      torn_.Get());
  visit.Counter("ssd_bytes_lost",
                "Payload in volumes that were missing or cut when the store was opened.",
                lost_bytes_.Get());
  visit.Gauge("ssd_disk_bytes_limit", "Disk that the data directory may take.",
              budget_.limit_bytes);
  visit.Counter("segments_lost",
                "Segments of which payload or records were gone when the store was opened.",
                lost_segments_.Get());
  payload_->VisitMetrics(visit);
  database_->VisitMetrics(visit);
  for (const auto& scrubber : scrubbers_) scrubber->VisitMetrics(visit);
}

}  // namespace quire::kvserver
