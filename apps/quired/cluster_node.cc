// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/cluster_node.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <utility>

#include "apps/quired/peer_clocks.h"
#include "cluster/directory/tenant_salts.h"
#include "cluster/membership/etcd_membership.h"
#include "cluster/membership/node_identity.h"
#include "cluster/membership/static_membership.h"
#include "common/base/net_address.h"
#include "common/base/observe/log.h"
#include "quire/version.h"
#include "transport/grpc/grpc_transport.h"

namespace quire::kvserver {
namespace {

constexpr uint64_t kWeightUnitBytes = uint64_t{1} << 30;

/// The host's name in lower case; empty when there is none.
std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  std::string text(name.data());
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Refuses options that need another one, or exclude it.
Status CheckClusterOptions(const ClusterOptions& options) {
  if (options.cluster.empty()) {
    const bool stray = !options.etcd.empty() || !options.members.empty() || !options.node.empty() ||
                       !options.zone.empty() || !options.advertise.empty() || options.weight != 0 ||
                       !options.secret_file.empty();
    if (!stray) return OkStatus();
    return InvalidArgument(
        "--etcd, --members, --node, --zone, --advertise, --weight and --cluster-secret-file are "
        "of a cluster: name it with --cluster, or leave them away");
  }
  QUIRE_RETURN_IF_ERROR(cluster::CheckClusterName("--cluster", options.cluster));
  if (options.etcd.empty() == options.members.empty()) {
    return InvalidArgument("--cluster needs either --etcd HOST:PORT,... or --members FILE");
  }
  if (!options.zone.empty()) {
    QUIRE_RETURN_IF_ERROR(cluster::CheckClusterName("--zone", options.zone));
  }
  if (options.weight > cluster::kMaxMemberWeight) {
    return InvalidArgument("--weight is ", options.weight, ": must be 1..",
                           cluster::kMaxMemberWeight);
  }
  if (options.lease_seconds < 1 || options.lease_seconds > 3600) {
    return InvalidArgument("--node-lease-seconds is ", options.lease_seconds, ": must be 1..3600");
  }
  return OkStatus();
}

uint32_t WeightOf(const ClusterOptions& options, const ClusterNode::Facts& facts) {
  if (options.weight > 0) return options.weight;
  std::error_code unknown;  // A weight of 1 then.
  const uint64_t bytes = facts.ssd_bytes > 0
                             ? facts.ssd_bytes
                             : std::filesystem::space(facts.data_dir, unknown).capacity;
  if (unknown) return 1;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(bytes / kWeightUnitBytes, 1, cluster::kMaxMemberWeight));
}

}  // namespace

void AddClusterFlags(CLI::App* app, ClusterOptions* options) {
  app->add_option("--cluster", options->cluster,
                  "Cluster to join; its members are kept in etcd (--etcd) or in a file (--members)")
      ->type_name("NAME");
  app->add_option("--etcd", options->etcd, "host:port of each etcd server, all of one etcd")
      ->delimiter(',')
      ->type_name("ADDRESSES");
  app->add_option("--members", options->members,
                  "File of members, for a cluster without etcd: "
                  "{\"name\": \"NAME\", \"members\": [{\"name\": \"NODE\", \"address\": "
                  "\"host:port\"}]}")
      ->type_name("FILE");
  app->add_option("--node", options->node,
                  "Name of this node in the cluster (the host's name when not given)")
      ->type_name("NAME");
  app->add_option("--zone", options->zone,
                  "Failure domain of this node, such as a rack; a domain of its own when not given")
      ->type_name("NAME");
  app->add_option("--advertise", options->advertise,
                  "host:port at which clients and other nodes reach this node (that of --listen "
                  "when not given)");
  app->add_option("--weight", options->weight,
                  "This node's share of the data beside the others'; 0 = GiB of disk that its data "
                  "may take")
      ->capture_default_str();
  app->add_option("--cluster-secret-file", options->secret_file,
                  "File with a token, the same on all nodes, by which they call each other where "
                  "there are --tenant-tokens")
      ->type_name("FILE");
  app->add_option("--node-lease-seconds", options->lease_seconds,
                  "The cluster counts this node as lost after this time without a word")
      ->capture_default_str();
}

