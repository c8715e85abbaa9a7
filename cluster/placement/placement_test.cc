// SPDX-License-Identifier: Apache-2.0
#include "cluster/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace quire::cluster {
namespace {

constexpr int kRuns = 20'000;

ClusterView ViewOfNodes(int nodes, int zones = 0) {
  ClusterView view{.name = "test"};
  for (int i = 0; i < nodes; ++i) {
    const std::string number = std::to_string(100 + i);
    view.members.push_back({.name = "node-" + number,
                            .node_id = "id-" + number,
                            .zone = zones > 0 ? "zone-" + std::to_string(i % zones) : ""});
  }
  return view;
}

Placement Place(ClusterView view) {
  return Placement(std::make_shared<const ClusterView>(std::move(view)));
}

std::vector<PlacementKey> Keys() {
  std::vector<PlacementKey> keys;
  for (int i = 0; i < kRuns; ++i) {
    keys.push_back(KeyOfDocument("default", "books", "document " + std::to_string(i)));
  }
  return keys;
}

/// Name of the owner of each run.
std::vector<std::string> OwnersByName(const Placement& placement) {
  std::vector<std::string> names;
  for (const PlacementKey key : Keys()) {
    names.push_back(placement.view().members[placement.OwnersOf(key, 1).members.at(0)].name);
  }
  return names;
}

std::map<std::string, int> Counts(const std::vector<std::string>& names) {
  std::map<std::string, int> counts;
  for (const std::string& name : names) ++counts[name];
  return counts;
}

TEST(PlacementTest, EveryMachineComputesTheSame) {
  // The numbers are part of the contract between builds.
  EXPECT_EQ(KeyOfDocument("default", "books", "a").hash, 16892796188719762782u);
  EXPECT_EQ(HashOfNode("id-100"), 3598812308582826471u);
  EXPECT_NE(KeyOfDocument("t", "ab", "c").hash, KeyOfDocument("t", "a", "bc").hash);
  SegmentKey segment;
  segment.bytes[0] = 1;
  segment.bytes[7] = 2;
  EXPECT_EQ(KeyOfChain(segment).hash, 0x0200000000000001u);
  const Placement placement = Place(ViewOfNodes(5));
  std::string owners;
  for (int i = 0; i < 20; ++i) {
    owners += std::to_string(placement.OwnersOf(Keys()[i], 1).members[0]);
  }
  EXPECT_EQ(owners, "22204344332410440102");
}

TEST(PlacementTest, RunsAreSharedByWeight) {
  ClusterView view = ViewOfNodes(4);
  view.members[3].weight = 3;
  for (const auto& [name, count] : Counts(OwnersByName(Place(view)))) {
    const double expected = kRuns / 6.0 * (name == "node-103" ? 3 : 1);
    EXPECT_NEAR(count, expected, expected * 0.05) << name;
  }
}

TEST(PlacementTest, ANodeThatJoinsTakesItsShareAndNothingElseMoves) {
  const std::vector<std::string> before = OwnersByName(Place(ViewOfNodes(9)));
  const std::vector<std::string> after = OwnersByName(Place(ViewOfNodes(10)));
  int moved = 0;
  for (int i = 0; i < kRuns; ++i) {
    if (before[i] == after[i]) continue;
    ++moved;
    EXPECT_EQ(after[i], "node-109");
  }
  EXPECT_NEAR(moved, kRuns / 10.0, kRuns / 10.0 * 0.1);
}

TEST(PlacementTest, ANodeThatLeavesGivesItsRunsToAllOthers) {
  ClusterView view = ViewOfNodes(5);
  const std::vector<std::string> before = OwnersByName(Place(view));
  view.members[2].state = MemberState::kLost;
  const std::vector<std::string> after = OwnersByName(Place(view));
  std::set<std::string> heirs;
  for (int i = 0; i < kRuns; ++i) {
    if (before[i] == "node-102") {
      heirs.insert(after[i]);
    } else {
      EXPECT_EQ(before[i], after[i]);
    }
  }
  EXPECT_EQ(heirs.size(), 4u);
}

TEST(PlacementTest, AChangeOfWeightMovesRunsToOrFromThatNodeOnly) {
  ClusterView view = ViewOfNodes(4);
  const std::vector<std::string> before = OwnersByName(Place(view));
  for (Member& member : view.members) member.weight = 4;
  EXPECT_EQ(OwnersByName(Place(view)), before) << "only ratios count";
  view.members[0].weight = 6;
  const std::vector<std::string> after = OwnersByName(Place(view));
  for (int i = 0; i < kRuns; ++i) {
    if (before[i] != after[i]) EXPECT_EQ(after[i], "node-100");
  }
  EXPECT_GT(Counts(after)["node-100"], Counts(before)["node-100"]);
}

TEST(PlacementTest, ReplicasLieInDifferentZonesWhereThereAreEnough) {
  const Placement placement = Place(ViewOfNodes(9, 3));
  for (const PlacementKey key : Keys()) {
    const Owners owners = placement.OwnersOf(key, 3);
    ASSERT_EQ(owners.members.size(), 3u);
    EXPECT_EQ(owners.num_zones, 3u);
    EXPECT_EQ(Shortfall(owners, 3), "");
    EXPECT_EQ(owners.members[0], placement.ReadOrder(key)[0]);
  }
}

TEST(PlacementTest, TooFewZonesOrNodesAreExplained) {
  const Owners two_zones = Place(ViewOfNodes(6, 2)).OwnersOf({42}, 3);
  EXPECT_EQ(two_zones.members.size(), 3u) << "a replica in a used zone is better than none";
  EXPECT_EQ(std::set<uint32_t>(two_zones.members.begin(), two_zones.members.end()).size(), 3u);
  EXPECT_THAT(Shortfall(two_zones, 3), ::testing::HasSubstr("lie in 2 zones"));

  ClusterView view = ViewOfNodes(3);
  view.members[0].state = MemberState::kDraining;
  view.members[1].state = MemberState::kLeft;
  const Owners one = Place(view).OwnersOf({42}, 2);
  EXPECT_THAT(one.members, ::testing::ElementsAre(2));
  EXPECT_THAT(Shortfall(one, 2), ::testing::HasSubstr("only 1 nodes are up"));
  EXPECT_TRUE(Place({}).OwnersOf({42}, 1).members.empty());
}

TEST(PlacementTest, ReadersAskTheFormerOwnerSecondAndADrainingNodeToo) {
  ClusterView small = ViewOfNodes(4);
  const Placement before = Place(small), after = Place(ViewOfNodes(5));
  small.members[1].state = MemberState::kDraining;
  const Placement draining = Place(small);
  small.members[1].state = MemberState::kLost;
  const Placement lost = Place(small);
  for (const PlacementKey key : Keys()) {
    const uint32_t owner = before.OwnersOf(key, 1).members[0];
    const std::vector<uint32_t> order = after.ReadOrder(key);
    EXPECT_TRUE(order[0] == owner || order[1] == owner);
    EXPECT_EQ(draining.ReadOrder(key)[0], owner);
    EXPECT_EQ(lost.MayHold(key)[0], owner);
    EXPECT_EQ(lost.ReadOrder(key).size(), 3u);
  }
}

TEST(PlacementTest, RandomViewsKeepTheRules) {
  SeededRandom random(7);
  for (int round = 0; round < 300; ++round) {
    ClusterView view = ViewOfNodes(1 + static_cast<int>(random.Below(12)));
    size_t up = 0;
    for (Member& member : view.members) {
      member.weight = 1 + static_cast<uint32_t>(random.Below(kMaxMemberWeight));
      member.zone = "z" + std::to_string(random.Below(4));
      member.state = static_cast<MemberState>(random.Below(4));
      up += member.TakesNewRuns() ? 1 : 0;
    }
    const PlacementKey key{random.Next()};
    const auto replicas = static_cast<uint32_t>(1 + random.Below(4));
    const Placement placement = Place(view);
    const Owners owners = placement.OwnersOf(key, replicas);
    EXPECT_EQ(owners.members.size(), std::min<size_t>(replicas, up));
    std::set<std::string> zones;
    for (const uint32_t member : owners.members) {
      EXPECT_TRUE(view.members[member].TakesNewRuns());
      zones.insert(view.members[member].zone);
    }
    EXPECT_EQ(zones.size(), owners.num_zones);
    std::ranges::shuffle(view.members, std::mt19937(static_cast<uint32_t>(random.Next())));
    const Owners shuffled = Place(view).OwnersOf(key, replicas);
    for (size_t i = 0; i < owners.members.size(); ++i) {
      EXPECT_EQ(view.members[shuffled.members[i]].name,
                placement.view().members[owners.members[i]].name);
    }
  }
}

}  // namespace
}  // namespace quire::cluster
