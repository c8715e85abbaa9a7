// SPDX-License-Identifier: Apache-2.0
//
// Replicator: gives each document its copies. It follows what is agreed on names. It copies what
// this node owns and lacks, mends what is damaged, and releases what others own once they have it.
//
// A pass compares all agreed names, and then all names that are here. One begins at the start,
// after a change of members, when segments are lost, and every ten minutes. Between passes only
// changed names are compared, and those that became hot or cooled. Names with work wait in a
// bounded queue. One that fails is tried again later, and leaves the others going.
//
// A version of which no member has anything is retired after ten minutes. Its node died before it
// wrote it, or was removed. Or it was deleted after the backup that was restored.
//
// It has no thread: its owner calls CatchUp once and Step every now and then. A Step compares a
// page, and then copies and releases within the cluster's bandwidth limit. It begins nothing more
// after a second of that, or after a change of members, and waits for the call that has begun.
// Without peers nothing is copied or released, and names are made as agreed.
//
// Thread-safety: CatchUp and Step belong to one thread; all else may be called concurrently.
// Ownership: the parts outlive it.
#ifndef QUIRE_CLUSTER_REPLICA_REPLICATOR_H_
#define QUIRE_CLUSTER_REPLICA_REPLICATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/directory/directory_feed.h"
#include "cluster/membership/membership.h"
#include "cluster/placement/placement.h"
#include "cluster/replica/chain_copier.h"
#include "cluster/replica/extras_copier.h"
#include "cluster/replica/local_documents.h"
#include "cluster/replica/local_segments.h"
#include "cluster/replica/peer_nodes.h"
#include "cluster/replica/replica_plan.h"
#include "cluster/replica/transfer_pace.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/documents/document_agreement.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::cluster {

/// Work done and left, as in ReplicaProgressReply.
struct ReplicaProgress {
  uint64_t epoch = 0;
  bool pass_runs = false;
  uint64_t passes = 0;
  uint64_t names_compared = 0;
  uint64_t copies_pending = 0;
  uint64_t releases_pending = 0;
  uint64_t copied_bytes = 0;
  uint64_t copies = 0;
  uint64_t releases = 0;
  uint64_t failures = 0;
  uint64_t retired = 0;
  std::string last_failure = {};
};

class Replicator {
 public:
  struct Parts {
    LocalDocuments* documents = nullptr;
    LocalSegments* segments = nullptr;
    PeerNodes* peers = nullptr;  ///< Null: nothing is copied or released.
    DocumentAgreement* agreement = nullptr;
    DirectoryFeed* feed = nullptr;
    const Membership* membership = nullptr;
    const Clock* clock = nullptr;
    std::string node = {};                    ///< This node's name in the cluster.
    Duration change_wait = Duration::zero();  ///< Time that a Step without work waits for changes.
  };
  static constexpr Duration kPassInterval = std::chrono::minutes(10);
  /// A version of which no member has anything for so long, while all serve, is forgotten.
  static constexpr Duration kRetireAfter = std::chrono::minutes(10);

  explicit Replicator(Parts parts);

  /// Makes everything here as agreed, so that the node serves nothing that was deleted while it was
  /// away. Changes from its begin on are told to the Steps. UNAVAILABLE while the agreement cannot
  /// be reached: call it again. A name that fails otherwise is logged and left as it is.
  [[nodiscard]] Status CatchUp();
  /// Does the next part of the work.
  void Step();
  /// Takes extras of a version that is here. Those with segments of their own follow by and by.
  /// Errors: those of LocalDocuments::PutExtras. REQUIRES: there are peers.
  [[nodiscard]] Status TakeExtras(std::string_view tenant, const DocumentName& name,
                                  const std::vector<Member>& sources,
                                  std::vector<ExtraCopy> extras) {
    return extras_->Take(tenant, name, sources, std::move(extras));
  }
  /// True while extras of the version are being copied to this node. It then counts as no holder
  /// for others, which would drop theirs.
  bool AwaitsExtras(std::string_view tenant, const DocumentName& name) const {
    return extras_ != nullptr && extras_->Awaits(tenant, name);
  }
  /// Begins a pass at the next Step.
  void StartPass() QUIRE_EXCLUDES(mutex_);
  /// Ends a running Step soon, and makes all later ones do nothing.
  void Stop() { stopping_ = true; }
  /// True while this node may be about to drop the version. It then counts as no holder for others:
  /// two nodes must not leave a version to each other.
  bool IsReleasing(std::string_view tenant, const DocumentName& name) const QUIRE_EXCLUDES(mutex_);

