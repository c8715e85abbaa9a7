// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/write/segment_writer.h"

#include <algorithm>
#include <utility>

namespace quire::kvserver {
namespace {

// Bytes left free on the file system, so that the database can still compact and log.
constexpr uint64_t kMinFreeForSegment = 64 << 20;
static_assert(RoomSample::kLeftForOthers > kMinFreeForSegment);

/// Estimate for the uncounted bytes of a record of a segment or an extent: keys, spec, places.
constexpr uint64_t kRecordBytes = 256;

/// Bytes that a segment adds to the database: its tokens and checksums in both records. `digests`
/// adds the digests of each unit's keys (two rows), which a segment only in DRAM has there. They
/// count twice: once in the log and once in a table.
uint64_t MetadataBytes(const SegmentRecord& record, bool digests) {
  const bool has_digests = digests && !record.object;
  const uint64_t rows = has_digests ? record.unit_bytes() / record.spec.page_tokens : 0;
  const uint64_t names = record.object ? record.object->key.size() : 0;
  return 2 * (names + record.tokens.size() * sizeof(TokenId) +
              record.unit_crc32c.size() * (rows + 2 * sizeof(uint32_t)) +
              (record.num_layers() + 2) * kRecordBytes);
}

/// True when a stored segment is gone or damaged, so that a put replaces it.
bool IsLost(const Status& status) { return IsNotFound(status) || IsDataLoss(status); }

}  // namespace

StatusOr<PutSegmentResult> SegmentWriter::Put(std::string_view tenant, const TenantSalt& salt,
                                              const PutSegmentArgs& args) {
  QUIRE_RETURN_IF_ERROR(CheckPutArguments(args));
  const SegmentKey key = args.object != nullptr
                             ? ComputeObjectKey(salt, args.object->key)
                             : ComputeKey(args.private_salt != nullptr ? *args.private_salt : salt,
                                          Fingerprint(*args.spec), args.parent, args.tokens);
  if (args.expected_key && *args.expected_key != key) {
    return InvalidArgument("the segment's key is ", key.Hex(), ", the caller expected ",
                           args.expected_key->Hex(),
                           "; compute keys with this server's salt, spec, parent and tokens");
  }
  if (args.durability == Durability::kPersisted)
    QUIRE_RETURN_IF_ERROR(PersistChain(tenant, args.parent));
  // Released after the writer lock: its segments may be deleted then.
  SegmentHold held;
  if (args.parent != kRootKey) {
    StatusOr<SegmentHold> parent = parts_.keeper->Hold({&args.parent, 1});
    QUIRE_RETURN_IF_ERROR(Annotate(parent.status(), "parent"));
    held.Add(*std::move(parent));
    QUIRE_RETURN_IF_ERROR(CancelDeletes(tenant, args));
  }
  const KeyedLock::Guard guard = parts_.writers->Acquire(key);
  const bool was_stored = parts_.keeper->IsStored(key);
  SegmentHold own = parts_.keeper->HoldForPut({.key = key,
                                               .tenant = tenant,
                                               .parent = args.parent,
                                               .is_private = args.private_salt != nullptr});
  StatusOr<PutSegmentResult> result = PutHeld(tenant, key, was_stored, args);
  if (!result.ok() && !was_stored) parts_.keeper->Withdraw(key);
  if (result.ok() && args.hold != nullptr) {
    args.hold->Add(std::move(own));
  } else {
    held.Add(std::move(own));
  }
  return result;
}

StatusOr<PutSegmentResult> SegmentWriter::PutHeld(std::string_view tenant, const SegmentKey& key,
                                                  bool was_stored, const PutSegmentArgs& args) {
  const bool persist = args.durability == Durability::kPersisted;
  // The keeper knows every segment that has a record, so most puts need not look for one.
  KnownRecord known;
  if (was_stored) {
    QUIRE_ASSIGN_OR_RETURN(known, FindKnown(tenant, key));
  }
  const bool keeps_codec = known && !args.is_encoded;
  QUIRE_ASSIGN_OR_RETURN(
      SegmentIntake intake,
      SegmentIntake::Make(tenant, args, keeps_codec ? (*known)->codec : args.codec));
  Stored stored = StateOf(key, known);
  if (stored == Stored::kDramOnly && persist) {
    const Status written = WriteOut(key, **known);
    if (!written.ok() && !IsLost(written)) return written;
    stored = written.ok() ? Stored::kWhole : Stored::kNot;
  }
  puts_.Add();
  if (stored == Stored::kWhole || stored == Stored::kDramOnly) {
    QUIRE_RETURN_IF_ERROR(intake.TakeChecksums());
    return AnswerStored(key, **known, intake.record(), args);
  }
  QUIRE_ASSIGN_OR_RETURN(intake.record().first_token, FirstToken(tenant, args));
  intake.record().incarnation = parts_.keeper->NextIncarnation();
  QUIRE_RETURN_IF_ERROR(Write(key, intake, args.durability, stored));
  return PutSegmentResult{.key = key};
}

StatusOr<PutSegmentResult> SegmentWriter::AnswerStored(const SegmentKey& key,
                                                       const SegmentRecord& stored,
                                                       const SegmentRecord& put,
                                                       const PutSegmentArgs& args) {
  PutSegmentResult result{.key = key, .existed = true};
  result.differs = stored.unit_crc32c != put.unit_crc32c;
  if (result.differs && args.strict) {
    return AlreadyExists("segment ", key.Hex(),
                         " is stored with other bytes, and the first under a key stand; put it "
                         "without asking for strictness to take them, ",
                         stored.object ? "or delete the object first"
                                       : "or use another weights_hash when the model differs");
  }
  existed_.Add();
  if (result.differs) {
    differed_.Add();
    result.stored_crc32c = stored.unit_crc32c;
  }
  const bool persist = args.durability == Durability::kPersisted;
  if (parts_.keeper->IsMarked(key) && !stored.private_pages) {
    QUIRE_RETURN_IF_ERROR(Renew(key, stored, persist));
  }
  // No write of this put would follow an earlier failed delete of the segment.
  if (const Status durable = persist ? Sync() : parts_.database->Settle(); !durable.ok()) {
    return Report(durable);
  }
  return result;
}

Status SegmentWriter::Renew(const SegmentKey& key, const SegmentRecord& stored, bool sync) {
  auto record = std::make_shared<SegmentRecord>(stored);
  record->incarnation = parts_.keeper->NextIncarnation();
  Database::Batch batch = parts_.database->NewBatch();
  parts_.catalog->StagePut(key, *record, batch);
  QUIRE_RETURN_IF_ERROR(CommitBatch(batch, sync));
  parts_.keeper->Renew(key, record->incarnation);
  parts_.catalog->Remember(key, std::move(record));
  return OkStatus();
}

// Takes one segment's lock at a time, as PersistChain. A renewed segment that a held one continues
// stays until this put has continued it.
Status SegmentWriter::CancelDeletes(std::string_view tenant, const PutSegmentArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SegmentKey> marked,
                         parts_.keeper->MarkedOfChain(args.parent));
  for (const SegmentKey& key : marked) {
    const KeyedLock::Guard guard = parts_.writers->Acquire(key);
    QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, parts_.catalog->Find(tenant, key));
    if (!parts_.keeper->IsMarked(key)) continue;
    QUIRE_RETURN_IF_ERROR(Renew(key, *record, args.durability == Durability::kPersisted));
  }
  return OkStatus();
}

