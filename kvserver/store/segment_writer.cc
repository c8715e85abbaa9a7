// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/segment_writer.h"

#include <utility>

namespace quire::kvserver {
namespace {

// Left free on the file system, so that the database can still compact and log.
constexpr uint64_t kMinFreeBytes = 64 << 20;

/// What a segment adds to the database, which writes it to the log and to a table: the digests of
/// each unit's keys (two rows) and checksums in both records.
uint64_t MetadataBytes(const SegmentRecord& record) {
  const uint64_t rows = quire::UnitBytes(record.spec) / record.spec.page_tokens;
  return 2 * record.unit_crc32c.size() * (rows + 2 * sizeof(uint32_t));
}

}  // namespace

StatusOr<PutSegmentResult> SegmentWriter::Put(std::string_view tenant, const TenantSalt& salt,
                                              const PutSegmentArgs& args) {
  QUIRE_RETURN_IF_ERROR(CheckPutArguments(args));
  const SegmentKey key = ComputeKey(args.private_salt != nullptr ? *args.private_salt : salt,
                                    Fingerprint(*args.spec), args.parent, args.tokens);
  if (args.expected_key && *args.expected_key != key) {
    return InvalidArgument("the segment's key is ", key.Hex(), ", the caller expected ",
                           args.expected_key->Hex(),
                           "; compute keys with this server's salt, spec, parent and tokens");
  }
  const bool persist = args.durability == Durability::kPersisted;
  if (persist) QUIRE_RETURN_IF_ERROR(PersistChain(tenant, args.parent));
  const KeyedLock::Guard guard = parts_.writers->Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const KnownRecord known, FindKnown(tenant, key));
  QUIRE_ASSIGN_OR_RETURN(SegmentToStore segment,
                         EncodeSegment(tenant, args, known ? (*known)->codec : args.codec));
  QUIRE_ASSIGN_OR_RETURN(const Stored stored, CompareStored(key, known, segment.record));
  puts_.Add();
  if (stored == Stored::kWhole || (stored == Stored::kDramOnly && !persist)) {
    existed_.Add();
    // Nothing is written here that would follow a delete of the segment which failed.
    QUIRE_RETURN_IF_ERROR(persist ? Sync() : parts_.database->Settle());
    return PutSegmentResult{.key = key, .existed = true};
  }
  QUIRE_ASSIGN_OR_RETURN(segment.record.first_token, FirstToken(tenant, args));
  QUIRE_RETURN_IF_ERROR(Write(key, segment, args.durability, stored));
  if (!known) parts_.segments->Add();
  return PutSegmentResult{.key = key, .existed = stored == Stored::kDramOnly};
}

StatusOr<SegmentWriter::KnownRecord> SegmentWriter::FindKnown(std::string_view tenant,
                                                              const SegmentKey& key) {
  StatusOr<SegmentRecordPtr> found = parts_.catalog->Find(tenant, key);
  const StatusCode code = found.status().code();
  // A record that cannot be read any more is written anew.
  if (code == StatusCode::kNotFound || code == StatusCode::kDataLoss) return KnownRecord();
  QUIRE_RETURN_IF_ERROR(found.status());
  return KnownRecord(*std::move(found));
}

StatusOr<SegmentWriter::Stored> SegmentWriter::CompareStored(const SegmentKey& key,
                                                             const KnownRecord& known,
                                                             const SegmentRecord& record) const {
  if (!known) return Stored::kNot;
  if ((*known)->unit_crc32c != record.unit_crc32c) {
    return AlreadyExists("segment ", key.Hex(),
                         " is stored with different bytes, and a sealed segment never changes; "
                         "use other weights_hash when the model differs, or delete it first");
  }
  if ((*known)->dram_only) return IsThere(key, **known) ? Stored::kDramOnly : Stored::kNot;
  return parts_.catalog->IsDamaged(key) ? Stored::kDamaged : Stored::kWhole;
}

bool SegmentWriter::IsThere(const SegmentKey& key, const SegmentRecord& record) const {
  if (!record.dram_only) return true;
  for (uint32_t layer = 0; layer < record.spec.num_layers; ++layer) {
    if (!parts_.dram->Has({key, layer}).value_or(false)) return false;
  }
  return true;
}

