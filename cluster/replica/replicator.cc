// SPDX-License-Identifier: Apache-2.0
#include "cluster/replica/replicator.h"

#include <algorithm>
#include <utility>

#include "common/base/observe/log.h"

namespace quire::cluster {
namespace {

constexpr uint32_t kNamesPerStep = 256;
constexpr size_t kJobsPerStep = 64;
/// Jobs above which a pass waits, and those above which a changed name is left to the next pass.
constexpr size_t kMostJobsInPass = 1024;
constexpr size_t kMostJobs = 65536;
constexpr Duration kStepTime = std::chrono::seconds(1);
/// Time until other nodes are asked again that are not so far.
constexpr Duration kAskAgain = std::chrono::seconds(2);
constexpr Duration kFirstRetry = std::chrono::seconds(1);
constexpr uint32_t kMostDoublings = 6;
/// Versions without a holder that are watched at a time.
constexpr size_t kMostUnheld = 65536;

Duration RetryAfter(uint32_t attempts) {
  return kFirstRetry * (1 << std::min(attempts, kMostDoublings));
}

}  // namespace

Replicator::Replicator(Parts parts) : parts_(std::move(parts)), pace_(parts_.clock) {
  if (parts_.peers == nullptr) return;
  extras_ = std::make_unique<ExtrasCopier>(parts_.documents, parts_.segments, parts_.peers);
}

Status Replicator::CatchUp() {
  // First, since a deletion that comes after a name was read is told as a change.
  QUIRE_RETURN_IF_ERROR(BeginToFollow());
  std::string after;
  do {
    QUIRE_ASSIGN_OR_RETURN(after, AlignHeldPage(after));
  } while (!after.empty() && !stopping_);
  return OkStatus();
}

Status Replicator::BeginToFollow() {
  QUIRE_ASSIGN_OR_RETURN(const DirectoryPage page, parts_.feed->Scan("", 1));
  revision_ = page.revision;
  return OkStatus();
}

StatusOr<std::string> Replicator::AlignHeldPage(const std::string& after) {
  QUIRE_ASSIGN_OR_RETURN(LocalNames page, parts_.documents->HeldNames(after));
  for (const auto& [tenant, name] : page.names) {
    if (!HasTenant(tenant)) continue;
    const auto agreed = parts_.agreement->Read(tenant, name);
    const Status aligned =
        agreed.ok() ? parts_.documents->Align(tenant, name, *agreed) : agreed.status();
    if (IsUnavailable(aligned)) return aligned;
    if (!aligned.ok()) (void)Failed({.tenant = tenant, .name = name}, aligned);
  }
  return std::move(page.next);
}

void Replicator::Step() {
  if (stopping_) return;
  FollowView();
  // A node that left, or is lost to the others, owns nothing by its own view.
  const Member* const self = view_->Find(parts_.node);
  if (self == nullptr || !self->Serves() || !parts_.membership->Frozen().ok()) return;
  FollowLosses();
  FollowChanges();
  BeginPassIfDue();
  if (pass_runs_ && NumDue() < kMostJobsInPass) ComparePage();
  step_end_ = parts_.clock->Now() + kStepTime;
  WorkOffQueue();
  if (extras_ != nullptr) WorkOffExtras();
  NoteProgress();
}

bool Replicator::MustEnd() const {
  return stopping_ || parts_.clock->Now() >= step_end_ || parts_.membership->View() != view_;
}

void Replicator::StartPass() {
  MutexLock lock(mutex_);
  pass_wanted_ = true;
}

void Replicator::FollowView() {
  auto view = parts_.membership->View();
  if (view != view_) {
    const bool moved = view_ == nullptr || !SamePlacement(*view_, *view);
    const Placement next(view);
    if (moved) {
      StartPass();
      for (Job& job : queue_) MakeDue(&job);
    } else {
      FollowHot(*placement_, next);
    }
    view_ = std::move(view);
    placement_.emplace(next);
  }
  pace_.SetRate(view_->settings.copy_bytes_per_second);
}

void Replicator::FollowHot(const Placement& before, const Placement& after) {
  for (const Placement* const placement : {&before, &after}) {
    for (const HotDocument& hot : placement->view().hot_documents) {
      Job job{.tenant = hot.tenant, .name = {.collection = hot.collection, .name = hot.document}};
      const bool owned = cluster::PlaceOf(before, parts_.node, job.tenant, job.name).owned;
      const bool owns = cluster::PlaceOf(after, parts_.node, job.tenant, job.name).owned;
      if (owned == owns || parts_.peers == nullptr || !HasTenant(job.tenant)) continue;
      // As many versions as are found when it is worked on; there is one as a rule.
      (owns ? job.copies : job.releases) = 1;
      Enqueue(std::move(job));
    }
  }
}

void Replicator::FollowLosses() {
  const uint64_t damaged = parts_.segments->NumDamaged();
  if (damaged > damaged_) StartPass();
  damaged_ = damaged;
}

void Replicator::FollowChanges() {
  if (!revision_ && !BeginToFollow().ok()) return;
  const bool is_idle = queue_.empty() && !pass_runs_;
  const Duration wait = is_idle ? parts_.change_wait : Duration::zero();
  auto changes = parts_.feed->Changes(*revision_, SystemClock().Now() + wait);
  if (changes.status().code() == StatusCode::kOutOfRange) {
    // Removals are among the forgotten changes. A pass from here on finds them. While the directory
    // is away the old revision stays, and the next step comes here again.
    if (BeginToFollow().ok()) StartPass();
    return;
  }
  if (!changes.ok()) return;  // The directory is away; the next step asks again.
  for (const DirectoryEntry& entry : changes->entries) Compare(entry);
  revision_ = changes->revision;
}

void Replicator::BeginPassIfDue() {
  if (pass_runs_) return;  // It ends first, or one loss after the other would hold it up.
  const TimePoint now = parts_.clock->Now();
  MutexLock lock(mutex_);
  if (!pass_wanted_ && now < next_pass_) return;
  pass_wanted_ = false;
  next_pass_ = now + kPassInterval;
  pass_runs_ = pass_scans_ = true;
  pass_at_.clear();
  pass_epoch_ = view_->epoch;
  progress_.pass_runs = true;
  progress_.names_compared = 0;
}

size_t Replicator::NumDue() const {
  const TimePoint now = parts_.clock->Now();
  return std::ranges::count_if(queue_, [&](const Job& job) { return job.not_before <= now; });
}

void Replicator::ComparePage() { pass_scans_ ? CompareAgreedPage() : CompareHeldPage(); }

void Replicator::CompareAgreedPage() {
  auto page = parts_.feed->Scan(pass_at_, kNamesPerStep);
  if (!page.ok()) return;  // The directory is away; the next step asks again.
  for (const DirectoryEntry& entry : page->entries) Compare(entry);
  pass_at_ = std::move(page->next);
  pass_scans_ = !pass_at_.empty();
  MutexLock lock(mutex_);
  progress_.names_compared += page->entries.size();
}

// A name that was deleted is among these only.
void Replicator::CompareHeldPage() {
  auto next = AlignHeldPage(pass_at_);
  if (!next.ok()) return;  // The directory is away; the next step asks again.
  pass_at_ = *std::move(next);
  if (pass_at_.empty()) EndPass();
}

void Replicator::EndPass() {
  pass_runs_ = false;
  passed_epoch_ = pass_epoch_;
  ++passes_;
  if (queue_.empty()) return;
  moving_ = true;
  LogInfo("replicas_to_move",
          {{"names", std::to_string(queue_.size())}, {"epoch", std::to_string(pass_epoch_)}});
}

void Replicator::Compare(const DirectoryEntry& entry) {
  if (!HasTenant(entry.tenant)) return;
  Job job{.tenant = entry.tenant, .name = entry.name};
  const Status aligned = parts_.documents->Align(job.tenant, job.name, entry.agreed);
  if (!aligned.ok()) {
    (void)Failed(job, aligned);
    Enqueue(std::move(job));
    return;
  }
  if (parts_.peers == nullptr) return;
  CountWork(entry.agreed, &job);
  if (job.copies + job.releases > 0) Enqueue(std::move(job));
}

bool Replicator::HasTenant(const std::string& tenant) const {
  const std::vector<std::string> tenants = parts_.documents->Tenants();
  return std::ranges::find(tenants, tenant) != tenants.end();
}

NamePlace Replicator::PlaceOf(const Job& job) const {
  return cluster::PlaceOf(*placement_, parts_.node, job.tenant, job.name);
}

void Replicator::CountWork(const AgreedName& agreed, Job* job) const {
  const NamePlace place = PlaceOf(*job);
  job->copies = job->releases = 0;
  for (const Document& document : agreed.versions) {
    const ReplicaTask task = TaskOf(place, parts_.documents->StateOf(job->tenant, document));
    if (task == ReplicaTask::kCopy) ++job->copies;
    if (task == ReplicaTask::kRelease) ++job->releases;
  }
}

void Replicator::Enqueue(Job job) {
  if (queued_.contains(KeyOf(job))) {
    renewed_.insert(KeyOf(job));
    return;
  }
  if (queue_.size() >= kMostJobs) return;  // The next pass finds it.
  queued_.insert(KeyOf(job));
  queue_.push_back(std::move(job));
}

void Replicator::MakeDue(Job* job) {
  job->not_before = {};
  job->attempts = 0;
}

void Replicator::WorkOffQueue() {
  size_t worked = 0;
  for (size_t left = queue_.size(); left > 0 && worked < kJobsPerStep && !MustEnd(); --left) {
    Job job = std::move(queue_.front());
    queue_.pop_front();
    if (renewed_.erase(KeyOf(job)) > 0) MakeDue(&job);
    if (job.not_before > parts_.clock->Now()) {
      queue_.push_back(std::move(job));
      continue;
    }
    ++worked;
    if (!WorkOff(std::move(job))) return;
  }
}

void Replicator::WorkOffExtras() {
  uint64_t drawn = extras_->copied_bytes();
  const auto draw = [&] {
    const uint64_t bytes = extras_->copied_bytes() - drawn;
    drawn += bytes;
    pace_.Draw(bytes);
    MutexLock lock(mutex_);
    progress_.copied_bytes += bytes;
  };
  extras_->Advance([&] {
    draw();
    return pace_.MayBegin() && !MustEnd();
  });
  draw();
}

bool Replicator::WorkOff(Job job) {
  const Outcome outcome = Work(job);
  if (outcome == Outcome::kPaused) {
    queue_.push_front(std::move(job));
    return false;
  }
  copier_.reset();  // It holds segments that nothing may name any more.
  if (outcome == Outcome::kDone) {
    queued_.erase(KeyOf(job));
    return true;
  }
  const Duration wait = outcome == Outcome::kWaits ? kAskAgain : RetryAfter(job.attempts++);
  job.not_before = parts_.clock->Now() + wait;
  queue_.push_back(std::move(job));
  return true;
}

Replicator::Outcome Replicator::Work(Job& job) {
  const auto agreed = parts_.agreement->Read(job.tenant, job.name);
  if (!agreed.ok()) return Failed(job, agreed.status());
  const Status aligned = parts_.documents->Align(job.tenant, job.name, *agreed);
  if (!aligned.ok()) return Failed(job, aligned);
  Outcome all = Outcome::kDone;
  for (const Document& document : agreed->versions) {
    const Outcome one = Work(job, *agreed, document);
    if (one == Outcome::kPaused) return one;
    if (one != Outcome::kDone) all = one;
  }
  CountWork(*agreed, &job);
  return all;
}

Replicator::Outcome Replicator::Work(const Job& job, const AgreedName& agreed,
                                     const Document& document) {
  const NamePlace place = PlaceOf(job);
  const Held held = parts_.documents->StateOf(job.tenant, document);
  switch (TaskOf(place, held)) {
    case ReplicaTask::kNone:
      return Outcome::kDone;
    case ReplicaTask::kRelease:
      return Release(job, place, document);
    case ReplicaTask::kCopy:
      break;
  }
  const StatusOr<bool> whole = CopyChain(job, place, document.chain_tip);
  if (!whole.ok()) {
    copier_.reset();
    const bool may_be_unheld = held == Held::kNot && IsNotFound(whole.status());
    if (may_be_unheld && RetireIfUnheld(job, document)) return Outcome::kDone;
    return Failed(job, whole.status());
  }
  if (!*whole) return Outcome::kPaused;
  const auto awaited = extras_->Await(job.tenant, document.name);
  const Status adopted =
      held == Held::kNot ? parts_.documents->Adopt(job.tenant, document.name, agreed) : OkStatus();
  copier_.reset();
  if (!adopted.ok()) return Failed(job, adopted);
  CopyExtras(job, place, document.name);
  MutexLock lock(mutex_);
  ++progress_.copies;
  return Outcome::kDone;
}

StatusOr<bool> Replicator::CopyChain(const Job& job, const NamePlace& place,
                                     const SegmentKey& tip) {
  if (copier_ == nullptr || copier_->tenant() != job.tenant || copier_->tip() != tip) {
    copier_ = std::make_unique<ChainCopier>(parts_.segments, parts_.peers, job.tenant, tip);
  }
  uint64_t drawn = copier_->copied_bytes();
  const auto draw = [&] {
    const uint64_t bytes = copier_->copied_bytes() - drawn;
    drawn += bytes;
    pace_.Draw(bytes);
    MutexLock lock(mutex_);
    progress_.copied_bytes += bytes;
  };
  auto whole = copier_->Advance(place.other_holders, [&] {
    draw();
    return pace_.MayBegin() && !MustEnd();
  });
  draw();
  return whole;
}

bool Replicator::IsUnheld(const Job& job, const Document& document) const {
  for (const Member& member : view_->members) {
    if (member.name == parts_.node) continue;
    if (!member.Serves() || MustEnd()) return false;  // It may have it on its disk.
    const auto held = parts_.peers->Holds(member, job.tenant, {&document, 1});
    if (!held.ok() || held->front() != Held::kNot) return false;
  }
  return parts_.membership->Frozen().ok() && parts_.membership->View() == view_;
}

// A put names its chain first in the directory, and then at its node. In between no node has the
// version, so it counts as lost only after a long time.
bool Replicator::RetireIfUnheld(const Job& job, const Document& document) {
  const VersionKey key(KeyOf(job), document.name.version, document.chain_tip);
  if (!IsUnheld(job, document)) {
    unheld_since_.erase(key);
    return false;
  }
  if (unheld_since_.size() >= kMostUnheld) unheld_since_.clear();  // Their time begins anew.
  const auto [since, is_new] = unheld_since_.try_emplace(key, parts_.clock->Now());
  if (is_new || parts_.clock->Now() - since->second < kRetireAfter) return false;
  const uint64_t version = document.name.version;
  const auto removed = parts_.agreement->Remove(job.tenant, job.name, {&version, 1});
  if (!removed.ok()) return false;
  unheld_since_.erase(since);
  LogWarning("version_retired", {{"tenant", job.tenant},
                                 {"document", job.name.collection + "/" + job.name.name},
                                 {"version", std::to_string(version)},
                                 {"why", "no node has any of it"}});
  MutexLock lock(mutex_);
  ++progress_.retired;
  return true;
}

// Extras only save work, so the document is served without them.
void Replicator::CopyExtras(const Job& job, const NamePlace& place, const DocumentName& name) {
  Status failure;
  for (const Member& holder : place.other_holders) {
    auto extras = parts_.peers->ReadExtras(holder, job.tenant, name);
    failure = extras.ok() ? TakeExtras(job.tenant, name, place.other_holders, *std::move(extras))
                          : extras.status();
    if (failure.ok()) return;
  }
  if (!failure.ok()) (void)Failed(job, Annotate(failure, "extras"));
}

Replicator::Outcome Replicator::Release(const Job& job, const NamePlace& place,
                                        const Document& document) {
  // Before others are asked: of two nodes that ask each other, at most one hears that it may.
  SetReleasing(Releasing{.tenant = job.tenant, .name = document.name});
  const Outcome outcome = ReleaseIfHeld(job, place, document);
  SetReleasing(std::nullopt);
  return outcome;
}

Replicator::Outcome Replicator::ReleaseIfHeld(const Job& job, const NamePlace& place,
                                              const Document& document) {
  std::vector<bool> owners_hold;
  for (const Member& owner : place.other_owners) {
    if (MustEnd()) return Outcome::kWaits;
    const auto holds = parts_.peers->Holds(owner, job.tenant, {&document, 1});
    if (!holds.ok()) return Failed(job, Annotate(holds.status(), "node ", owner.name));
    owners_hold.push_back(holds->front() == Held::kWhole);
  }
  if (!MayRelease(place, owners_hold)) return Outcome::kWaits;
  if (parts_.membership->View() != view_) return Outcome::kWaits;  // The owners may be others.
  const Status released = parts_.documents->Release(job.tenant, document.name);
  if (!released.ok()) return Failed(job, released);
  MutexLock lock(mutex_);
  ++progress_.releases;
  return Outcome::kDone;
}

void Replicator::SetReleasing(std::optional<Releasing> version) {
  MutexLock lock(mutex_);
  releasing_ = std::move(version);
}

bool Replicator::IsReleasing(std::string_view tenant, const DocumentName& name) const {
  MutexLock lock(mutex_);
  return releasing_ && releasing_->tenant == tenant && releasing_->name == name;
}

Replicator::Outcome Replicator::Failed(const Job& job, const Status& why) {
  std::string text = why.ToString();
  MutexLock lock(mutex_);
  ++progress_.failures;
  if (text != progress_.last_failure) {
    LogInfo("replica_failed", {{"tenant", job.tenant},
                               {"document", job.name.collection + "/" + job.name.name},
                               {"why", text}});
  }
  progress_.last_failure = std::move(text);
  return Outcome::kFailed;
}

void Replicator::NoteProgress() {
  if (moving_ && queue_.empty() && !pass_runs_) {
    moving_ = false;
    LogInfo("replicas_moved", {{"epoch", std::to_string(passed_epoch_)}});
  }
  uint64_t copies = 0, releases = 0;
  for (const Job& job : queue_) {
    copies += job.copies;
    releases += job.releases;
  }
  if (extras_ != nullptr) copies += extras_->num_waiting();
  MutexLock lock(mutex_);
  // Together, so that a pass is not over before its work is known.
  progress_.pass_runs = pass_runs_;
  progress_.passes = passes_;
  progress_.epoch = passed_epoch_;
  progress_.copies_pending = copies;
  progress_.releases_pending = releases;
}

ReplicaProgress Replicator::progress() const {
  MutexLock lock(mutex_);
  ReplicaProgress progress = progress_;
  progress.pass_runs |= pass_wanted_;
  return progress;
}

void Replicator::VisitMetrics(MetricsVisitor& visit) const {
  const ReplicaProgress now = progress();
  visit.Counter("replica_copies", "Versions of documents copied from other nodes.", now.copies);
  visit.Counter("replica_copied_bytes", "Stored bytes of segments copied from other nodes.",
                now.copied_bytes);
  visit.Counter("replica_releases", "Versions of documents left to their owners.", now.releases);
  visit.Counter("replica_failures", "Copies and releases that failed and are tried again.",
                now.failures);
  visit.Counter("replica_passes", "Comparisons of all agreed names with what the node has.",
                now.passes);
  visit.Counter("replica_retired",
                "Versions of documents that were forgotten since no node has anything of them.",
                now.retired);
  visit.Gauge("replica_copies_pending",
              "Versions of documents that the node owns and has not copied yet.",
              now.copies_pending);
  visit.Gauge("replica_releases_pending",
              "Versions of documents that wait for their owners to have them.",
              now.releases_pending);
}

}  // namespace quire::cluster
