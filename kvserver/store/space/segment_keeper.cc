// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/space/segment_keeper.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "kvserver/store/metadata/last_uses.h"

namespace quire::kvserver {
namespace {

/// Segments examined at once by one step of a sweep.
constexpr size_t kSweepBatch = 256;
/// Segments that a sweep asks DRAM for. It takes a few milliseconds.
constexpr size_t kGoneChecks = 8192;
/// Divisor of the number of cached segments: EvictShare evicts that share and one more.
constexpr uint64_t kEvictShare = 8;
/// Interval of writing down uses of cached segments, and their number in one commit.
constexpr Duration kNoteInterval = std::chrono::minutes(1);
constexpr size_t kNotesAtOnce = 4096;
/// A use this soon after the put needs no row: the segment's incarnation is as good.
constexpr int64_t kSameUseMicros = 100'000;

}  // namespace

// --- For puts.

SegmentHold SegmentKeeper::HoldForPut(const StoredSegment& segment) {
  MutexLock lock(mutex_);
  const TimePoint now = parts_.clock->Now();
  if (!lives_.IsStored(segment.key)) lives_.Add(segment, now);
  // No segment is leaving while its put has the writer lock.
  if (!lives_.Hold(segment.key, now)) return {};
  return SegmentHold(this, {segment.key});
}

void SegmentKeeper::Withdraw(const SegmentKey& key) {
  MutexLock lock(mutex_);
  lives_.Remove(key);
}

void SegmentKeeper::AddStored(const StoredSegment& segment) {
  MutexLock lock(mutex_);
  const uint64_t before = lives_.WrittenAs(segment.key).value_or(0);
  if (before != 0 && before != segment.incarnation) replaced_.Add();
  lives_.Add(segment, parts_.clock->Now());
  num_replaced_.store(lives_.num_replaced(), std::memory_order_release);
  if (parts_.events == nullptr || !lives_.IsListed(segment.key)) return;
  parts_.events->Add(segment.tenant, {.kind = SegmentEventKind::kStored,
                                      .segment = segment.key,
                                      .parent = segment.parent,
                                      .bytes = segment.bytes});
}

void SegmentKeeper::Restore(const StoredSegment& segment, int64_t last_use_micros) {
  MutexLock lock(mutex_);
  const int64_t unused = std::max<int64_t>(parts_.clock->UnixMicros() - last_use_micros, 0);
  lives_.Add(segment, parts_.clock->Now() - std::chrono::microseconds(unused));
}

void SegmentKeeper::BeginRewrite(const SegmentKey& key) {
  MutexLock lock(mutex_);
  lives_.Rewrite(key, lives_.NextIncarnation(parts_.clock->UnixMicros()));
  num_replaced_.store(lives_.num_replaced(), std::memory_order_release);
}

uint64_t SegmentKeeper::NextIncarnation() {
  MutexLock lock(mutex_);
  return lives_.NextIncarnation(parts_.clock->UnixMicros());
}

bool SegmentKeeper::IsStored(const SegmentKey& key) const {
  MutexLock lock(mutex_);
  return lives_.IsStored(key);
}

bool SegmentKeeper::IsMarked(const SegmentKey& key) const {
  MutexLock lock(mutex_);
  return lives_.IsMarked(key);
}

StatusOr<std::vector<SegmentKey>> SegmentKeeper::MarkedOfChain(const SegmentKey& tip) const {
  MutexLock lock(mutex_);
  if (auto marked = lives_.MarkedOfChain(tip)) return *std::move(marked);
  return NotFound("the chain of segment ", tip.Hex(),
                  " is not stored any more; put the document again");
}

void SegmentKeeper::Renew(const SegmentKey& key, uint64_t incarnation) {
  MutexLock lock(mutex_);
  lives_.Renew(key, incarnation);
}

uint64_t SegmentKeeper::BytesOf(const SegmentKey& key) const {
  MutexLock lock(mutex_);
  return lives_.BytesOf(key);
}

Status SegmentKeeper::Charge(std::string_view tenant, uint64_t bytes) {
  if (Status charged = parts_.space->Charge(tenant, bytes);
      charged.ok() || !parts_.space->CanFit(tenant, bytes)) {
    return charged;
  }
  MutexLock evicting(evict_mutex_);
  for (;;) {
    Status charged = parts_.space->Charge(tenant, bytes);
    if (charged.ok()) return charged;
    // A tenant over its quota evicts only its own segments.
    const bool own = parts_.space->IsOverQuota(tenant, bytes);
    if (!EvictOne(own ? std::optional(tenant) : std::nullopt)) return charged;
  }
}

bool SegmentKeeper::MakeRoom() {
  MutexLock evicting(evict_mutex_);
  return EvictOne(std::nullopt);
}

uint64_t SegmentKeeper::EvictShare() {
  uint64_t wanted = 1;
  {
    MutexLock lock(mutex_);
    wanted += lives_.num_cached() / kEvictShare;
  }
  MutexLock evicting(evict_mutex_);
  uint64_t evicted = 0;
  while (evicted < wanted && EvictOne(std::nullopt)) ++evicted;
  return evicted;
}

bool SegmentKeeper::EvictOne(std::optional<std::string_view> tenant) {
  std::unordered_set<SegmentKey, SegmentKeyHash> busy;
  for (;;) {
    std::optional<SegmentKey> victim;
    {
      MutexLock lock(mutex_);
      victim = lives_.Victim([&](const SegmentKey& key, std::string_view of) {
        return (!tenant || of == *tenant) && !busy.contains(key);
      });
    }
    if (!victim) return false;
    const auto guard = parts_.writers->TryAcquire(*victim);
    if (guard && RemoveLocked(*victim, RemovalReason::kEvicted).value_or(false)) {
      evictions_.Add();
      return true;
    }
    busy.insert(*victim);
  }
}

// --- For users of segments.

StatusOr<SegmentHold> SegmentKeeper::Hold(std::span<const SegmentKey> keys) {
  MutexLock lock(mutex_);
  const TimePoint now = parts_.clock->Now();
  // From the last one on, so that the beginning of a chain counts as used after its end.
  for (size_t i = keys.size(); i-- > 0;) {
    if (lives_.Hold(keys[i], now)) continue;
    for (const SegmentKey& held : keys.subspan(i + 1)) (void)lives_.Release(held, now);
    return NotStored(keys[i]);
  }
  return SegmentHold(this, {keys.begin(), keys.end()});
}

void SegmentKeeper::ReleaseSegments(std::span<const SegmentKey> keys) {
  std::vector<SegmentKey> marked;
  {
    MutexLock lock(mutex_);
    const TimePoint now = parts_.clock->Now();
    for (size_t i = keys.size(); i-- > 0;) {
      if (lives_.Release(keys[i], now)) marked.push_back(keys[i]);
    }
  }
  // A sweep retries failed removals.
  for (const SegmentKey& key : marked) (void)Remove(key, RemovalReason::kMarked);
}

Status SegmentKeeper::Name(std::span<const SegmentKey> keys) {
  MutexLock lock(mutex_);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (lives_.Name(keys[i])) continue;
    for (const SegmentKey& named : keys.first(i)) lives_.Unname(named, parts_.clock->Now());
    return NotStored(keys[i]);
  }
  return OkStatus();
}

