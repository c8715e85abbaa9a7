// SPDX-License-Identifier: Apache-2.0
//
// A cluster of real processes: etcd, three servers, and the programs that people use. Documents are
// put where they belong, nodes die and come back, and etcd goes away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/cluster/cluster_fixture.h"

namespace quire {
namespace {

using cluster::MemberState;
using nlohmann::json;
using testing::ChildProcess;
using testing::ChildResult;
using ::testing::HasSubstr;

class ClusterProcessTest : public testing::ClusterFixture {};

TEST_F(ClusterProcessTest, DocumentsOfOtherNodesAnswerWhileOneIsDown) {
  StartAll();
  std::map<std::string, std::vector<std::string>> documents;  // By address.
  // Ids of nodes are random, so any number of documents may miss a node.
  for (int i = 0; i < 12 || (documents.size() < 3 && i < 1000); ++i) {
    const std::string name = "document-" + std::to_string(i);
    const auto place = router_->FindPlace({.name = name});
    ASSERT_TRUE(place.ok()) << place.status();
    const Status refused = Put(AddressNotOf(*place), name);
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.ToString(), HasSubstr(*place)) << "the owner is named";
    ASSERT_TRUE(Put(*place, name).ok());
    documents[*place].push_back(name);
  }
  ASSERT_EQ(documents.size(), 3u) << "every node has some";

  const std::string dead = nodes_["b"].address;
  Kill("b");
  for (const auto& [address, names] : documents) {
    for (const std::string& name : names) {
      const auto holder = router_->FindHolder({.name = name});
      if (address == dead) {
        EXPECT_FALSE(holder.ok()) << name;
        continue;
      }
      ASSERT_TRUE(holder.ok()) << name << holder.status();
      EXPECT_EQ(*holder, address) << name;
      EXPECT_TRUE(ClientOf(address)->Stat(DocumentName{.name = name}).ok());
    }
  }
  ASSERT_TRUE(WaitForState("b", MemberState::kLost));
  EXPECT_THAT(ClusterJson({"status"})["problems"].dump(), HasSubstr("node b is lost"));
  EXPECT_EQ(router_->FindHolder({.name = documents[dead][0]}).status().code(),
            StatusCode::kUnavailable);
  const auto next_owner = router_->FindPlace({.name = documents[dead][0]});
  ASSERT_TRUE(next_owner.ok()) << next_owner.status();
  EXPECT_NE(*next_owner, dead);