StatusOr<uint64_t> SegmentWriter::FirstToken(std::string_view tenant, const PutSegmentArgs& args) {
  if (args.parent == kRootKey) return 0;
  const StatusOr<SegmentRecordPtr> parent = parts_.catalog->Find(tenant, args.parent);
  QUIRE_RETURN_IF_ERROR(Annotate(parent.status(), "parent"));
  const SegmentRecord& p = **parent;
  if (p.spec != *args.spec) {
    return InvalidArgument("the parent ", args.parent.Hex(), " has another KvSpec (",
                           FirstDifference(p.spec, *args.spec), "); start a chain of its own");
  }
  if (p.private_pages && args.private_salt == nullptr) {
    return NotFound("parent: segment ", args.parent.Hex(),
                    " is private to an open context; append to that");
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

Status SegmentWriter::Sync() {
  QUIRE_RETURN_IF_ERROR(parts_.payload->Sync());
  return parts_.database->Sync();
}

bool SegmentWriter::Admit(const SegmentToStore& segment, Durability durability) {
  if (!admission_) return true;
  MutexLock lock(admission_mutex_);
  return admission_->Admit(
      {.bytes = segment.record.stored_bytes(),
       .must_persist = durability == Durability::kPersisted || segment.record.private_pages},
      parts_.clock->Now());
}

Status SegmentWriter::CheckFreeBytes(const SegmentRecord& record) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t free_bytes, parts_.database->FreeBytes());
  const uint64_t needed = kMinFreeBytes + MetadataBytes(record);
  if (free_bytes >= needed) return OkStatus();
  return ResourceExhausted("data directory ", parts_.directory, " has ", free_bytes,
                           " bytes free, the metadata of a segment needs ", needed,
                           "; free space or delete documents, then retry");
}

Status SegmentWriter::Write(const SegmentKey& key, SegmentToStore& segment, Durability durability,
                            Stored before) {
  QUIRE_RETURN_IF_ERROR(CheckFreeBytes(segment.record));
  const std::vector<ExtentView> extents = SplitExtents(key, segment, parts_.prefill_cost);
  // A damaged one is mended where it is.
  if (before != Stored::kDamaged && !Admit(segment, durability)) {
    QUIRE_ASSIGN_OR_RETURN(const bool kept, WriteToDramOnly(key, segment, extents));
    if (kept) return OkStatus();
  }
  const bool sync = durability == Durability::kPersisted;
  QUIRE_RETURN_IF_ERROR(WriteToSsd(key, segment, extents, sync, before));
  // What finds no room in DRAM is on SSD, and that is enough; the tier counts it.
  const LatencyTimer timer(parts_.latencies->dram_put, parts_.latencies->clock);
  for (const ExtentView& extent : extents) (void)parts_.dram->Put({&extent, 1});
  return OkStatus();
}

Status SegmentWriter::WriteToSsd(const SegmentKey& key, const SegmentToStore& segment,
                                 std::span<const ExtentView> extents, bool sync, Stored before) {
  const SegmentRecord& record = segment.record;
  const uint64_t charge = before == Stored::kDamaged ? 0 : record.stored_bytes();
  QUIRE_RETURN_IF_ERROR(parts_.space->Charge(record.tenant, charge));
  Database::Batch batch = parts_.database->NewBatch();
  StatusOr<SsdTier::Change> change = StageOnSsd(extents, sync, batch);
  const Status status = change.ok() ? Commit(key, segment, batch, sync) : change.status();
  if (!status.ok()) {
    parts_.space->Release(record.tenant, charge);
    return status;
  }
  change->Committed();
  return OkStatus();
}

StatusOr<bool> SegmentWriter::WriteToDramOnly(const SegmentKey& key, SegmentToStore& segment,
                                              std::span<const ExtentView> extents) {
  if (!parts_.dram->Put(extents).ok()) return false;
  segment.record.dram_only = true;
  Database::Batch batch = parts_.database->NewBatch();
  if (const Status status = Commit(key, segment, batch, /*sync=*/false); !status.ok()) {
    (void)parts_.dram->Erase(key);
    return status;
  }
  dram_only_.Add();
  return true;
}