void SegmentKeeper::Unname(std::span<const SegmentKey> keys) {
  MutexLock lock(mutex_);
  const TimePoint now = parts_.clock->Now();
  for (size_t i = keys.size(); i-- > 0;) lives_.Unname(keys[i], now);
}

std::vector<uint64_t> SegmentKeeper::Mark(std::string_view tenant,
                                          std::span<const SegmentKey> keys) {
  std::vector<uint64_t> incarnations;
  incarnations.reserve(keys.size());
  MutexLock lock(mutex_);
  for (const SegmentKey& key : keys) {
    const bool may = lives_.MayBelongTo(tenant, key);
    incarnations.push_back(may ? lives_.Mark(key).value_or(0) : 0);
  }
  return incarnations;
}

void SegmentKeeper::Unmark(std::string_view tenant, std::span<const SegmentKey> keys) {
  MutexLock lock(mutex_);
  for (const SegmentKey& key : keys) {
    if (lives_.MayBelongTo(tenant, key)) lives_.Unmark(key);
  }
}

Status SegmentKeeper::RemoveMarked(const SegmentKey& key, uint64_t incarnation) {
  {
    MutexLock lock(mutex_);
    if (lives_.IncarnationOf(key) != incarnation || lives_.IsNamed(key)) {
      return NotFound("segment ", key.Hex(), " is not stored as it was");
    }
    lives_.Mark(key);
  }
  QUIRE_ASSIGN_OR_RETURN(const bool gone, Remove(key, RemovalReason::kMarked));
  if (gone) return OkStatus();
  return FailedPrecondition("segment ", key.Hex(), " is in use, and goes with its last user");
}