  Start("b");
  for (const std::string& name : documents[dead]) {
    const auto holder = router_->FindHolder({.name = name});
    ASSERT_TRUE(holder.ok()) << name << holder.status();
    EXPECT_EQ(*holder, nodes_["b"].address) << name;
  }
}

TEST_F(ClusterProcessTest, PeoplePutAskDrainAndRemove) {
  StartAll();
  std::string servers;
  for (const auto& [name, node] : nodes_) servers += (servers.empty() ? "" : ",") + node.address;
  std::ofstream(dir_ / "note.txt") << "The code of the door is 4711.";
  const ChildResult put = Quire({"--server", servers, "put", dir_ / "note.txt"});
  EXPECT_EQ(put.exit_code, 0) << put.err;
  EXPECT_EQ(Quire({"--server", servers, "stat", "note.txt"}).exit_code, 0);
  EXPECT_EQ(Quire({"--server", servers, "stat", "other.txt"}).exit_code, 1);
  const ChildResult ask = Quire(
      {"--server", servers, "ask", "--document", "note.txt", "--question", "What is the code?"});
  EXPECT_EQ(ask.exit_code, 0) << ask.err;

  const std::string owner = ClusterJson({"where", "note.txt"})["owners"][0];
  EXPECT_EQ(ClusterJson({"drain", owner})["state"], "draining");
  EXPECT_NE(ClusterJson({"where", "note.txt"})["owners"][0], owner);
  EXPECT_EQ(Quire({"--server", servers, "stat", "note.txt"}).exit_code, 0) << "it is still there";
  EXPECT_THAT(Quire({"cluster", "remove", owner, "--etcd", etcd_.address()}).err,
              HasSubstr("stop it before"));
  EXPECT_EQ(End(owner, SIGTERM), 0);
  ASSERT_TRUE(WaitForState(owner, MemberState::kLeft));
  EXPECT_EQ(ClusterJson({"remove", owner})["state"], "removed");
  EXPECT_EQ(ClusterJson({"status"})["nodes"], 2);
  EXPECT_EQ(ClusterJson({"settings", "--replicas", "1"})["replicas"], 1);
  EXPECT_THAT(Quire({"cluster", "settings", "--replicas", "9", "--etcd", etcd_.address()}).err,
              HasSubstr("must be 1..8"));
}

TEST_F(ClusterProcessTest, VersionsAreNumberedOverAllNodes) {
  StartAll();
  const std::string former = ClusterJson({"where", "note"})["owners"][0];
  ASSERT_TRUE(Put(nodes_[former].address, "note").ok());
  EXPECT_EQ(ClusterJson({"drain", former})["state"], "draining");
  ASSERT_TRUE(WaitForState(former, MemberState::kDraining));
  const std::string owner = ClusterJson({"where", "note"})["owners"][0];
  ASSERT_NE(owner, former);
  ASSERT_TRUE(Put(nodes_[owner].address, "note").ok());
  const auto next = ClientOf(nodes_[owner].address)->GetDocument({.name = "note"});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->name.version, 2u);
  // The former node hands its version over.
  StatusOr<Document> first = NotFound("not asked for");
  ASSERT_TRUE(WaitUntil([&] {
    first = ClientOf(nodes_[owner].address)->GetDocument({.name = "note", .version = 1});
    return first.ok();
  })) << first.status();
  EXPECT_EQ(first->chain_tip, next->chain_tip) << "both make keys with the same salt";
}

TEST_F(ClusterProcessTest, ANodeThatWaitsForItsTurnSaysSoAndStopsAtOnce) {
  lease_seconds_ = "60";
  Start("a");
  Kill("a");
  Launch("a");  // At another address, so that it waits for the former lease.
  ASSERT_TRUE(WaitUntil([&] {
    std::ifstream(dir_ / "a.admin") >> nodes_["a"].admin_port;
    return Ready("a").find("not_a_member") != std::string::npos;
  }));
  EXPECT_EQ(End("a", SIGTERM), 0) << nodes_["a"].process->Stderr();
  std::string line;
  EXPECT_FALSE(nodes_["a"].process->ReadLine(&line)) << "it joined before it stopped: " << line;
}

TEST_F(ClusterProcessTest, WithoutEtcdReadsGoOnAndNewDocumentsWait) {
  StartAll();
  const std::string place = router_->FindPlace({.name = "kept"}).value();
  ASSERT_TRUE(Put(place, "kept").ok());
  EXPECT_THAT(Ready("a"), ::testing::Not(HasSubstr("cluster_frozen")));

  etcd_.Kill();
  ASSERT_TRUE(WaitUntil([&] { return Ready("a").find("cluster_frozen") != std::string::npos; }));
  EXPECT_EQ(router_->FindHolder({.name = "kept"}).value(), place);
  EXPECT_TRUE(ClientOf(place)->Stat(DocumentName{.name = "kept"}).ok());
  EXPECT_FALSE(PutNew().ok()) << "its name cannot be agreed on";
  Status refused;
  EXPECT_TRUE(WaitUntil([&] {
    refused = PutNew();
    return refused.ToString().find("takes no new documents") != std::string::npos;
  })) << refused;
  const ChildResult status =
      Quire({"cluster", "status", "--etcd", etcd_.address(), "--cluster", "demo"});
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_THAT(status.err, HasSubstr("etcd at " + etcd_.address()));

  etcd_.Start();
  EXPECT_TRUE(WaitUntil([&] { return PutNew().ok(); }));
  EXPECT_TRUE(WaitUntil([&] { return Ready("a").find("cluster_frozen") == std::string::npos; }));
}

}  // namespace
}  // namespace quire
