// SPDX-License-Identifier: Apache-2.0
//
// Faults of a simulated cluster: each begins, lasts, and ends.
#include <algorithm>
#include <utility>

#include "cluster/etcd/etcd_requests.h"
#include "cluster/membership/cluster_admin.h"
#include "tests/sim/sim_membership.h"
#include "tests/sim/sim_world.h"

namespace quire::sim {
namespace {

constexpr int kSlower = 100;
constexpr Duration kSimLongCrash = 5 * kSimLease;

/// Names of all processes; clients are left out, as they call and are not called.
std::vector<std::string> Processes(const SimWorld& world) {
  std::vector<std::string> names = {kSimEtcd};
  for (const auto& node : world.nodes) names.push_back(node->name());
  return names;
}

/// Cuts all links between some processes, by chance, and the others.
void Partition(SimWorld& world) {
  std::vector<std::string> sides[2];
  for (const std::string& name : Processes(world)) {
    sides[world.scheduler.random().Below(2)].push_back(name);
  }
  for (const std::string& one : sides[0]) {
    for (const std::string& other : sides[1]) {
      world.network.Cut(one, other);
      world.network.Cut(other, one);
    }
  }
}

void CutOneWay(SimWorld& world) {
  const std::vector<std::string> names = Processes(world);
  const uint64_t from = world.scheduler.random().Below(names.size());
  const uint64_t to = world.scheduler.random().Below(names.size());
  if (from != to) world.network.Cut(names[from], names[to]);
}

void CrashFor(SimWorld& world, Duration time) {
  SimNode& node = world.AnyNode();
  node.Crash();
  world.scheduler.Sleep(time);
  node.Start();
}

void SlowDiskFor(SimWorld& world, Duration time) {
  SimDisk& disk = world.AnyNode().disk();
  disk.write_time *= kSlower;
  world.scheduler.Sleep(time);
  disk.write_time /= kSlower;
}

void JumpClockFor(SimWorld& world, Duration time) {
  SimNode& node = world.AnyNode();
  const Duration jump = world.About(1800) - std::chrono::minutes(30);
  node.JumpClock(jump);
  world.scheduler.Sleep(time);
  node.JumpClock(-jump);
}

/// Drains a node until an operator undrains it, who does not give up.
void DrainFor(SimWorld& world, Duration time) {
  const std::string node = world.AnyNode().name();
  SimEtcdClient client(&world.etcd, "operator", std::make_shared<SimLife>());
  cluster::ClusterAdmin admin(&client, kSimCluster);
  if (!admin.SetDraining(node, true).ok()) return;
  world.scheduler.Sleep(time);
  while (IsUnavailable(admin.SetDraining(node, false))) world.scheduler.Sleep(kSimLease);
}

void Happen(SimWorld& world, SimFaultKind kind, Duration time) {
  switch (kind) {
    case SimFaultKind::kCrash:
      return CrashFor(world, time);
    case SimFaultKind::kLongCrash:
      return CrashFor(world, time + kSimLongCrash);
    case SimFaultKind::kPartition:
      Partition(world);
      world.scheduler.Sleep(time);
      return world.network.Heal();
    case SimFaultKind::kOneWay:
      CutOneWay(world);
      world.scheduler.Sleep(time);
      return world.network.Heal();
    case SimFaultKind::kClockJump:
      return JumpClockFor(world, time);
    case SimFaultKind::kSlowDisk:
      return SlowDiskFor(world, time);
    case SimFaultKind::kEtcdAway:
      world.etcd.Leave();
      world.scheduler.Sleep(time);
      return world.etcd.Return();
    case SimFaultKind::kCompact:
      return world.etcd.model.Compact();
    case SimFaultKind::kDrain:
      return DrainFor(world, time);
    case SimFaultKind::kJoin:
      (void)world.AddNode();
      return;
  }
}

}  // namespace

void RunSimFault(SimWorld* world, const SimFault& fault) {
  for (;;) {
    world->scheduler.Sleep(world->About(fault.every_s));
    if (!world->GoesOn()) return;
    ++world->num_faults;
    Happen(*world, fault.kind, world->About(fault.for_s));
  }
}

}  // namespace quire::sim