std::vector<uint64_t> SegmentKeeper::Incarnations(std::span<const SegmentKey> keys) const {
  std::vector<uint64_t> incarnations;
  incarnations.reserve(keys.size());
  MutexLock lock(mutex_);
  for (const SegmentKey& key : keys) {
    incarnations.push_back(lives_.IncarnationOf(key).value_or(0));
  }
  return incarnations;
}

std::vector<uint64_t> SegmentKeeper::WrittenAs(std::span<const SegmentKey> keys) const {
  std::vector<uint64_t> written;
  written.reserve(keys.size());
  MutexLock lock(mutex_);
  for (const SegmentKey& key : keys) written.push_back(lives_.WrittenAs(key).value_or(0));
  return written;
}

void SegmentKeeper::RestoreNames(const SegmentLives::Names& names) {
  MutexLock lock(mutex_);
  lives_.RestoreNames(names, parts_.clock->Now());
}

uint64_t SegmentKeeper::CountNames(const SegmentKey& key) const {
  MutexLock lock(mutex_);
  return lives_.CountNames(key);
}

bool SegmentKeeper::MissesNamed() const {
  MutexLock lock(mutex_);
  return lives_.misses_named();
}

std::vector<ListedSegment> SegmentKeeper::List(std::string_view tenant, const SegmentKey& after,
                                               size_t limit) const {
  MutexLock lock(mutex_);
  return lives_.List(tenant, after, limit);
}

void SegmentKeeper::SetStandings(std::span<const StandingChange> changes) {
  MutexLock lock(mutex_);
  for (const StandingChange& change : changes) lives_.SetStanding(change);
}

Status SegmentKeeper::Delete(const SegmentKey& key) {
  {
    MutexLock lock(mutex_);
    if (!lives_.Mark(key)) return NotStored(key);
    while (lives_.IsNamed(key)) lives_.Unname(key, parts_.clock->Now());
  }
  return Remove(key, RemovalReason::kMarked).status();  // Held: it is deleted with its last hold.
}

