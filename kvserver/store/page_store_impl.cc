// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/page_store_impl.h"

#include <algorithm>
#include <utility>

#include "kvserver/store/payload/engine_choice.h"
#include "kvserver/store/policy/eviction_factory.h"
#include "kvserver/store/policy/touch_promotion.h"
#include "kvserver/store/put_request.h"

namespace quire::kvserver {
namespace {

// Left free on the file system, so that the database can still compact and log.
constexpr uint64_t kMinFreeBytes = 64 << 20;
constexpr size_t kMaxLookupTokens = size_t{1} << 24;
// Extents that were read from SSD and may be read again; 64 bytes each or so.
constexpr size_t kPromotionMemory = 65536;

/// What a segment adds to the database, which writes it to the log and to a table: the digests of
/// each unit's keys (two rows) and checksums in both records.
uint64_t MetadataBytes(const SegmentRecord& record) {
  const uint64_t rows = quire::UnitBytes(record.spec) / record.spec.page_tokens;
  return 2 * record.unit_crc32c.size() * (rows + 2 * sizeof(uint32_t));
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
  QUIRE_ASSIGN_OR_RETURN(parts.directory, DataDirectory::Open(options.ssd_path));
  QUIRE_ASSIGN_OR_RETURN(parts.dram, DramTier::Open(options.dram_bytes, std::move(eviction)));
  QUIRE_ASSIGN_OR_RETURN(parts.database, Database::Open({.path = parts.directory->metadata_path(),
                                                         .env = machine.env}));
  QUIRE_RETURN_IF_ERROR(OpenPayload(options, machine.engine, &parts));
  QUIRE_ASSIGN_OR_RETURN(parts.tenants,
                         TenantDirectory::Open(parts.database.get(), options.tenants));
  SsdTier ssd(parts.database.get(), parts.payload.get());
  QUIRE_ASSIGN_OR_RETURN(const SsdTier::Recovered recovered, ssd.Recover());
  SegmentCatalog catalog(parts.database.get(), 0);
  QUIRE_ASSIGN_OR_RETURN(const SegmentCatalog::Totals stored, catalog.CountAll());
  return std::unique_ptr<PageStoreImpl>(
      new PageStoreImpl(options, std::move(parts), stored, recovered));
}

Status PageStoreImpl::OpenPayload(const Options& options, IoEngine* engine, Parts* parts) {
  if (engine == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(EngineChoice choice, ChooseEngine(EngineKind::kAuto, {}));
    parts->engine = std::move(choice.engine);
    engine = parts->engine.get();
  }
  const VolumeSet::Options volumes{.directory = parts->directory->payload_path(),
                                   .volume_bytes = options.ssd_volume_bytes};
  QUIRE_ASSIGN_OR_RETURN(parts->payload,
                         PayloadStore::Open({.volumes = volumes, .buffers = {}}, engine));
  return OkStatus();
}

PageStoreImpl::PageStoreImpl(const Options& options, Parts parts,
                             const SegmentCatalog::Totals& stored,
                             const SsdTier::Recovered& recovered)
    : directory_(std::move(parts.directory)),
      database_(std::move(parts.database)),
      engine_(std::move(parts.engine)),
      payload_(std::move(parts.payload)),
      dram_(std::move(parts.dram)),
      tenants_(std::move(parts.tenants)),
      metadata_(database_.get()),
      ssd_(database_.get(), payload_.get()),
      catalog_(database_.get(), options.catalog_cache_bytes),
      digests_(database_.get(), options.digest_cache_bytes),
      reader_({.catalog = &catalog_, .dram = dram_.get(), .ssd = &ssd_, .writers = &writers_},
              std::make_unique<TouchPromotion>(options.promote_after_touches, kPromotionMemory)),
      budget_(options.ssd_bytes, stored.payload_bytes),
      pins_(options.dram_bytes) {
  segments_.Add(stored.segments);
  dropped_.Add(recovered.dropped);
  lost_bytes_.Add(recovered.lost_bytes);
}

StatusOr<PutSegmentResult> PageStoreImpl::PutSegment(std::string_view tenant,
                                                     const PutSegmentArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(const TenantSalt* salt, tenants_.Salt(tenant));
  QUIRE_RETURN_IF_ERROR(CheckPutArguments(args));
  const SegmentKey key = ComputeKey(*salt, Fingerprint(*args.spec), args.parent, args.tokens);
  if (args.expected_key && *args.expected_key != key) {
    return InvalidArgument("the segment's key is ", key.Hex(), ", the caller expected ",
                           args.expected_key->Hex(),
                           "; compute keys with this server's salt, spec, parent and tokens");
  }
  const auto record = std::make_shared<SegmentRecord>(MakeRecord(tenant, args));
  const KeyedLock::Guard guard = writers_.Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const Stored stored, FindStored(key, *record));
  puts_.Add();
  if (stored == Stored::kWhole) {
    existed_.Add();
    if (args.durability == Durability::kPersisted) QUIRE_RETURN_IF_ERROR(Sync());
    return PutSegmentResult{.key = key, .existed = true};
  }
  QUIRE_ASSIGN_OR_RETURN(record->first_token, FirstToken(tenant, args));
  QUIRE_RETURN_IF_ERROR(Write(key, record, args, stored));
  return PutSegmentResult{.key = key, .existed = false};
}

StatusOr<PageStoreImpl::Stored> PageStoreImpl::FindStored(const SegmentKey& key,
                                                          const SegmentRecord& record) {
  const StatusOr<SegmentRecordPtr> found = catalog_.Find(record.tenant, key);
  const StatusCode code = found.status().code();
  // A record that cannot be read any more is written anew.
  if (code == StatusCode::kNotFound || code == StatusCode::kDataLoss) return Stored::kNot;
  QUIRE_RETURN_IF_ERROR(found.status());
  if ((*found)->unit_crc32c != record.unit_crc32c) {
    return AlreadyExists("segment ", key.Hex(),
                         " is stored with different bytes, and a sealed segment never changes; "
                         "use other weights_hash when the model differs, or delete it first");
  }
  return catalog_.IsDamaged(key) ? Stored::kDamaged : Stored::kWhole;
}

StatusOr<uint64_t> PageStoreImpl::FirstToken(std::string_view tenant, const PutSegmentArgs& args) {
  if (args.parent == kRootKey) return 0;
  const StatusOr<SegmentRecordPtr> parent = catalog_.Find(tenant, args.parent);
  QUIRE_RETURN_IF_ERROR(Annotate(parent.status(), "parent"));
  const SegmentRecord& p = **parent;
  if (p.spec != *args.spec) {
    return InvalidArgument("the parent ", args.parent.Hex(), " has another KvSpec (",
                           FirstDifference(p.spec, *args.spec), "); start a chain of its own");
  }
  if (!p.is_full()) {
    return InvalidArgument("the parent ", args.parent.Hex(), " has ", p.tokens.size(), " of ",
                           p.spec.segment_tokens(), " tokens; only full segments are continued");
  }
  const uint64_t first_token = p.first_token + p.tokens.size();
  if (first_token / p.spec.segment_tokens() >= kMaxChainSegments) {
    return ResourceExhausted("the chain has ", kMaxChainSegments,
                             " segments, which is the limit; use larger segment_pages");
  }
  return first_token;
}

Status PageStoreImpl::Sync() {
  QUIRE_RETURN_IF_ERROR(payload_->Sync());
  return database_->Sync();
}

Status PageStoreImpl::Reserve(const SegmentRecord& record, uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t free_bytes, database_->FreeBytes());
  const uint64_t needed = kMinFreeBytes + MetadataBytes(record);
  if (free_bytes < needed) {
    return ResourceExhausted("data directory ", directory_->path(), " has ", free_bytes,
                             " bytes free, the metadata of a segment needs ", needed,
                             "; free space or delete documents, then retry");
  }
  if (!budget_.TryReserve(bytes)) {
    return ResourceExhausted("the store holds ", budget_.used_bytes(), " of ssd_bytes ",
                             budget_.limit_bytes(), " and a segment needs ", bytes,
                             "; delete documents or raise ssd_bytes, then retry");
  }
  return OkStatus();
}

