// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "cluster/etcd/etcd_requests.h"
#include "cluster/membership/cluster_records.h"
#include "cluster/placement/placement.h"
#include "tests/sim/sim_content.h"
#include "tests/sim/sim_membership.h"
#include "tests/sim/sim_world.h"

namespace quire::sim {
namespace {

constexpr Duration kMostSettle = std::chrono::minutes(10);
constexpr Duration kCheckEvery = std::chrono::seconds(1);
/// Nodes have one view by then, and have begun what follows from it.
constexpr Duration kQuiet = std::chrono::seconds(15);

}  // namespace

SimWorld::SimWorld(const SimScenario& its_scenario, uint64_t seed)
    : scenario(its_scenario), scheduler(seed) {
  network.quality().loss = scenario.loss;
  network.quality().duplicate = scenario.duplicate;
  network.quality().most_delay =
      std::chrono::microseconds(static_cast<int64_t>(scenario.most_delay_ms * 1000));
  end = TimePoint(std::chrono::milliseconds(static_cast<int64_t>(scenario.seconds * 1000)));
  network.Up(kSimEtcd);
  for (uint32_t i = 0; i < scenario.nodes; ++i) (void)AddNode();
}

SimNode& SimWorld::AddNode() {
  const std::string number = std::to_string(nodes.size());
  const std::string zone = "zone-" + std::to_string(nodes.size() % scenario.zones);
  const auto find = [this](const std::string& name) -> SimPeerService* {
    for (const auto& node : nodes) {
      if (node->name() == name) return node->peer_service();
    }
    return nullptr;
  };
  nodes.push_back(std::make_unique<SimNode>(SimSurroundings{scheduler, network, etcd, find},
                                            "node-" + number, zone));
  nodes.back()->Start();
  return *nodes.back();
}

SimNode& SimWorld::AnyNode() { return *nodes[scheduler.random().Below(nodes.size())]; }

Duration SimWorld::About(double seconds) {
  const double factor = 0.2 + 1.6 * scheduler.random().Uniform();
  return std::chrono::microseconds(static_cast<int64_t>(seconds * factor * 1e6));
}

namespace {

/// The parts of one run.
class SimRun {
 public:
  SimRun(const SimScenario& scenario, uint64_t seed) : world_(scenario, seed) {}

  SimReport Run() {
    SetSettings();
    for (uint32_t i = 0; i < world_.scenario.clients; ++i) {
      StartBusy([this, i] { RunSimClient(&world_, i); });
    }
    for (uint32_t i = 0; i < world_.scenario.hot_readers; ++i) {
      StartBusy([this, i] { RunSimHotReader(&world_, i); });
    }
    for (const SimFault& fault : world_.scenario.faults) {
      StartBusy([this, fault] { RunSimFault(&world_, fault); });
    }
    while (world_.GoesOn()) {
      world_.scheduler.RunUntil(world_.scheduler.Now() + kCheckEvery);
      CheckCopies();
    }
    const TimePoint settled = Settle();
    // A copy that its node wrote after it had heard of the version waits for the next pass.
    for (const auto& node : world_.nodes) node->StartPass();
    (void)Settle();
    CheckEnd();
    SimReport report{.broken = world_.history.broken(),
                     .story = world_.history.Story(),
                     .fingerprint = world_.scheduler.fingerprint(),
                     .events = world_.scheduler.num_events(),
                     .registered = world_.history.num_registered(),
                     .deleted = world_.history.num_deleted(),
                     .found = world_.history.num_found(),
                     .faults = world_.num_faults,
                     .read_at_extra = world_.num_read_at_extra};
    report.settle_seconds = std::chrono::duration<double>(settled - world_.end).count();
    EndAll();
    return report;
  }

 private:
  static constexpr Duration kFirstClients = std::chrono::seconds(3);

  void StartBusy(const std::function<void()>& work) {
    ++world_.num_busy;
    world_.scheduler.Start(
        [this, work] {
          work();
          --world_.num_busy;
        },
        kFirstClients);
  }

  /// The operator's settings are there before the first node.
  void SetSettings() {
    const SimScenario& scenario = world_.scenario;
    const cluster::ClusterSettings settings = {
        .replicas = scenario.replicas,
        .min_replicas = scenario.min_replicas,
        .hot_reads_per_second = scenario.hot_reads_per_second,
        .hot_replicas = scenario.hot_replicas,
        .hot_keep_seconds = scenario.hot_keep_seconds};
    etcdserverpb::TxnRequest txn;
    cluster::AddPut(txn, cluster::ClusterPrefix(kSimCluster) + std::string(cluster::kSettingsKey),
                    cluster::ToJsonText(cluster::ToProto(settings)));
    (void)world_.etcd.model.Commit(txn);  // It compares nothing.
  }

  /// Reads keys from etcd's own state.
  etcdserverpb::RangeResponse KeysOf(const std::string& prefix) const {
    etcdserverpb::RangeRequest all;
    all.set_key(prefix);
    all.set_range_end(cluster::PrefixEnd(prefix));
    return world_.etcd.model.Range(all);
  }

  bool AnyIsHot() const {
    return KeysOf(cluster::ClusterPrefix(kSimCluster) + "hot/").kvs_size() > 0;
  }

