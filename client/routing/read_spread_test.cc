// SPDX-License-Identifier: Apache-2.0
#include "client/routing/read_spread.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/routing/testing/fake_cluster.h"
#include "cluster/placement/placement_key.h"
#include "quire/cluster_connection.h"

namespace quire {
namespace {

using namespace std::chrono_literals;

constexpr char kSpreadFetch[] = "quire.v1.Store/Fetch";

class ReadSpreadTest : public ::testing::Test {
 protected:
  ReadSpreadTest() { cluster_.documents[order_[0]] = {"x"}; }

  /// The document gets these extra owners, and they have their copies.
  void Heat(uint32_t extra) {
    cluster_.view.settings.hot_replicas = 2;
    cluster_.view.hot_documents = {
        {.tenant = "default",
         .collection = "default",
         .document = "x",
         .extra_replicas = extra,
         .placement_hash = cluster::KeyOfDocument("default", "default", "x").hash}};
    ++cluster_.view.epoch;
    for (uint32_t i = 0; i <= extra; ++i) cluster_.documents[order_[i]] = {"x"};
    cluster_.clock.Advance(1min);  // Views and owners are asked for anew.
  }
  std::unique_ptr<ClusterConnection> Open() {
    return ClusterConnection::Open(
               {.router = router_, .documents = {{.name = "x"}}, .clock = &cluster_.clock})
        .value();
  }
  std::map<std::string, int> Fetch(ClusterConnection& connection, int times) {
    std::map<std::string, int> answers;
    for (int i = 0; i < times; ++i) {
      CallMessage reply;
      const Status status = connection.control()->Call(kSpreadFetch, {}, &reply, {});
      EXPECT_TRUE(status.ok()) << status;
      ++answers[reply.control];
    }
    return answers;
  }

  quire::testing::FakeCluster cluster_;
  const std::vector<std::string> order_ = cluster_.Order("x");
  const std::shared_ptr<DocumentRouter> router_ = cluster_.MakeRouter();
};

TEST_F(ReadSpreadTest, ReadsOfAHotDocumentGoToAllOfItsOwners) {
  const auto connection = Open();
  EXPECT_EQ(Fetch(*connection, 100), (std::map<std::string, int>{{order_[0], 100}}));
  Heat(1);
  auto answers = Fetch(*connection, 300);
  EXPECT_EQ(answers.size(), 2u);
  EXPECT_GT(answers[order_[0]], 90);
  EXPECT_GT(answers[order_[1]], 90);
  Heat(2);
  answers = Fetch(*connection, 300);
  for (const std::string& address : order_) EXPECT_GT(answers[address], 60) << address;
  EXPECT_GT(connection->counters().spread, 200u);
  cluster_.view.hot_documents = {};
  cluster_.clock.Advance(1min);
  EXPECT_EQ(Fetch(*connection, 100).size(), 1u) << "it has cooled";
}

TEST_F(ReadSpreadTest, CallsWithStateStayAtTheirNode) {
  const auto connection = Open();
  Heat(2);
  for (int i = 0; i < 50; ++i) {
    CallMessage reply;
    ASSERT_TRUE(connection->control()->Call("quire.v1.Session/Open", {}, &reply, {}).ok());
    EXPECT_EQ(reply.control, order_[0]);
  }
}

TEST_F(ReadSpreadTest, NewConnectionsGoToOwnersByChance) {
  Heat(2);
  std::map<std::string, int> nodes;
  for (int i = 0; i < 90; ++i) ++nodes[router_->FindHolder({.name = "x"}).value()];
  for (const std::string& address : order_) EXPECT_GT(nodes[address], 9) << address;
}

TEST_F(ReadSpreadTest, AnOwnerThatFailsCostsNoReadAndIsLeftOutForAWhile) {
  const auto connection = Open();
  Heat(2);
  cluster_.silent = {order_[1]};
  auto answers = Fetch(*connection, 200);
  EXPECT_EQ(answers.count(order_[1]), 0u);
  EXPECT_GT(answers[order_[2]], 60);
  cluster_.silent = {};
  cluster_.clock.Advance(3s);
  answers = Fetch(*connection, 200);
  EXPECT_GT(answers[order_[1]], 30);
}

TEST_F(ReadSpreadTest, ASlowOwnerGetsLess) {
  Heat(1);
  SeededRandom random(7);
  internal::ReadSpread spread(router_, {{.name = "x"}}, &cluster_.clock, &random);
  std::map<std::string, int> reads;
  for (int i = 0; i < 100; ++i) {
    const auto node = spread.Begin();
    ASSERT_TRUE(node);
    ++reads[node->address];
    // Reads of the second owner do not end.
    if (node->address == order_[0]) spread.End(order_[0], OkStatus());
  }
  EXPECT_LE(reads[order_[1]], 1);
  EXPECT_GE(reads[order_[0]], 99);
}

}  // namespace
}  // namespace quire
