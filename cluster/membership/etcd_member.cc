// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/etcd_member.h"

#include <utility>

#include "cluster/etcd/etcd_requests.h"
#include "cluster/membership/node_identity.h"
#include "common/base/random.h"

namespace quire::cluster {
namespace {

/// Renewals in the time of a lease: two may be lost.
constexpr int kRenewalsPerLease = 3;
/// Attempts against changes that others make at the same time.
constexpr int kMostJoinAttempts = 16;
constexpr Duration kTurnPause = std::chrono::milliseconds(200);

/// The identity of the data directory, or a new one, which is not written.
StatusOr<v1::NodeIdentity> IdentityOf(const EtcdMemberOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto disk, ReadIdentity(options.data_dir));
  if (disk) return *disk;
  v1::NodeIdentity fresh;
  fresh.set_cluster_name(options.cluster_name);
  fresh.set_node_name(options.self.name);
  fresh.set_node_id(NewId());
  return fresh;
}

v1::ClusterRecord NewCluster() {
  v1::ClusterRecord cluster;
  cluster.set_cluster_id(NewId());
  cluster.set_min_protocol(kOldestClusterProtocol);
  cluster.set_created_unix_micros(SystemClock().UnixMicros());
  return cluster;
}

}  // namespace

StatusOr<std::unique_ptr<EtcdMember>> EtcdMember::Join(EtcdClient* client,
                                                       EtcdMemberOptions options) {
  QUIRE_ASSIGN_OR_RETURN(v1::NodeIdentity identity, IdentityOf(options));
  const bool has_joined = !identity.cluster_id().empty();
  if (!has_joined) QUIRE_RETURN_IF_ERROR(WriteIdentity(options.data_dir, identity));
  options.self.node_id = identity.node_id();
  options.self.incarnation = SystemRandom().Next();
  std::unique_ptr<EtcdMember> member(
      new EtcdMember(client, std::move(options), std::move(identity)));
  QUIRE_RETURN_IF_ERROR(member->Enter());
  member->SetStanding(OkStatus());
  member->keeper_ = std::make_unique<PeriodicTask>(member->options_.lease / kRenewalsPerLease,
                                                   [raw = member.get()] { raw->Renew(); });
  return member;
}

Status EtcdMember::CheckMayJoin(EtcdClient* client, EtcdMemberOptions options) {
  QUIRE_ASSIGN_OR_RETURN(v1::NodeIdentity identity, IdentityOf(options));
  options.self.node_id = identity.node_id();
  EtcdMember candidate(client, std::move(options), std::move(identity));
  QUIRE_ASSIGN_OR_RETURN(const ClusterRecords records, candidate.ReadRecords());
  return CheckJoin(candidate.AsJoiner(), records).status();
}

EtcdMember::EtcdMember(EtcdClient* client, EtcdMemberOptions options, v1::NodeIdentity identity)
    : client_(*client), options_(std::move(options)), identity_(std::move(identity)) {}

EtcdMember::~EtcdMember() {
  is_ending_ = true;
  keeper_.reset();
  if (lease_ != 0) Leave();
}

Status EtcdMember::Standing() const {
  MutexLock lock(mutex_);
  return standing_;
}

void EtcdMember::SetStanding(const Status& status) {
  {
    MutexLock lock(mutex_);
    standing_ = status;
  }
  if (options_.on_standing) options_.on_standing(status);
}

bool EtcdMember::IsStopping() const {
  return is_ending_ || (options_.is_stopping && options_.is_stopping());
}

StatusOr<ClusterRecords> EtcdMember::ReadRecords(const std::string& name) {
  const std::string prefix = ClusterPrefix(options_.cluster_name);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.ReadPrefix(prefix + name));
  return ParseRecords(SnapshotOf(range, prefix));
}

Joiner EtcdMember::AsJoiner() const {
  return {.cluster_name = options_.cluster_name,
          .self = options_.self,
          .identity = identity_,
          .listens_on_address = options_.listens_on_address};
}

Status EtcdMember::AwaitTurn(ClusterRecords* records) {
  const Joiner joiner = AsJoiner();
  // A lease that nobody renews ends within its time; etcd looks twice a second.
  const TimePoint deadline = SystemClock().Now() + options_.lease + std::chrono::seconds(2);
  for (;;) {
    if (IsStopping()) return Status(StatusCode::kCancelled, "the node stops before it has joined");
    QUIRE_ASSIGN_OR_RETURN(*records, ReadRecords());
    QUIRE_ASSIGN_OR_RETURN(const JoinStep step, CheckJoin(joiner, *records));
    if (step == JoinStep::kEnter) return OkStatus();
    if (SystemClock().Now() >= deadline) {
      return AlreadyExists("a node with this node's id is up at ",
                           records->live.at(options_.self.name).record.address(),
                           ": its data directory is a copy of this one; stop one of the two");
    }
    SystemClock().Sleep(kTurnPause);
  }
}