StatusOr<SegmentWriter::KnownRecord> SegmentWriter::FindKnown(std::string_view tenant,
                                                              const SegmentKey& key) {
  StatusOr<SegmentRecordPtr> found = parts_.catalog->Find(tenant, key);
  // An unreadable record is written again.
  if (IsLost(found.status())) return KnownRecord();
  QUIRE_RETURN_IF_ERROR(found.status());
  return KnownRecord(*std::move(found));
}

SegmentWriter::Stored SegmentWriter::StateOf(const SegmentKey& key,
                                             const KnownRecord& known) const {
  if (!known) return Stored::kNot;
  const bool damaged = parts_.catalog->IsDamaged(key);
  if ((*known)->dram_only) {
    return !damaged && KeepIntact(key, **known) ? Stored::kDramOnly : Stored::kNot;
  }
  return damaged ? Stored::kDamaged : Stored::kWhole;
}

bool SegmentWriter::IsReadable(const SegmentKey& key, const SegmentRecord& record) const {
  if (!record.dram_only) return true;
  const std::vector<ResidentPtr> extents = OnlyCopy(key, record);
  if (extents.empty()) return false;
  const auto matches = [](const ResidentPtr& extent) { return extent->Verify().has_value(); };
  if (std::ranges::all_of(extents, matches)) return true;
  const KeyedLock::Guard guard = parts_.writers->Acquire(key);
  return KeepIntact(key, record);
}

