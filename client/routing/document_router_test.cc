// SPDX-License-Identifier: Apache-2.0
#include "quire/document_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/placement/placement.h"
#include "cluster/view/view_proto.h"
#include "quire/v1/cluster.pb.h"
#include "quire/v1/registry.pb.h"
#include "tests/kit/fake_clock.h"
#include "transport/transport.h"

namespace quire {
namespace {

using cluster::ClusterView;
using cluster::MemberState;
using ::testing::HasSubstr;

/// The nodes of a cluster, as far as a router asks them.
struct FakeCluster {
  ClusterView view;
  std::map<std::string, std::set<std::string>> documents;  ///< By address.
  std::set<std::string> silent;                            ///< Addresses that do not answer.
  std::map<std::string, int> views_read;                   ///< By address.
};

class FakeNode final : public Transport {
 public:
  FakeNode(FakeCluster* cluster, std::string address)
      : cluster_(*cluster), address_(std::move(address)) {}
  TransportCapabilities capabilities() const override { return {.name = "fake"}; }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view, CallMessage,
                                               const CallOptions&) override {
    return Unimplemented("a router makes whole calls");
  }
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions&) override {
    if (cluster_.silent.contains(address_)) return Unavailable("no answer");
    if (method == "quire.v1.Cluster/View") {
      ++cluster_.views_read[address_];
      v1::ClusterViewReply view;
      *view.mutable_view() = cluster::ToProto(cluster_.view);
      reply->control = view.SerializeAsString();
      return OkStatus();
    }
    v1::GetDocumentRequest get;
    EXPECT_TRUE(get.ParseFromString(request.control));
    if (!cluster_.documents[address_].contains(get.name().name())) return NotFound("not here");
    reply->control = v1::GetDocumentReply().SerializeAsString();
    return OkStatus();
  }

 private:
  FakeCluster& cluster_;
  const std::string address_;
};

class DocumentRouterTest : public ::testing::Test {
 protected:
  DocumentRouterTest() {
    cluster_.view = {.name = "demo", .epoch = 1};
    for (const char* name : {"a", "b", "c"}) {
      cluster_.view.members.push_back(
          {.name = name, .node_id = name, .address = std::string(name) + ":1"});
    }
    router_ = DocumentRouter::Create({.servers = {"a:1", "b:1"},
                                      .connect =
                                          [this](const std::string& address) {
                                            return std::shared_ptr<Transport>(
                                                std::make_shared<FakeNode>(&cluster_, address));
                                          },
                                      .clock = &clock_})
                  .value();
  }
  /// Addresses, nearest first.
  std::vector<std::string> Order(const std::string& name) const {
    const cluster::Placement placement(std::make_shared<const ClusterView>(cluster_.view));
    std::vector<std::string> order;
    for (const uint32_t member :
         placement.ReadOrder(cluster::KeyOfDocument("default", "default", name))) {
      order.push_back(placement.view().members[member].address);
    }
    return order;
  }

  FakeCluster cluster_;
  quire::testing::FakeClock clock_;
  std::unique_ptr<DocumentRouter> router_;
};

TEST_F(DocumentRouterTest, ADocumentIsFoundWhereItLiesAndPutWhereItBelongs) {
  const std::vector<std::string> order = Order("x");
  EXPECT_EQ(router_->FindHolder({.name = "x"}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[0]);
  cluster_.documents[order[1]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[1]) << "before a node joined";
  EXPECT_EQ(router_->FindPlace({.name = "x", .version = 7}).value(), order[1]);
  EXPECT_EQ(cluster_.views_read, (std::map<std::string, int>{{"a:1", 1}})) << "one view serves all";
}

TEST_F(DocumentRouterTest, ASilentNodeHidesOnlyWhatItMayHave) {
  const std::vector<std::string> order = Order("x");
  cluster_.silent = {order[0]};
  cluster_.documents[order[2]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[2]);
  EXPECT_EQ(router_->FindHolder({.name = "gone"}).status().code(), StatusCode::kUnavailable);
  cluster_.documents.clear();
  EXPECT_THAT(router_->FindPlace({.name = "x"}).status().ToString(), HasSubstr("does not answer"));

  for (cluster::Member& member : cluster_.view.members) {
    if (member.address == order[0]) member.state = MemberState::kLost;
  }
  ++cluster_.view.epoch;
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]) << "the view was read anew";
}

TEST_F(DocumentRouterTest, TheViewIsReadAnewAfterAWhileFromAnyNodeButNeverAnOlderOne) {
  const std::string owner = router_->FindPlace({.name = "x"}).value();
  cluster_.view.epoch = 0;
  for (cluster::Member& member : cluster_.view.members) member.state = MemberState::kDraining;
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), owner) << "an older view changes nothing";
  cluster_.view.epoch = 2;
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_THAT(router_->FindPlace({.name = "x"}).status().ToString(), HasSubstr("undrain one"));

  cluster_.silent = {"a:1", "b:1"};
  clock_.Advance(std::chrono::minutes(1));
  EXPECT_EQ(router_->FindHolder({.name = "x"}).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.views_read["c:1"], 1) << "a node that only the view names";
  cluster_.silent = {"a:1", "b:1", "c:1"};
  EXPECT_THAT(router_->FindHolder({.name = "x"}).status().ToString(),
              HasSubstr("no server tells the members"));
  EXPECT_EQ(DocumentRouter::Create({}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