Status SegmentWriter::Commit(const SegmentKey& key, const SegmentToStore& segment,
                             Database::Batch& batch, bool sync) {
  std::vector<std::byte> scratch;
  QUIRE_ASSIGN_OR_RETURN(const auto payload, ReadablePayload(segment, scratch));
  QUIRE_RETURN_IF_ERROR(parts_.digests->StagePut(key, segment.record, payload, batch));
  parts_.catalog->StagePut(key, segment.record, batch);
  Reach(parts_.faults, FaultPoint::kBeforeCommit);
  QUIRE_RETURN_IF_ERROR(CommitBatch(batch, sync));
  Reach(parts_.faults, FaultPoint::kCommitted);
  parts_.catalog->Remember(key, std::make_shared<const SegmentRecord>(segment.record));
  parts_.digests->Forget(key, segment.record);
  return OkStatus();
}

StatusOr<SsdTier::Change> SegmentWriter::StageOnSsd(std::span<const ExtentView> extents, bool sync,
                                                    Database::Batch& batch) {
  const LatencyTimer timer(parts_.latencies->ssd_write, parts_.latencies->clock);
  return parts_.ssd->StagePut(extents, sync, batch);
}

Status SegmentWriter::CommitBatch(Database::Batch& batch, bool sync) {
  const LatencyTimer timer(parts_.latencies->commit, parts_.latencies->clock);
  return parts_.database->Commit(batch, sync);
}

// Takes one segment's lock at a time: chains that share segments cannot wait for each other.
Status SegmentWriter::PersistChain(std::string_view tenant, const SegmentKey& tip) {
  if (!admission_ || tip == kRootKey) return OkStatus();
  const StatusOr<SegmentRecordPtr> last = parts_.catalog->Find(tenant, tip);
  if (!last.ok() || (*last)->private_pages) return OkStatus();  // For the put to refuse.
  const StatusOr<ChainPtr> chain = parts_.catalog->Resolve(tenant, tip);
  if (!chain.ok()) return OkStatus();  // For the put to refuse.
  for (const SegmentKey& key : (*chain)->keys) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, parts_.catalog->Find(tenant, key));
    if (record->dram_only) QUIRE_RETURN_IF_ERROR(PersistFromDram(tenant, key));
  }
  return OkStatus();
}

Status SegmentWriter::PersistFromDram(std::string_view tenant, const SegmentKey& key) {
  const KeyedLock::Guard guard = parts_.writers->Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, parts_.catalog->Find(tenant, key));
  if (!record->dram_only) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const SegmentToStore segment, FromDram(key, *record));
  return WriteToSsd(key, segment, SplitExtents(key, segment, parts_.prefill_cost), /*sync=*/true,
                    Stored::kDramOnly);
}

StatusOr<SegmentToStore> SegmentWriter::FromDram(const SegmentKey& key,
                                                 const SegmentRecord& record) {
  SegmentToStore segment{.record = record, .bytes = {}, .encoded = {}};
  segment.record.dram_only = false;
  segment.encoded.reserve(record.stored_bytes());
  for (uint32_t layer = 0; layer < record.spec.num_layers; ++layer) {
    for (uint32_t unit = 0; unit < record.units_per_layer(); ++unit) {
      const StatusOr<UnitBytes> read = parts_.dram->ReadUnit({key, layer}, unit);
      QUIRE_RETURN_IF_ERROR(Annotate(read.status(), "segment ", key.Hex(),
                                     " was kept in DRAM only and has left it; put it again"));
      const auto bytes = read->slice.bytes;
      segment.encoded.insert(segment.encoded.end(), bytes.begin(), bytes.end());
    }
  }
  segment.bytes = segment.encoded;
  return segment;
}

void SegmentWriter::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("puts", "Segments put.", puts_.Get());
  visit.Counter("puts_existed", "Segments put that were stored already.", existed_.Get());
  visit.Counter("puts_dram_only", "Segments kept in DRAM only, over the write budget.",
                dram_only_.Get());
}

}  // namespace quire::kvserver