bool SegmentWriter::IsHere(const SegmentKey& key, const SegmentRecord& record) const {
  return !record.dram_only || !OnlyCopy(key, record).empty();
}

std::vector<ResidentPtr> SegmentWriter::OnlyCopy(const SegmentKey& key,
                                                 const SegmentRecord& record) const {
  std::vector<ResidentPtr> extents;
  for (uint32_t layer = 0; layer < record.num_layers(); ++layer) {
    extents.push_back(parts_.dram->Get({key, layer}));
    if (extents.back() == nullptr) return {};
  }
  return extents;
}

bool SegmentWriter::KeepIntact(const SegmentKey& key, const SegmentRecord& record) const {
  const std::vector<ResidentPtr> extents = OnlyCopy(key, record);
  for (uint32_t layer = 0; layer < extents.size(); ++layer) {
    if (extents[layer]->Verify()) continue;
    const ExtentId id{key, layer};
    parts_.damage->Drop(id, extents[layer]);
    (void)parts_.damage->Lose(id);  // The caller treats it as missing.
    return false;
  }
  return !extents.empty();
}

StatusOr<uint64_t> SegmentWriter::FirstToken(std::string_view tenant, const PutSegmentArgs& args) {
  if (args.parent == kRootKey) return 0;
  const StatusOr<SegmentRecordPtr> parent = parts_.catalog->FindPages(tenant, args.parent);
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

Status SegmentWriter::Sync() { return parts_.ssd->Sync(); }

bool SegmentWriter::Admit(const SegmentRecord& record, Durability durability) {
  if (!admission_) return true;
  MutexLock lock(admission_mutex_);
  return admission_->Admit(
      {.bytes = record.stored_bytes(),
       .must_persist = durability == Durability::kPersisted || record.private_pages},
      parts_.clock->Now());
}

bool SegmentWriter::IsKnownToFit(uint64_t bytes) {
  MutexLock lock(room_mutex_);
  return room_.Take(bytes, parts_.clock->Now());
}

void SegmentWriter::NoteFree(uint64_t free_bytes) {
  MutexLock lock(room_mutex_);
  room_.Note(free_bytes, parts_.clock->Now());
}

Status SegmentWriter::MakeFileSystemRoom(uint64_t bytes) {
  const uint64_t needed = kMinFreeForSegment + bytes;
  if (IsKnownToFit(bytes)) return OkStatus();
  for (bool evicts = false;; evicts = true) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t free_bytes, parts_.database->FreeBytes());
    NoteFree(free_bytes);
    if (free_bytes >= needed) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const uint64_t reclaimable, parts_.database->ReclaimableBytes());
    const bool can_help = reclaimable > needed - free_bytes;
    // Space of earlier deletes comes first.
    if (!can_help || (evicts && parts_.keeper->EvictShare() == 0)) {
      return ResourceExhausted("data directory ", parts_.directory, " has ", free_bytes,
                               " bytes free, the metadata of a segment needs ", needed,
                               "; free space or delete documents, then retry");
    }
    QUIRE_RETURN_IF_ERROR(parts_.database->Compact());
  }
}

