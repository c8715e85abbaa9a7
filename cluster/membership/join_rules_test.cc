// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/join_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "cluster/membership/etcd_membership.h"

namespace quire::cluster {
namespace {

using ::testing::HasSubstr;

/// Node "a" that was in the cluster before and comes back with its disk.
Joiner KnownNode() {
  Joiner joiner{
      .cluster_name = "demo",
      .self = {.name = "a", .node_id = "disk-a", .address = "10.0.0.1:7410", .incarnation = 7}};
  joiner.identity.set_cluster_name("demo");
  joiner.identity.set_cluster_id("cluster-1");
  joiner.identity.set_node_id("disk-a");
  joiner.identity.set_node_name("a");
  return joiner;
}

/// The same node with an empty disk.
Joiner NewNode() {
  Joiner joiner = KnownNode();
  joiner.self.node_id = "disk-new";
  joiner.identity.set_node_id("disk-new");
  joiner.identity.clear_cluster_id();
  return joiner;
}

void AddNode(ClusterRecords* records, const std::string& name, const std::string& address,
             bool live) {
  v1::ClusterMember member;
  member.set_name(name);
  member.set_node_id("disk-" + name);
  member.set_address(address);
  auto& node = records->nodes[name];
  node.record.set_node_id(member.node_id());
  *node.record.mutable_last() = member;
  if (live) records->live[name].record = member;
}

ClusterRecords Founded() {
  ClusterRecords records;
  records.cluster.emplace().record.set_cluster_id("cluster-1");
  records.cluster->record.set_min_protocol(1);
  return records;
}

std::string Refusal(const Joiner& joiner, const ClusterRecords& records) {
  const auto step = CheckJoin(joiner, records);
  EXPECT_FALSE(step.ok());
  return step.status().ToString();
}

TEST(JoinRulesTest, NewAndKnownNodesEnter) {
  EXPECT_EQ(CheckJoin(NewNode(), {}).value(), JoinStep::kEnter);
  EXPECT_EQ(CheckJoin(NewNode(), Founded()).value(), JoinStep::kEnter);
  ClusterRecords records = Founded();
  AddNode(&records, "a", "10.0.0.1:7410", /*live=*/false);
  EXPECT_EQ(CheckJoin(KnownNode(), records).value(), JoinStep::kEnter);
}

TEST(JoinRulesTest, ACrashDuringTheFirstJoinLeavesADiskThatGoesOn) {
  Joiner joiner = KnownNode();
  joiner.identity.clear_cluster_id();
  ClusterRecords records = Founded();
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter);
  AddNode(&records, "a", "10.0.0.1:7410", /*live=*/false);
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter);
}

TEST(JoinRulesTest, TwoNodesWithOneName) {
  ClusterRecords records = Founded();
  AddNode(&records, "a", "10.0.0.9:7410", /*live=*/true);
  const auto step = CheckJoin(NewNode(), records);
  EXPECT_EQ(step.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(step.status().ToString(), HasSubstr("is up at 10.0.0.9:7410"));
}

TEST(JoinRulesTest, TwoProcessesWithOneDisk) {
  ClusterRecords records = Founded();
  AddNode(&records, "a", "10.0.0.9:7410", /*live=*/true);
  Joiner joiner = KnownNode();
  joiner.listens_on_address = true;
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kWait);
  AddNode(&records, "a", "10.0.0.1:7410", /*live=*/true);
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter);
  joiner.listens_on_address = false;
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kWait) << "both may advertise it";
  records.live["a"].record.set_incarnation(joiner.self.incarnation);
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter) << "its own record";
}

TEST(JoinRulesTest, AnOldProtocol) {
  ClusterRecords records = Founded();
  records.cluster->record.set_min_protocol(kClusterProtocol + 1);
  EXPECT_THAT(Refusal(NewNode(), records), HasSubstr("upgrade the program"));
}