StatusOr<std::unique_ptr<ClusterNode>> ClusterNode::Start(const ClusterOptions& options,
                                                          Caller caller, Health* health) {
  QUIRE_RETURN_IF_ERROR(CheckClusterOptions(options));
  if (options.cluster.empty()) return nullptr;
  ClusterOptions named = options;
  if (named.node.empty()) named.node = HostName();
  QUIRE_RETURN_IF_ERROR(cluster::CheckClusterName("--node", named.node));
  std::unique_ptr<ClusterNode> node(new ClusterNode(std::move(named), std::move(caller), health));
  QUIRE_RETURN_IF_ERROR(node->Follow());
  return node;
}

ClusterNode::ClusterNode(ClusterOptions options, Caller caller, Health* health)
    : options_(std::move(options)), caller_(std::move(caller)), health_(*health) {}

ClusterNode::~ClusterNode() = default;

Status ClusterNode::Follow() {
  if (!options_.members.empty()) {
    auto fixed = cluster::StaticMembership::ReadFile(options_.members);
    if (!fixed.ok()) return Annotate(fixed.status(), "--members");
    membership_ = *std::move(fixed);
    return CheckListed();
  }
  auto etcd = cluster::EtcdClient::Create({.endpoints = options_.etcd});
  if (!etcd.ok()) return Annotate(etcd.status(), "--etcd");
  etcd_ = *std::move(etcd);
  directory_ = std::make_unique<cluster::EtcdDirectory>(etcd_.get(), options_.cluster);
  if (caller_.tenant.empty()) {
    LogWarning("no_replicas", {{"why", "other nodes ask for a token, and the node has none"}});
  } else {
    peers_ = std::make_unique<cluster::PeerCalls>(
        [this](const std::string& address) -> StatusOr<std::unique_ptr<Transport>> {
          return GrpcTransport::Create({.address = address, .token = caller_.token});
        });
  }
  collections_ = std::make_unique<cluster::EtcdCollections>(etcd_.get(), options_.cluster);
  hot_ = std::make_unique<cluster::EtcdHotDocuments>(etcd_.get(), options_.cluster);
  health_.Raise(Trouble::kNotAMember, "the node has not joined its cluster yet");
  membership_ = std::make_unique<cluster::EtcdMembership>(
      etcd_.get(), options_.cluster, [this](const Status& frozen) {
        if (frozen.ok()) return health_.Clear(Trouble::kClusterFrozen);
        health_.Raise(Trouble::kClusterFrozen, Message(frozen));
      });
  return OkStatus();
}

Status ClusterNode::CheckListed() const {
  const auto view = membership_->View();
  if (view->name != options_.cluster) {
    return InvalidArgument("--members ", options_.members, " is of cluster ", view->name,
                           ", not of ", options_.cluster);
  }
  if (view->settings.replicas > 1) {
    return InvalidArgument("--members ", options_.members, " asks for ", view->settings.replicas,
                           " replicas: nodes of a file agree on no names, so they keep one copy of "
                           "each document; take \"replicas\" out of its settings, or use --etcd");
  }
  if (view->Find(options_.node) != nullptr) return OkStatus();
  return InvalidArgument("--members ", options_.members, " does not list node ", options_.node,
                         ": add it there, or give the --node that is meant");
}

Status ClusterNode::CheckMayJoin(const std::string& data_dir) const {
  if (etcd_ == nullptr) return OkStatus();
  // A disk that cannot be read is refused below.
  const auto disk = cluster::ReadIdentity(data_dir);
  if (disk.ok() && *disk) BindTo((*disk)->cluster_id());
  const Status may_join = cluster::EtcdMember::CheckMayJoin(
      etcd_.get(), {.cluster_name = options_.cluster,
                    .data_dir = data_dir,
                    .self = {.name = options_.node, .zone = options_.zone}});
  if (IsUnavailable(may_join)) return OkStatus();
  return Annotate(may_join, "cannot join cluster ", options_.cluster);
}

void ClusterNode::BindTo(const std::string& cluster_id) const {
  directory_->era().Bind(cluster_id);
  collections_->era().Bind(cluster_id);
}

Status ClusterNode::FollowEra() const {
  QUIRE_RETURN_IF_ERROR(directory_->era().Follow(etcd_.get()));
  return collections_->era().Follow(etcd_.get());
}