Status SegmentWriter::MakeMetadataRoom(const SegmentRecord& record) {
  const uint64_t bytes = MetadataBytes(record, /*digests=*/admission_ != nullptr);
  QUIRE_RETURN_IF_ERROR(MakeFileSystemRoom(bytes));
  for (;;) {
    Status room = parts_.database->MakeRoom(bytes);
    // Compact for many: single evictions would compact at every put.
    if (!IsResourceExhausted(room) || parts_.keeper->EvictShare() == 0) return room;
  }
}

Status SegmentWriter::Write(const SegmentKey& key, SegmentIntake& intake, Durability durability,
                            Stored before) {
  if (const Status room = MakeMetadataRoom(intake.record()); !room.ok()) return Report(room);
  parts_.keeper->BeginRewrite(key);
  // A damaged one is repaired in place, and charged to the budget all the same.
  if (!Admit(intake.record(), before == Stored::kDamaged ? Durability::kPersisted : durability)) {
    QUIRE_ASSIGN_OR_RETURN(const bool kept, WriteToDramOnly(key, intake));
    if (kept) return OkStatus();
  }
  return WriteCharged(key, intake.record(), [&] {
    return WriteToSsd(key, intake, /*sync=*/durability == Durability::kPersisted);
  });
}

Status SegmentWriter::WriteCharged(const SegmentKey& key, const SegmentRecord& record,
                                   const std::function<Status()>& write) {
  // The charge of a replaced segment counts for the new one.
  const uint64_t before_bytes = parts_.keeper->BytesOf(key);
  const uint64_t charge = record.stored_bytes() - std::min(before_bytes, record.stored_bytes());
  if (const Status charged = parts_.keeper->Charge(record.tenant, charge); !charged.ok()) {
    if (!parts_.space->IsOverQuota(record.tenant, charge)) return Report(charged);
    parts_.health->Note(Trouble::kOverQuota, Message(charged));
    return charged;
  }
  const Status status = Report(write());
  if (!status.ok()) {
    parts_.space->Release(record.tenant, charge);
  } else if (before_bytes > record.stored_bytes()) {
    parts_.space->Release(record.tenant, before_bytes - record.stored_bytes());
  }
  return status;
}

DramTier::Room SegmentWriter::Reserve(const SegmentKey& key, SegmentIntake& intake) {
  DramTier::Room room = parts_.dram->Reserve(SplitExtents(key, intake, parts_.prefill_cost));
  for (uint32_t layer = 0; layer < intake.record().num_layers(); ++layer) {
    if (const auto memory = room.bytes(layer); !memory.empty()) intake.Place(layer, memory);
  }
  return room;
}

Status SegmentWriter::WriteToSsd(const SegmentKey& key, SegmentIntake& intake, bool sync) {
  DramTier::Room room = Reserve(key, intake);
  std::vector<ExtentView> extents = SplitExtents(key, intake, parts_.prefill_cost);
  const size_t layers = extents.size();
  if (!intake.digests().empty()) extents.push_back(DigestExtent(key, intake));
  const auto take = [&](size_t i) {
    return i < layers ? intake.Take(static_cast<uint32_t>(i)) : OkStatus();
  };
  Database::Batch batch = parts_.database->NewBatch();
  QUIRE_ASSIGN_OR_RETURN(SsdTier::Change change, StageOnSsd(extents, take, sync, batch));
  parts_.digests->StageDropRows(key, intake.record(), batch);
  QUIRE_RETURN_IF_ERROR(Commit(key, intake.record(), batch, sync));
  change.Committed();
  // DRAM may still have other bytes of a segment that was damaged or lost.
  parts_.dram->DropExtents(key);
  Publish(key, intake.record());
  const LatencyTimer timer(parts_.latencies->dram_put, parts_.latencies->clock);
  const std::span all = std::span(extents).first(layers);
  const size_t reserved = room.size();
  parts_.dram->Publish(all.first(reserved), std::move(room));
  // There may be room by now. Extents without room are on SSD, which suffices; the tier counts
  // them.
  for (size_t i = reserved; i < all.size(); ++i) (void)parts_.dram->Put(all.subspan(i, 1));
  return OkStatus();
}

