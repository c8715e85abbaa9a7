// SPDX-License-Identifier: Apache-2.0
#include "quire/document_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
  std::map<std::string, ClusterView> other_views;          ///< By address, where they differ.
  std::map<std::string, std::string> frozen;               ///< By address: why a view may be old.
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
      const auto other = cluster_.other_views.find(address_);
      *view.mutable_view() =
          cluster::ToProto(other != cluster_.other_views.end() ? other->second : cluster_.view);
      view.set_frozen(cluster_.frozen[address_]);
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

  cluster::Member& MemberAt(const std::string& address) {
    return *std::ranges::find(cluster_.view.members, address, &cluster::Member::address);
  }
  /// Goes past the age up to which the router uses a view.
  void LetViewsAge() { clock_.Advance(std::chrono::minutes(1)); }
  StatusCode HolderCode(const std::string& name) {
    return router_->FindHolder({.name = name}).status().code();
  }
  StatusCode PlaceCode(const std::string& name) {
    return router_->FindPlace({.name = name}).status().code();
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
  cluster_.silent = {order[1]};
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[0]) << "the owner is nearer";
  EXPECT_EQ(HolderCode("x"), StatusCode::kUnavailable);
  cluster_.documents[order[2]] = {"x"};
  EXPECT_EQ(HolderCode("x"), StatusCode::kUnavailable) << "the silent one may have a newer version";
  EXPECT_EQ(PlaceCode("x"), StatusCode::kUnavailable);
  cluster_.documents[order[0]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[0]);
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[0]);
}

TEST_F(DocumentRouterTest, APutWaitsForADrainingNodeThatIsSilent) {
  const std::vector<std::string> order = Order("x");
  MemberAt(order[0]).state = MemberState::kDraining;
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]);
  cluster_.silent = {order[0]};
  EXPECT_EQ(PlaceCode("x"), StatusCode::kUnavailable) << "it may hold an acknowledged version";
}

TEST_F(DocumentRouterTest, ANodeThatIsAwayCountsAsSilentUntilItIsRemoved) {
  const std::vector<std::string> order = Order("x");
  for (const MemberState away : {MemberState::kLost, MemberState::kLeft}) {
    MemberAt(order[0]).state = away;
    LetViewsAge();
    EXPECT_EQ(HolderCode("x"), StatusCode::kUnavailable);
    EXPECT_THAT(router_->FindPlace({.name = "x"}).status().ToString(),
                HasSubstr(std::string("is ") + std::string(Name(away))));
  }
  std::erase_if(cluster_.view.members,
                [&](const cluster::Member& member) { return member.address == order[0]; });
  LetViewsAge();
  EXPECT_EQ(HolderCode("x"), StatusCode::kNotFound);
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]);
}

TEST_F(DocumentRouterTest, AFrozenViewGivesWayToACurrentOneAndProvesNoAbsence) {
  const std::vector<std::string> order = Order("x");
  cluster_.view.id = "c1";
  cluster_.other_views["a:1"] = cluster_.view;
  cluster_.frozen["a:1"] = "etcd is away";
  MemberAt(order[0]).state = MemberState::kDraining;
  cluster_.view.epoch = 2;
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]) << "by the view of b";
  EXPECT_EQ(HolderCode("x"), StatusCode::kNotFound);

  for (const std::string& address : order) cluster_.frozen[address] = "etcd is away";
  LetViewsAge();
  EXPECT_THAT(router_->FindHolder({.name = "x"}).status().ToString(), HasSubstr("etcd is away"));
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]) << "the server has the last word";
}

TEST_F(DocumentRouterTest, AnotherClusterIsRefusedAndARestoredOneIsFollowed) {
  cluster_.view.id = "c1";
  cluster_.view.epoch = 100;
  EXPECT_EQ(HolderCode("x"), StatusCode::kNotFound);
  const std::vector<std::string> order = Order("x");
  cluster_.view.epoch = 7;
  MemberAt(order[0]).state = MemberState::kDraining;
  LetViewsAge();
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]) << "no server knows a newer view";

  cluster_.view.id = "c2";
  cluster_.view.epoch = 200;
  LetViewsAge();
  EXPECT_EQ(HolderCode("x"), StatusCode::kFailedPrecondition);
  EXPECT_THAT(router_->FindPlace({.name = "x"}).status().ToString(),
              HasSubstr("(c2 instead of c1): make a new DocumentRouter"));
}

TEST_F(DocumentRouterTest, TheViewIsReadAnewAfterAWhileFromAnyNodeButNeverAnOlderOne) {
  const std::string owner = router_->FindPlace({.name = "x"}).value();
  ClusterView& older = cluster_.other_views["a:1"] = cluster_.view;
  older.epoch = 0;
  for (cluster::Member& member : older.members) member.state = MemberState::kDraining;
  LetViewsAge();
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), owner) << "an older view changes nothing";
  cluster_.other_views.clear();
  for (cluster::Member& member : cluster_.view.members) member.state = MemberState::kDraining;
  cluster_.view.epoch = 2;
  LetViewsAge();
  EXPECT_THAT(router_->FindPlace({.name = "x"}).status().ToString(), HasSubstr("undrain one"));

  cluster_.silent = {"a:1", "b:1"};
  LetViewsAge();
  EXPECT_EQ(router_->FindHolder({.name = "x"}).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(cluster_.views_read["c:1"], 1) << "a node that only the view names";
  cluster_.silent = {"a:1", "b:1", "c:1"};
  EXPECT_THAT(router_->FindHolder({.name = "x"}).status().ToString(),
              HasSubstr("no server tells the members"));
  EXPECT_EQ(DocumentRouter::Create({}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