StatusOr<uint64_t> SegmentKeeper::Sweep() {
  Status first_failure;
  uint64_t removed = RemoveGone(&first_failure);
  for (uint64_t before = removed; first_failure.ok();) {
    std::vector<SegmentKey> marked, detached, unused;
    {
      MutexLock lock(mutex_);
      marked = lives_.Marked(kSweepBatch);
      detached = lives_.Detached(kSweepBatch);
      if (cached_ttl_ > Duration::zero()) {
        unused = lives_.UnusedSince(ExpiredBefore(), kSweepBatch);
      }
    }
    removed += RemoveAll(marked, RemovalReason::kMarked, &first_failure);
    const uint64_t detached_now = RemoveAll(detached, RemovalReason::kDetached, &first_failure);
    const uint64_t expired_now = RemoveAll(unused, RemovalReason::kExpired, &first_failure);
    detached_.Add(detached_now);
    expired_.Add(expired_now);
    removed += detached_now + expired_now;
    if (removed == before) break;
    before = removed;
  }
  QUIRE_RETURN_IF_ERROR(first_failure);
  bool notes_uses = false;
  {
    MutexLock lock(mutex_);
    notes_uses = parts_.clock->Now() - noted_until_ >= kNoteInterval;
  }
  if (notes_uses) QUIRE_RETURN_IF_ERROR(NoteUses());
  QUIRE_RETURN_IF_ERROR(parts_.ssd->ReclaimSpace());
  return removed;
}

std::vector<SegmentKey> SegmentKeeper::NextInMemory() {
  bool is_round_over = false;
  {
    MutexLock lock(mutex_);
    is_round_over = in_memory_.empty();
  }
  std::vector<SegmentKey> round;
  if (is_round_over) round = parts_.catalog->ListInMemory();
  MutexLock lock(mutex_);
  if (is_round_over) in_memory_ = std::move(round);
  const size_t count = std::min<size_t>(in_memory_.size(), kGoneChecks);
  const std::vector<SegmentKey> next(in_memory_.end() - static_cast<std::ptrdiff_t>(count),
                                     in_memory_.end());
  in_memory_.resize(in_memory_.size() - count);
  return next;
}

uint64_t SegmentKeeper::RemoveGone(Status* first_failure) {
  const auto is_gone = [&](const SegmentKey& key) {
    return parts_.catalog->IsInMemory(key) && !parts_.dram->HasAny(key);
  };
  uint64_t removed = 0;
  for (const SegmentKey& key : NextInMemory()) {
    if (!is_gone(key)) continue;
    const KeyedLock::Guard guard = parts_.writers->Acquire(key);
    if (!is_gone(key)) continue;  // It was put again meanwhile.
    const StatusOr<bool> gone = RemoveLocked(key, RemovalReason::kEvicted);
    if (gone.value_or(false)) ++removed;
    first_failure->Update(gone.status());
  }
  return removed;
}

Status SegmentKeeper::NoteUses() {
  std::vector<SegmentLives::Use> uses;
  TimePoint before, now;
  {
    MutexLock lock(mutex_);
    now = parts_.clock->Now();
    before = std::exchange(noted_until_, now);
    uses = lives_.UsedSince(before);
  }
  const int64_t unix_now = parts_.clock->UnixMicros();
  Status noted;
  for (size_t first = 0; first < uses.size() && noted.ok(); first += kNotesAtOnce) {
    Database::Batch batch = parts_.database->NewBatch();
    for (size_t i = first; i < std::min(uses.size(), first + kNotesAtOnce); ++i) {
      const auto ago =
          std::chrono::duration_cast<std::chrono::microseconds>(now - uses[i].last_use);
      const int64_t micros = unix_now - ago.count();
      if (micros - static_cast<int64_t>(uses[i].incarnation) < kSameUseMicros) continue;
      StageLastUse(uses[i].key, micros, batch);
    }
    noted = parts_.database->Commit(batch, /*sync=*/false);
  }
  if (noted.ok()) return noted;
  MutexLock lock(mutex_);
  noted_until_ = before;
  return noted;
}

uint64_t SegmentKeeper::RemoveAll(std::span<const SegmentKey> keys, RemovalReason why,
                                  Status* first_failure) {
  uint64_t removed = 0;
  for (const SegmentKey& key : keys) {
    const StatusOr<bool> gone = Remove(key, why);
    if (gone.value_or(false)) ++removed;
    first_failure->Update(gone.status());
  }
  return removed;
}

// --- Removal.