  ReplicaProgress progress() const QUIRE_EXCLUDES(mutex_);
  /// replica_copies, replica_releases, replica_copied_bytes, replica_failures,
  /// replica_copies_pending, replica_releases_pending, replica_passes, replica_retired.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A name with work.
  struct Job {
    std::string tenant;
    DocumentName name;
    uint64_t copies = 0;
    uint64_t releases = 0;
    uint32_t attempts = 0;
    TimePoint not_before = {};
  };
  using JobKey = std::tuple<std::string, std::string, std::string>;
  using VersionKey = std::tuple<JobKey, uint64_t, SegmentKey>;
  static JobKey KeyOf(const Job& job) { return {job.tenant, job.name.collection, job.name.name}; }
  /// State of a name, or of a version, after the node worked on it.
  enum class Outcome : uint8_t {
    kDone,
    kPaused,  ///< The bandwidth limit is reached.
    kWaits,   ///< Other nodes are not so far.
    kFailed,
  };

  /// A version that this node releases.
  struct Releasing {
    std::string tenant;
    DocumentName name;
  };

  bool MustEnd() const;
  void FollowView();
  /// Queues the hot documents that this node owns by one of two placements only.
  void FollowHot(const Placement& before, const Placement& after);
  void FollowLosses();
  void FollowChanges();
  void BeginPassIfDue() QUIRE_EXCLUDES(mutex_);
  Status BeginToFollow();
  /// Makes a page of the names that are here as agreed. Returns the argument of the next page.
  StatusOr<std::string> AlignHeldPage(const std::string& after);
  size_t NumDue() const;
  void ComparePage() QUIRE_EXCLUDES(mutex_);
  void CompareAgreedPage() QUIRE_EXCLUDES(mutex_);
  void CompareHeldPage();
  void EndPass();
  /// Aligns a name, and queues it when there is work on it.
  void Compare(const DirectoryEntry& entry);
  bool HasTenant(const std::string& tenant) const;
  NamePlace PlaceOf(const Job& job) const;
  void CountWork(const AgreedName& agreed, Job* job) const;
  void Enqueue(Job job);
  void WorkOffQueue();
  void WorkOffExtras() QUIRE_EXCLUDES(mutex_);
  /// Does a due job, and queues it again unless it is done. False when the Step has to end.
  bool WorkOff(Job job);
  void MakeDue(Job* job);
  Outcome Work(Job& job);
  Outcome Work(const Job& job, const AgreedName& agreed, const Document& document)
      QUIRE_EXCLUDES(mutex_);
  /// Errors and result of ChainCopier::Advance.
  StatusOr<bool> CopyChain(const Job& job, const NamePlace& place, const SegmentKey& tip)
      QUIRE_EXCLUDES(mutex_);
  /// True when every other member serves and has nothing of the version.
  bool IsUnheld(const Job& job, const Document& document) const;
  /// Forgets a version that this node lacks, too, once nobody had it for long. True when it did.
  bool RetireIfUnheld(const Job& job, const Document& document) QUIRE_EXCLUDES(mutex_);
  void CopyExtras(const Job& job, const NamePlace& place, const DocumentName& name);
  Outcome Release(const Job& job, const NamePlace& place, const Document& document)
      QUIRE_EXCLUDES(mutex_);
  Outcome ReleaseIfHeld(const Job& job, const NamePlace& place, const Document& document)
      QUIRE_EXCLUDES(mutex_);
  void SetReleasing(std::optional<Releasing> version) QUIRE_EXCLUDES(mutex_);
  Outcome Failed(const Job& job, const Status& why) QUIRE_EXCLUDES(mutex_);
  void NoteProgress() QUIRE_EXCLUDES(mutex_);

  const Parts parts_;
  TransferPace pace_;
  std::shared_ptr<const ClusterView> view_;  ///< Null before the first step.
  std::optional<Placement> placement_;       ///< Placement of `view_`.
  std::optional<uint64_t> revision_;         ///< Changes up to it are compared.
  bool pass_runs_ = false;
  bool pass_scans_ = false;    ///< The pass compares agreed names still, and then those held.
  std::string pass_at_;        ///< Argument of the pass's next page.
  uint64_t passes_ = 0;        ///< Complete ones.
  uint64_t passed_epoch_ = 0;  ///< `pass_epoch_` of the last complete one.
  uint64_t pass_epoch_ = 0;    ///< Epoch of the view at its begin.
  TimePoint next_pass_ = {};
  TimePoint step_end_ = {};  ///< No copy or release begins after it in this Step.
  std::atomic<bool> stopping_ = false;
  bool moving_ = false;   ///< A pass found work, which is not done yet.
  uint64_t damaged_ = 0;  ///< Segments that were lost at the last look.
  std::deque<Job> queue_;
  std::set<JobKey> queued_;   ///< Keys of `queue_`.
  std::set<JobKey> renewed_;  ///< Those of them that changed while they wait.
  /// Versions that nobody had at the last look, with the time of the first one.
  std::map<VersionKey, TimePoint> unheld_since_;
  std::unique_ptr<ChainCopier> copier_;   ///< A copy that paused.
  std::unique_ptr<ExtrasCopier> extras_;  ///< Null without peers.

  mutable Mutex mutex_;
  bool pass_wanted_ QUIRE_GUARDED_BY(mutex_) = true;
  ReplicaProgress progress_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Releasing> releasing_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_REPLICATOR_H_