Status PageStoreImpl::Commit(const SegmentKey& key, const SegmentRecord& record,
                             const PutSegmentArgs& args, std::span<const ExtentView> extents) {
  const bool sync = args.durability == Durability::kPersisted;
  Database::Batch batch = database_->NewBatch();
  QUIRE_ASSIGN_OR_RETURN(SsdTier::Change change, ssd_.StagePut(extents, sync, batch));
  QUIRE_RETURN_IF_ERROR(digests_.StagePut(key, record, args.payload, batch));
  catalog_.StagePut(key, record, batch);
  QUIRE_RETURN_IF_ERROR(database_->Commit(batch, sync));
  change.Committed();
  return OkStatus();
}

Status PageStoreImpl::Write(const SegmentKey& key, const SegmentRecordPtr& record,
                            const PutSegmentArgs& args, Stored before) {
  const uint64_t reserved = before == Stored::kDamaged ? 0 : record->payload_bytes();
  QUIRE_RETURN_IF_ERROR(Reserve(*record, reserved));
  const std::vector<ExtentView> extents = SplitExtents(key, *record, args.payload);
  if (const Status status = Commit(key, *record, args, extents); !status.ok()) {
    budget_.Release(reserved);
    return status;
  }
  if (before == Stored::kNot) segments_.Add();
  catalog_.Remember(key, record);
  digests_.Forget(key, *record);
  // What finds no room in DRAM is on SSD, and that is enough; the tier counts it.
  for (const ExtentView& extent : extents) (void)dram_->Put({&extent, 1});
  return OkStatus();
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
    if (catalog_.IsDamaged(parent)) break;
    keys.push_back(parent);
  }
  return keys;
}