ClusterPlace ClusterNode::place() const {
  ClusterPlace place{.membership = membership_.get(), .node = options_.node, .standing = [this] {
                       return Standing();
                     }};
  if (etcd_ == nullptr) return place;
  place.documents = directory_.get();
  place.feed = directory_.get();
  place.peers = peers_.get();
  place.collections = collections_.get();
  place.hot = hot_.get();
  place.agree_on_salts = [this](const std::vector<std::string>& tenants,
                                const TenantSalts& stored) {
    return cluster::AgreeOnSalts(etcd_.get(), options_.cluster, tenants, stored);
  };
  return place;
}

Status ClusterNode::Standing() const {
  if (etcd_ == nullptr) return OkStatus();
  MutexLock lock(mutex_);
  return member_ != nullptr ? member_->Standing() : Unavailable("it has not joined, or has left");
}

void ClusterNode::Leave() {
  std::unique_ptr<cluster::EtcdMember> leaving;
  MutexLock lock(mutex_);
  leaving.swap(member_);
}

StatusOr<cluster::Member> ClusterNode::Describe(const Facts& facts) const {
  const bool given = !options_.advertise.empty();
  const std::string& text = given ? options_.advertise : facts.listen;
  const std::string_view option = given ? "--advertise" : "--listen";
  const auto address = NetAddress::ParseServer(text);
  QUIRE_RETURN_IF_ERROR(Annotate(address.status(), option));
  if (address->is_unix() || address->IsEveryAddress()) {
    return InvalidArgument(option, " ", text,
                           " is no address for other nodes: give --advertise HOST:PORT");
  }
  return cluster::Member{.name = options_.node,
                         .zone = options_.zone,
                         .weight = WeightOf(options_, facts),
                         .address = text,
                         .version = QUIRE_VERSION,
                         .dram_bytes = facts.dram_bytes,
                         .ssd_bytes = facts.ssd_bytes};
}

Status ClusterNode::Join(const Facts& facts, std::function<bool()> is_stopping) {
  if (etcd_ == nullptr) return OkStatus();
  cluster::EtcdMemberOptions options{.cluster_name = options_.cluster,
                                     .data_dir = facts.data_dir,
                                     .lease = std::chrono::seconds(options_.lease_seconds),
                                     .is_stopping = std::move(is_stopping)};
  QUIRE_ASSIGN_OR_RETURN(options.self, Describe(facts));
  options.before_entry = [this] { return FollowEra(); };
  options.listens_on_address = options.self.address == facts.listen;
  if (caller_.tenant.empty()) {
    LogInfo("clock_not_checked", {{"why", "other nodes ask for a token, and the node has none"}});
  } else {
    options.clock_offsets = [this](const cluster::ClusterView& view) {
      return ClockOffsets(view, options_.node, caller_.tenant, caller_.token);
    };
  }
  options.on_standing = [this](const Status& standing) {
    if (standing.ok()) return health_.Clear(Trouble::kNotAMember);
    // While etcd is away, the membership says so.
    if (!IsUnavailable(standing)) health_.Raise(Trouble::kNotAMember, Message(standing));
  };
  auto member = cluster::EtcdMember::Join(etcd_.get(), std::move(options));
  if (!member.ok()) return Annotate(member.status(), "cannot join cluster ", options_.cluster);
  MutexLock lock(mutex_);
  member_ = *std::move(member);
  return OkStatus();
}

void ClusterNode::VisitMetrics(MetricsVisitor& visit) const {
  const auto view = membership_->View();
  for (const auto state : {cluster::MemberState::kUp, cluster::MemberState::kDraining,
                           cluster::MemberState::kLeft, cluster::MemberState::kLost}) {
    visit.Gauge("cluster_members", "Members of the cluster, by their state.",
                std::ranges::count(view->members, state, &cluster::Member::state),
                {{"state", cluster::Name(state)}});
  }
  visit.Gauge("cluster_epoch", "Revision of etcd up to which the node knows the cluster.",
              view->epoch);
  visit.Gauge("cluster_view_frozen", "1 while the node's view of the cluster may be old.",
              membership_->Frozen().ok() ? 0 : 1);
  MutexLock lock(mutex_);
  if (member_ != nullptr) member_->VisitMetrics(visit);
}

}  // namespace quire::kvserver
