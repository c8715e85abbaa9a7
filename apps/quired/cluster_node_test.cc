// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/cluster_node.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
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

/// A port that hears calls and answers none.
class ListeningSocket {
 public:
  ListeningSocket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(fd_, generic, size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, generic, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~ListeningSocket() { close(fd_); }
  const std::string& address() const { return address_; }
  bool WasCalled() const {
    pollfd asked{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&asked, 1, 0) == 1;
  }

 private:
  const int fd_;
  std::string address_;
};

class ClusterNodeTest : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<ClusterNode>> StartNode(const ClusterOptions& options) {
    return ClusterNode::Start(options, {.tenant = "default"}, &health_);
  }
  std::string Refusal(const ClusterOptions& options) {
    return StartNode(options).status().ToString();
  }
  std::string MembersFile(const std::string& settings = "") {
    std::ofstream(dir_ / "members") << R"({"name": "demo", )" << settings << R"("members": [
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
  EXPECT_THAT(Refusal({.cluster = "demo",
                       .members = MembersFile(R"("settings": {"replicas": 2}, )"),
                       .node = "a"}),
              HasSubstr("keep one copy of each document"));
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
  EXPECT_TRUE(health_.IsRaised(Trouble::kNotAMember));
  EXPECT_THAT((*node)->Join({.data_dir = dir_.path(), .listen = "0.0.0.0:7410"}).ToString(),
              HasSubstr("give --advertise"));
  const Status joined = (*node)->Join(
      {.data_dir = dir_.path(), .listen = "127.0.0.1:7410", .ssd_bytes = uint64_t{5} << 30});
  ASSERT_TRUE(joined.ok()) << joined;
  EXPECT_TRUE((*node)->place().standing().ok());
  EXPECT_FALSE(health_.IsRaised(Trouble::kNotAMember));
  const auto is_up = [](const cluster::ClusterView& view) { return view.Find("a") != nullptr; };
  const auto view = (*node)->membership().WaitFor(is_up, std::chrono::seconds(20));
  ASSERT_TRUE(is_up(*view));
  EXPECT_EQ(view->Find("a")->weight, 5u) << "GiB of disk";
  quire::testing::ExpectSectionLists("Cluster", **node, 6);
  (*node)->Leave();
  EXPECT_EQ((*node)->place().standing().code(), StatusCode::kUnavailable);
}

TEST_F(ClusterNodeTest, ADiskOfAnotherClusterIsRefusedBeforeItsStoreIsOpened) {
  const cluster::testing::EtcdProcess etcd;
  const auto start = [&](const std::string& cluster) {
    return StartNode({.cluster = cluster, .etcd = {etcd.address()}, .node = "a"}).value();
  };
  const auto node = start("demo");
  EXPECT_TRUE(node->CheckMayJoin(dir_.path()).ok()) << "an empty disk";
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path())) << "and nothing is written";
  ASSERT_TRUE(node->Join({.data_dir = dir_.path(), .listen = "127.0.0.1:7410"}).ok());
  EXPECT_TRUE(node->CheckMayJoin(dir_.path()).ok());
  EXPECT_THAT(start("typo")->CheckMayJoin(dir_.path()).ToString(),
              HasSubstr("belongs to cluster demo, not to typo"));
  const auto away = StartNode({.cluster = "demo", .etcd = {"127.0.0.1:1"}, .node = "a"}).value();
  EXPECT_TRUE(away->CheckMayJoin(dir_.path()).ok()) << "Join checks again";
}

TEST_F(ClusterNodeTest, OtherNodesAreAskedForTheTimeOnlyByATenantThatNeedsNoToken) {
  const cluster::testing::EtcdProcess etcd;
  const ListeningSocket peer;
  const auto start = [&](const std::string& name, const std::string& tenant) {
    std::filesystem::create_directories(dir_ / name);
    auto node = ClusterNode::Start({.cluster = "demo", .etcd = {etcd.address()}, .node = name},
                                   {.tenant = tenant}, &health_)
                    .value();
    const std::string listen = name == "peer" ? peer.address() : "127.0.0.1:7410";
    EXPECT_EQ(node->Join({.data_dir = dir_ / name, .listen = listen}), OkStatus());
    return node;
  };
  const auto first = start("peer", "");
  const auto without = start("a", "");
  EXPECT_FALSE(peer.WasCalled());
  const auto with = start("b", "default");
  EXPECT_TRUE(peer.WasCalled());
}

}  // namespace
}  // namespace quire::kvserver