StatusOr<ChainPtr> PageStoreImpl::ResolveChain(std::string_view tenant, const SegmentKey& tip) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  return catalog_.Resolve(tenant, tip);
}

StatusOr<std::vector<TokenId>> PageStoreImpl::Tokens(std::string_view tenant,
                                                     const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  return record->tokens;
}

Status PageStoreImpl::ReadUnits(std::string_view tenant, std::span<const UnitAddress> units,
                                std::vector<UnitBytes>* out) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  return reader_.Read(tenant, units, out);
}

StatusOr<SegmentDigests> PageStoreImpl::ReadDigests(std::string_view tenant, const SegmentKey& key,
                                                    uint32_t layer) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  if (layer >= record->spec.num_layers) {
    return InvalidArgument("segment ", key.Hex(), " has no layer ", layer, ": it has ",
                           record->spec.num_layers);
  }
  StatusOr<DigestBytes> digests = digests_.Read({key, layer}, *record);
  if (digests.status().code() == StatusCode::kDataLoss) catalog_.MarkDamaged(key);
  QUIRE_RETURN_IF_ERROR(digests.status());
  return SegmentDigests{.bytes = *std::move(digests), .num_pages = record->num_pages()};
}

StatusOr<ChainStat> PageStoreImpl::StatChain(std::string_view tenant, const Chain& chain) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  ChainStat stat;
  for (const SegmentKey& key : chain.keys) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
    stat.bytes += record->payload_bytes();
    ++stat.segments_on_ssd;
    if (dram_->HasAny(key)) ++stat.segments_in_dram;
  }
  return stat;
}

Status PageStoreImpl::DeleteSegment(std::string_view tenant, const SegmentKey& key) {
  QUIRE_RETURN_IF_ERROR(CheckTenant(tenant));
  const KeyedLock::Guard guard = writers_.Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
  Database::Batch batch = database_->NewBatch();
  catalog_.StageErase(key, batch);
  digests_.StageErase(key, batch);
  QUIRE_ASSIGN_OR_RETURN(SsdTier::Change change, ssd_.StageErase(key, batch));
  QUIRE_RETURN_IF_ERROR(database_->Commit(batch, /*sync=*/false));
  change.Committed();
  QUIRE_RETURN_IF_ERROR(dram_->Erase(key));
  catalog_.Forget(key);
  digests_.Forget(key, *record);
  {
    MutexLock lock(pins_mutex_);
    pins_.Forget(key);
  }
  budget_.Release(record->payload_bytes());
  segments_.Sub(1);
  deletes_.Add();
  return OkStatus();
}

Status PageStoreImpl::PinSegments(std::string_view tenant, std::span<const SegmentKey> keys) {
  std::vector<uint64_t> bytes;
  for (const SegmentKey& key : keys) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, catalog_.Find(tenant, key));
    bytes.push_back(record->payload_bytes());
  }
  MutexLock lock(pins_mutex_);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Status status = pins_.Pin(keys[i], bytes[i]);
    if (status.ok()) continue;
    while (i > 0) (void)pins_.Unpin(keys[--i]);
    return status;
  }
  return OkStatus();
}

Status PageStoreImpl::UnpinSegments(std::string_view tenant, std::span<const SegmentKey> keys) {
  for (const SegmentKey& key : keys) {
    QUIRE_RETURN_IF_ERROR(catalog_.Find(tenant, key).status());
    MutexLock lock(pins_mutex_);
    QUIRE_RETURN_IF_ERROR(pins_.Unpin(key));
  }
  return OkStatus();
}

Status PageStoreImpl::CheckTenant(std::string_view tenant) const {
  return tenants_.Salt(tenant).status();
}

void PageStoreImpl::VisitCounters(const CounterVisitor& visit) const {
  visit("segments", segments_.Get());
  visit("ssd_bytes_used", budget_.used_bytes());
  visit("ssd_bytes_limit", budget_.limit_bytes());
  visit("puts", puts_.Get());
  visit("puts_existed", existed_.Get());
  visit("deletes", deletes_.Get());
  reader_.VisitCounters(visit);
  catalog_.VisitCounters(visit);
  digests_.VisitCounters(visit);
  dram_->VisitCounters(visit);
  ssd_.VisitCounters(visit);
  visit("ssd_extents_dropped", dropped_.Get());
  visit("ssd_bytes_lost", lost_bytes_.Get());
  payload_->VisitCounters(visit);
  database_->VisitCounters(visit);
}

}  // namespace quire::kvserver