Status EtcdMember::CheckOwnClock(const ClusterRecords& records) {
  if (!options_.clock_offsets) return OkStatus();
  const ClusterView view = ViewOf(options_.cluster_name, records);
  return CheckClock(options_.clock_offsets(view),
                    std::chrono::milliseconds(view.settings.max_clock_skew_millis));
}

Status EtcdMember::Enter() {
  for (int attempt = 0; attempt < kMostJoinAttempts; ++attempt) {
    ClusterRecords records;
    QUIRE_RETURN_IF_ERROR(AwaitTurn(&records));
    QUIRE_RETURN_IF_ERROR(CheckOwnClock(records));
    if (options_.before_entry) QUIRE_RETURN_IF_ERROR(options_.before_entry());
    QUIRE_ASSIGN_OR_RETURN(const bool entered, TryEnter(records));
    if (!entered) continue;
    joins_.Add();
    return OkStatus();
  }
  return Unavailable("the records of cluster ", options_.cluster_name,
                     " change all the time; try again");
}

StatusOr<bool> EtcdMember::TryEnter(const ClusterRecords& records) {
  const v1::ClusterRecord cluster = records.cluster ? records.cluster->record : NewCluster();
  QUIRE_ASSIGN_OR_RETURN(const int64_t lease, client_.GrantLease(options_.lease));
  QUIRE_ASSIGN_OR_RETURN(const auto answer,
                         client_.Commit(JoinTxn(AsJoiner(), records, cluster, lease)));
  if (!answer.succeeded()) {
    (void)client_.RevokeLease(lease);  // It ends by itself otherwise.
    return false;
  }
  lease_ = lease;
  const bool is_known = records.nodes.contains(options_.self.name);
  if (is_known && identity_.cluster_id() == cluster.cluster_id()) return true;
  identity_.set_cluster_id(cluster.cluster_id());
  identity_.set_joined_revision(RevisionBase(cluster) +
                                static_cast<uint64_t>(answer.header().revision()));
  QUIRE_RETURN_IF_ERROR(WriteIdentity(options_.data_dir, identity_));
  return true;
}

Status EtcdMember::KeepPlace() {
  if (lease_ == 0) return NotFound("it has no lease");
  QUIRE_RETURN_IF_ERROR(client_.KeepAlive(lease_));
  const std::string& name = options_.self.name;
  QUIRE_ASSIGN_OR_RETURN(const ClusterRecords records, ReadRecords(LiveKey(name)));
  const auto live = records.live.find(name);
  if (live == records.live.end()) return NotFound("its record is gone");
  if (live->second.record.incarnation() == options_.self.incarnation) return OkStatus();
  return FailedPrecondition("another process with this node's id has joined at ",
                            live->second.record.address(), ": stop one of the two");
}

void EtcdMember::Renew() {
  Status status = KeepPlace();
  renewals_.Add();
  if (IsNotFound(status)) {
    // A lease without its record serves nothing.
    if (lease_ != 0) (void)client_.RevokeLease(lease_);
    lease_ = 0;
    status = Enter();
  }
  if (IsStopping()) return;
  if (!status.ok()) renewal_failures_.Add();
  SetStanding(status);
}

void EtcdMember::Leave() {
  const std::string prefix = ClusterPrefix(options_.cluster_name);
  const auto records = ReadRecords();
  if (records.ok()) {
    const auto live = records->live.find(options_.self.name);
    const auto node = records->nodes.find(options_.self.name);
    const bool is_ours = live != records->live.end() &&
                         live->second.record.incarnation() == options_.self.incarnation;
    if (is_ours && node != records->nodes.end()) {
      v1::NodeRecord left = node->second.record;
      left.set_left(true);
      etcdserverpb::TxnRequest txn;
      RequireRevision(txn, prefix + NodeKey(options_.self.name), node->second.mod_revision);
      AddPut(txn, prefix + NodeKey(options_.self.name), ToJsonText(left));
      (void)client_.Commit(txn);  // Without it the node counts as lost.
    }
  }
  (void)client_.RevokeLease(lease_);  // It ends by itself otherwise.
}

void EtcdMember::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("cluster_joins", "Times that the node joined its cluster.", joins_.Get());
  visit.Counter("cluster_lease_renewals", "Times that the node renewed its lease in etcd.",
                renewals_.Get());
  visit.Counter("cluster_lease_failures",
                "Renewals that failed: etcd was away, or the node is no member.",
                renewal_failures_.Get());
}

}  // namespace quire::cluster