TEST(JoinRulesTest, NodesThatAreUpHaveAProtocolInCommonWithANewOne) {
  ClusterRecords records = Founded();
  AddNode(&records, "b", "10.0.0.2:7410", /*live=*/true);
  v1::ClusterMember& other = records.live["b"].record;
  Joiner joiner = NewNode();
  joiner.self.oldest_protocol = 3;
  joiner.self.protocol = 4;
  other.set_protocol(3);
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter) << "the release before";
  other.set_oldest_protocol(4);
  other.set_protocol(5);
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter) << "the next release";
  other.set_oldest_protocol(5);
  EXPECT_THAT(Refusal(joiner, records), HasSubstr("upgrade this program"));
  other.set_oldest_protocol(1);
  other.set_protocol(2);
  EXPECT_THAT(Refusal(joiner, records),
              HasSubstr("node b at 10.0.0.2:7410 speaks protocols 1 to 2: upgrade that node"));
  records.live.clear();
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter) << "it is not up";
}

TEST(JoinRulesTest, ANodeThatJoinedAfterARestoredBackupIsKnown) {
  ClusterRecords records = Founded();
  v1::ClusterRestore& restore = *records.cluster->record.add_restores();
  restore.set_backup_revision(100);
  restore.set_revision_base(1000);
  records.revision = 7;
  Joiner joiner = KnownNode();
  joiner.identity.set_joined_revision(101);
  EXPECT_EQ(CheckJoin(joiner, records).value(), JoinStep::kEnter);
  joiner.identity.set_joined_revision(100);
  EXPECT_THAT(Refusal(joiner, records), HasSubstr("was removed"));
  joiner.identity.set_joined_revision(1007);
  EXPECT_THAT(Refusal(joiner, records), HasSubstr("was removed"));
  EXPECT_EQ(ViewOf("demo", records).epoch, 1007u);
}

TEST(JoinRulesTest, AWrongCluster) {
  Joiner joiner = KnownNode();
  joiner.identity.set_cluster_id("cluster-2");
  EXPECT_THAT(Refusal(joiner, Founded()), HasSubstr("another cluster named demo (cluster-2)"));
  joiner.identity.set_cluster_name("other");
  EXPECT_THAT(Refusal(joiner, Founded()), HasSubstr("belongs to cluster other"));
}

TEST(JoinRulesTest, AnEtcdThatLostItsData) {
  EXPECT_THAT(Refusal(KnownNode(), {}), HasSubstr("etcd has lost its data"));
  const ClusterView known{.name = "demo", .id = "cluster-1", .epoch = 100};
  EXPECT_TRUE(CheckSuccession({.name = "demo"}, known).ok());
  EXPECT_TRUE(CheckSuccession(known, {.name = "demo", .id = "cluster-1", .epoch = 101}).ok());
  EXPECT_THAT(CheckSuccession(known, {.name = "demo", .epoch = 3}).ToString(),
              HasSubstr("lost the records"));
  EXPECT_THAT(CheckSuccession(known, {.id = "cluster-2", .epoch = 200}).ToString(),
              HasSubstr("cluster-2 instead of cluster-1"));
  EXPECT_THAT(CheckSuccession(known, {.id = "cluster-1", .epoch = 99}).ToString(),
              HasSubstr("set back from revision 100 to 99"));
}

TEST(JoinRulesTest, ANodeThatComesBackWithAnOldOrAnotherDisk) {
  EXPECT_THAT(Refusal(KnownNode(), Founded()), HasSubstr("was removed from the cluster"));

  ClusterRecords records = Founded();
  AddNode(&records, "a", "10.0.0.1:7410", /*live=*/false);
  EXPECT_THAT(Refusal(NewNode(), records), HasSubstr("belongs to another disk"));

  Joiner other = KnownNode();
  other.identity.set_node_name("b");
  EXPECT_THAT(Refusal(other, records), HasSubstr("start it as --node b"));
}

TEST(JoinRulesTest, AClockFarOff) {
  const Duration limit = std::chrono::seconds(5);
  EXPECT_TRUE(CheckClock({}, limit).ok());
  EXPECT_TRUE(CheckClock(std::vector<int64_t>{4'900'000, -100}, limit).ok());
  EXPECT_TRUE(CheckClock(std::vector<int64_t>{0, 1, 3'600'000'000}, limit).ok())
      << "another node's clock is off";
  EXPECT_THAT(CheckClock(std::vector<int64_t>{6'000'000, 6'000'001, 0}, limit).ToString(),
              HasSubstr("6000 ms ahead of"));
  EXPECT_THAT(CheckClock(std::vector<int64_t>{-60'000'000}, limit).ToString(),
              HasSubstr("60000 ms behind"));
}

}  // namespace
}  // namespace quire::cluster
