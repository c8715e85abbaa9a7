// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/cluster_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "cluster/etcd/testing/etcd_process.h"
#include "common/metrics/testing/metrics_page.h"
#include "quire/clock.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

class ClusterNodeTest : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<ClusterNode>> StartNode(const ClusterOptions& options) {
    return ClusterNode::Start(options, "default", &health_);
  }
  std::string Refusal(const ClusterOptions& options) {
    return StartNode(options).status().ToString();
  }
  std::string MembersFile() {
    std::ofstream(dir_ / "members") << R"({"name": "demo", "members": [
        {"name": "a", "address": "127.0.0.1:1"}, {"name": "b", "address": "127.0.0.1:2"}]})";
    return dir_ / "members";
  }

  quire::testing::TempDir dir_;
  Health health_{&SystemClock()};
};

TEST_F(ClusterNodeTest, OptionsThatDoNotFitAreRefused) {
  EXPECT_EQ(StartNode({}).value(), nullptr) << "in no cluster";
  EXPECT_THAT(Refusal({.zone = "z"}), HasSubstr("name it with --cluster"));
  EXPECT_THAT(Refusal({.cluster = "demo", .node = "a"}), HasSubstr("--etcd HOST:PORT,..."));
  EXPECT_THAT(Refusal({.cluster = "Demo", .etcd = {"127.0.0.1:1"}}), HasSubstr("--cluster 'Demo'"));
  EXPECT_THAT(Refusal({.cluster = "demo", .etcd = {"127.0.0.1"}, .node = "a"}),
              HasSubstr("--etcd: etcd at 127.0.0.1"));
  EXPECT_THAT(Refusal({.cluster = "demo", .members = MembersFile(), .node = "c"}),
              HasSubstr("does not list node c"));
  EXPECT_THAT(Refusal({.cluster = "other", .members = MembersFile(), .node = "a"}),
              HasSubstr("is of cluster demo"));
}

TEST_F(ClusterNodeTest, AFileOfMembersIsAClusterWithoutEtcd) {
  const auto node = StartNode({.cluster = "demo", .members = MembersFile(), .node = "a"});
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_TRUE((*node)->Join({.data_dir = dir_.path(), .listen = "127.0.0.1:1"}).ok());
  const ClusterPlace place = (*node)->place();
  EXPECT_EQ(place.membership->View()->members.size(), 2u);
  EXPECT_TRUE(place.standing().ok());
}

TEST_F(ClusterNodeTest, ANodeJoinsLeavesAndItsMetricsAreDocumented) {
  const cluster::testing::EtcdProcess etcd;
  const auto node = StartNode({.cluster = "demo", .etcd = {etcd.address()}, .node = "a"});
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ((*node)->place().standing().code(), StatusCode::kUnavailable);
  EXPECT_THAT((*node)->Join({.data_dir = dir_.path(), .listen = "0.0.0.0:7410"}).ToString(),
              HasSubstr("give --advertise"));
  const Status joined = (*node)->Join(
      {.data_dir = dir_.path(), .listen = "127.0.0.1:7410", .ssd_bytes = uint64_t{5} << 30});
  ASSERT_TRUE(joined.ok()) << joined;
  EXPECT_TRUE((*node)->place().standing().ok());
  const auto is_up = [](const cluster::ClusterView& view) { return view.Find("a") != nullptr; };
  const auto view = (*node)->membership().WaitFor(is_up, std::chrono::seconds(20));
  ASSERT_TRUE(is_up(*view));
  EXPECT_EQ(view->Find("a")->weight, 5u) << "GiB of disk";
  quire::testing::ExpectSectionLists("Cluster", **node, 6);
  (*node)->Leave();
  EXPECT_EQ((*node)->place().standing().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quire::kvserver