StatusOr<bool> SegmentWriter::WriteToDramOnly(const SegmentKey& key, SegmentIntake& intake) {
  DramTier::Room room = Reserve(key, intake);
  if (!room.refusal().ok()) {
    intake.PlaceAtHome();
    return false;
  }
  QUIRE_RETURN_IF_ERROR(intake.TakeAll());
  intake.record().dram_only = true;
  parts_.dram->Publish(SplitExtents(key, intake, parts_.prefill_cost), std::move(room));
  if (const Status kept = RecordDramOnly(key, intake); !kept.ok()) {
    parts_.dram->Erase(key);
    return kept;
  }
  dram_only_.Add();
  return true;
}

// An object has nothing that outlives its bytes: no name, no digests, no segment that continues it.
Status SegmentWriter::RecordDramOnly(const SegmentKey& key, const SegmentIntake& intake) {
  const SegmentRecord& record = intake.record();
  if (record.object && parts_.catalog->HasRoomInMemory()) {
    parts_.catalog->KeepInMemory(key, std::make_shared<const SegmentRecord>(record));
    AddStored(key, record);
    return OkStatus();
  }
  Database::Batch batch = parts_.database->NewBatch();
  parts_.digests->StageRows(key, record, intake.digests(), batch);
  QUIRE_RETURN_IF_ERROR(Commit(key, record, batch, /*sync=*/false));
  Publish(key, record);
  return OkStatus();
}

Status SegmentWriter::Commit(const SegmentKey& key, const SegmentRecord& record,
                             Database::Batch& batch, bool sync) {
  parts_.catalog->StagePut(key, record, batch);
  Reach(parts_.faults, FaultPoint::kBeforeCommit);
  QUIRE_RETURN_IF_ERROR(CommitBatch(batch, sync));
  Reach(parts_.faults, FaultPoint::kCommitted);
  return OkStatus();
}

// The record comes last but for the incarnation. A reader that finds it finds none of the replaced
// bytes any more.
void SegmentWriter::Publish(const SegmentKey& key, const SegmentRecord& record) {
  parts_.digests->Forget(key, record);
  parts_.catalog->Remember(key, std::make_shared<const SegmentRecord>(record));
  AddStored(key, record);
}

void SegmentWriter::AddStored(const SegmentKey& key, const SegmentRecord& record) {
  parts_.keeper->AddStored({.key = key,
                            .tenant = record.tenant,
                            .parent = record.parent,
                            .bytes = record.dram_only ? 0 : record.stored_bytes(),
                            .incarnation = record.incarnation,
                            .seconds_per_token = parts_.prefill_cost.SecondsPerToken(
                                record.first_token, record.cost_tokens()),
                            .is_private = record.private_pages,
                            .listed = record.listed()});
}

StatusOr<SsdTier::Change> SegmentWriter::StageOnSsd(std::span<const ExtentView> extents,
                                                    const SsdTier::MakeExtent& make, bool sync,
                                                    Database::Batch& batch) {
  const LatencyTimer timer(parts_.latencies->ssd_write, parts_.latencies->clock);
  for (;;) {
    StatusOr<SsdTier::Change> change = parts_.ssd->StagePut(extents, make, sync, batch);
    // The file system is full: evict cached segments before refusing.
    if (!IsResourceExhausted(change.status()) || !parts_.keeper->MakeRoom()) return change;
  }
}