StatusOr<bool> SegmentKeeper::Remove(const SegmentKey& key, RemovalReason why) {
  const KeyedLock::Guard guard = parts_.writers->Acquire(key);
  return RemoveLocked(key, why);
}

StatusOr<bool> SegmentKeeper::RemoveLocked(const SegmentKey& key, RemovalReason why) {
  std::string tenant;
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    if (!lives_.BeginRemoval(key, why, ExpiredBefore())) return false;
    tenant = lives_.TenantOf(key);
    bytes = lives_.BytesOf(key);
  }
  const Status erased = Erase(key, tenant, bytes);
  MutexLock lock(mutex_);
  if (!erased.ok()) {
    lives_.CancelRemoval(key);
    return erased;
  }
  const bool listed = lives_.IsListed(key);
  lives_.Remove(key);
  if (parts_.events != nullptr && listed) {
    parts_.events->Add(tenant, {.kind = why == RemovalReason::kMarked ? SegmentEventKind::kDeleted
                                                                      : SegmentEventKind::kEvicted,
                                .segment = key});
  }
  return true;
}

Status SegmentKeeper::Erase(const SegmentKey& key, const std::string& tenant, uint64_t bytes) {
  const StatusOr<SegmentRecordPtr> record = parts_.catalog->Find(tenant, key);
  const bool lost = IsNotFound(record.status()) || IsDataLoss(record.status());
  if (!record.ok() && !lost) return record.status();
  Database::Batch batch = parts_.database->NewBatch();
  parts_.catalog->StageErase(key, batch);
  StageForgetLastUse(*parts_.database, key, batch);
  parts_.digests->StageErase(key, record.ok() ? record->get() : nullptr, batch);
  QUIRE_ASSIGN_OR_RETURN(SsdTier::Change change, parts_.ssd->StageErase(key, batch));
  Reach(parts_.faults, FaultPoint::kBeforeCommit);
  {
    const LatencyTimer timer(parts_.latencies->commit, parts_.latencies->clock);
    QUIRE_RETURN_IF_ERROR(parts_.database->Commit(batch, /*sync=*/false));
  }
  Reach(parts_.faults, FaultPoint::kCommitted);
  change.Committed();
  parts_.dram->Erase(key);
  const bool was_private = record.ok() && (*record)->private_pages;
  parts_.catalog->Forget(key, was_private);
  if (record.ok()) {
    parts_.digests->Forget(key, **record);
  } else {
    parts_.digests->ForgetAll();
  }
  parts_.space->Release(tenant, bytes);
  parts_.health->Clear(Trouble::kDiskFull);  // The next put without room raises it again.
  deletes_.Add();
  return OkStatus();
}

void SegmentKeeper::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("deletes", "Segments removed, for whatever reason.", deletes_.Get());
  visit.Counter("cached_evictions", "Cached segments that left SSD to make room.",
                evictions_.Get());
  visit.Counter("cached_expired", "Cached segments that left SSD because nobody had used them.",
                expired_.Get());
  visit.Counter("segments_detached",
                "Cached segments that left SSD because the one that they continue was removed.",
                detached_.Get());
  visit.Counter("segments_replaced",
                "Damaged or lost segments whose bytes were put again, maybe others.",
                replaced_.Get());
  MutexLock lock(mutex_);
  visit.Gauge("segments", "Segments stored.", lives_.size());
  visit.Gauge("segments_cached", "Segments stored that no document refers to.",
              lives_.num_cached());
  visit.Gauge("segments_held", "Segments that contexts, sessions, puts and pins hold.",
              lives_.num_held());
  visit.Gauge("ssd_bytes_cached", "Payload on SSD of segments that no document refers to.",
              lives_.cached_bytes());
  visit.Gauge("ssd_bytes_raised", "Payload of cached segments that leave SSD last by hints.",
              lives_.raised_bytes());
  visit.Counter("ssd_not_raised", "Cached segments that hints would raise beyond their share.",
                lives_.not_raised());
}

}  // namespace quire::kvserver