  /// Reads the agreed names from etcd's own state.
  std::map<std::string, AgreedName> Agreed() const {
    std::map<std::string, AgreedName> names;
    const std::string prefix = cluster::DocumentsPrefix(kSimCluster);
    const etcdserverpb::RangeResponse range = KeysOf(prefix);
    for (const auto& kv : range.kvs()) {
      const auto key = cluster::ParseDirectoryKey(std::string_view(kv.key()).substr(prefix.size()));
      if (!key) continue;
      auto agreed = cluster::ParseDirectoryRecord(*key, kv.value());
      if (agreed.ok()) names[key->name.name] = *std::move(agreed);
    }
    return names;
  }

  /// Some node has the pages of each acknowledged version.
  void CheckCopies() {
    for (const auto& [name, agreed] : Agreed()) {
      for (const Document& document : agreed.versions) {
        const bool must = world_.history.MustExist(name, document.name.version, document.chain_tip);
        const bool has = std::ranges::any_of(
            world_.nodes, [&](const auto& node) { return node->HasChain(document.chain_tip); });
        if (must && !has) {
          world_.history.Break("no node has the pages of " + name + "@" +
                               std::to_string(document.name.version));
        }
      }
    }
  }

  /// Waits until faults and clients have ended, and every node has nothing left to do.
  TimePoint Settle() {
    SimScheduler& scheduler = world_.scheduler;
    const TimePoint deadline = scheduler.Now() + kMostSettle;
    TimePoint quiet_since = scheduler.Now();
    while (scheduler.Now() < deadline) {
      world_.network.quality().loss = world_.network.quality().duplicate = 0;
      scheduler.RunUntil(scheduler.Now() + kCheckEvery);
      CheckCopies();
      const bool settled =
          world_.num_busy == 0 && !AnyIsHot() &&
          std::ranges::all_of(world_.nodes, [](const auto& node) { return node->Settled().ok(); });
      if (!settled) quiet_since = scheduler.Now();
      if (scheduler.Now() - quiet_since >= kQuiet) return quiet_since;
    }
    if (AnyIsHot()) world_.history.Break("not settled: a document is hot that nobody reads");
    for (const auto& node : world_.nodes) {
      const Status status = node->Settled();
      if (!status.ok()) world_.history.Break("not settled: " + status.ToString());
    }
    return scheduler.Now();
  }

  void CheckEnd() {
    const std::map<std::string, AgreedName> agreed = Agreed();
    world_.history.CheckEnd(agreed);
    cluster::ClusterView view{.settings = {.replicas = world_.scenario.replicas}};
    for (const auto& node : world_.nodes) view.members.push_back(node->AsMember());
    std::ranges::sort(view.members, {}, &cluster::Member::name);
    const cluster::Placement placement(std::make_shared<const cluster::ClusterView>(view));
    for (const auto& node : world_.nodes) CheckNode(*node, agreed, placement);
  }

  /// The node has exactly the versions that it owns, as they were agreed, with their pages.
  void CheckNode(SimNode& node, const std::map<std::string, AgreedName>& agreed,
                 const cluster::Placement& placement) {
    std::map<std::pair<std::string, uint64_t>, Document> held;
    for (const Document& document : node.Documents()) {
      held[{document.name.name, document.name.version}] = document;
    }
    for (const auto& [name, versions] : agreed) {
      const auto owners =
          placement.OwnersOf(cluster::KeyOfDocument(kSimTenant, DocumentName().collection, name),
                             world_.scenario.replicas);
      const bool owns = std::ranges::any_of(owners.members, [&](uint32_t member) {
        return placement.view().members[member].name == node.name();
      });
      for (const Document& document : versions.versions) {
        const auto found = held.find({name, document.name.version});
        if (owns != (found != held.end())) {
          world_.history.Break(node.name() + (owns ? " lacks " : " still has ") + name + "@" +
                               std::to_string(document.name.version));
        }
        if (found == held.end()) continue;
        CheckCopy(node, document, found->second);
        held.erase(found);
      }
    }
    for (const auto& [version, document] : held) {
      world_.history.Break(node.name() + " has " + version.first + "@" +
                           std::to_string(version.second) + ", which is not agreed");
    }
  }

  void CheckCopy(SimNode& node, const Document& agreed, const Document& held) {
    const std::string what =
        node.name() + ": " + agreed.name.name + "@" + std::to_string(agreed.name.version);
    const bool same = agreed.chain_tip == held.chain_tip && agreed.tags == held.tags &&
                      agreed.created_unix_micros == held.created_unix_micros &&
                      agreed.is_latest == held.is_latest;
    if (!same) world_.history.Break(what + " is not as agreed");
    const auto content = world_.contents.find(held.chain_tip);
    const Status pages = content == world_.contents.end() ? DataLoss("nobody put its chain")
                                                          : node.CheckPages(held, content->second);
    if (!pages.ok()) world_.history.Break(what + ": " + pages.ToString());
  }

  /// Ends all processes, and runs their tasks to their ends.
  void EndAll() {
    for (const auto& node : world_.nodes) node->Crash();
    world_.scheduler.RunUntil(TimePoint::max());
  }

  SimWorld world_;
};

}  // namespace

SimReport RunSimulation(const SimScenario& scenario, uint64_t seed) {
  return SimRun(scenario, seed).Run();
}

}  // namespace quire::sim