Status SegmentWriter::Report(Status status) {
  Health& health = *parts_.health;
  if (status.ok()) {
    health.Clear(Trouble::kDiskFull);
    health.Clear(Trouble::kDeviceFailed);
  } else if (IsResourceExhausted(status)) {
    health.Raise(Trouble::kDiskFull, Message(status));
  } else if (IsUnavailable(status) || IsInternal(status)) {
    health.Raise(Trouble::kDeviceFailed, Message(status));
  }
  return status;
}

Status SegmentWriter::CommitBatch(Database::Batch& batch, bool sync) {
  const LatencyTimer timer(parts_.latencies->commit, parts_.latencies->clock);
  return parts_.database->Commit(batch, sync);
}

// Takes one segment's lock at a time: chains that share segments cannot deadlock.
Status SegmentWriter::PersistChain(std::string_view tenant, const SegmentKey& tip) {
  if (!admission_ || tip == kRootKey) return OkStatus();
  const StatusOr<SegmentRecordPtr> last = parts_.catalog->Find(tenant, tip);
  if (!last.ok() || (*last)->private_pages) return OkStatus();  // The put refuses it.
  const StatusOr<ChainPtr> chain = parts_.catalog->Resolve(tenant, tip);
  if (!chain.ok()) return OkStatus();  // The put refuses it.
  for (const SegmentKey& key : (*chain)->keys) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, parts_.catalog->Find(tenant, key));
    if (record->dram_only) QUIRE_RETURN_IF_ERROR(PersistFromDram(tenant, key));
  }
  return OkStatus();
}

Status SegmentWriter::PersistFromDram(std::string_view tenant, const SegmentKey& key) {
  const KeyedLock::Guard guard = parts_.writers->Acquire(key);
  QUIRE_ASSIGN_OR_RETURN(const SegmentRecordPtr record, parts_.catalog->Find(tenant, key));
  return record->dram_only ? WriteOut(key, *record) : OkStatus();
}

Status SegmentWriter::WriteOut(const SegmentKey& key, const SegmentRecord& kept) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadFromDram(key, kept));
  SegmentRecord record = kept;
  record.dram_only = false;
  (void)Admit(record, Durability::kPersisted);  // Always admitted; charged to the budget.
  const auto extents = SplitExtents(key, record, bytes, parts_.prefill_cost);
  return WriteCharged(key, record, [&]() -> Status {
    const auto made = [](size_t) { return OkStatus(); };
    Database::Batch batch = parts_.database->NewBatch();
    QUIRE_ASSIGN_OR_RETURN(SsdTier::Change change, StageOnSsd(extents, made, /*sync=*/true, batch));
    // The database has its digests already.
    QUIRE_RETURN_IF_ERROR(Commit(key, record, batch, /*sync=*/true));
    change.Committed();
    Publish(key, record);
    return OkStatus();
  });
}

StatusOr<std::vector<std::byte>> SegmentWriter::ReadFromDram(const SegmentKey& key,
                                                             const SegmentRecord& record) {
  std::vector<std::byte> stored;
  stored.reserve(record.stored_bytes());
  for (uint32_t layer = 0; layer < record.num_layers(); ++layer) {
    const ExtentId id{key, layer};
    const ResidentPtr resident = parts_.dram->Get(id);
    if (resident == nullptr) {
      return NotFound("segment ", key.Hex(),
                      " was kept in DRAM only and has left it; put it again");
    }
    const auto bytes = resident->Verify();
    if (!bytes) {
      parts_.damage->Drop(id, resident);
      return parts_.damage->Lose(id);
    }
    stored.insert(stored.end(), bytes->begin(), bytes->end());
  }
  return stored;
}

void SegmentWriter::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("puts", "Segments put.", puts_.Get());
  visit.Counter("puts_existed", "Segments put that were stored already.", existed_.Get());
  visit.Counter("puts_differed",
                "Segments put that were stored already with other bytes, which stood.",
                differed_.Get());
  visit.Counter("puts_dram_only", "Segments kept in DRAM only, over the write budget.",
                dram_only_.Get());
}

}  // namespace quire::kvserver
