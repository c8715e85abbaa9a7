// SPDX-License-Identifier: Apache-2.0
#include "quire/document_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/routing/testing/fake_cluster.h"

namespace quire {
namespace {

using cluster::ClusterView;
using cluster::MemberState;
using ::testing::HasSubstr;

class DocumentRouterTest : public ::testing::Test {
 protected:
  std::vector<std::string> Order(const std::string& name) const { return cluster_.Order(name); }
  cluster::Member& MemberAt(const std::string& address) { return cluster_.MemberAt(address); }
  /// Goes past the age up to which the router uses a view.
  void LetViewsAge() { cluster_.clock.Advance(std::chrono::minutes(1)); }
  StatusCode HolderCode(const std::string& name) {
    return router_->FindHolder({.name = name}).status().code();
  }
  StatusCode PlaceCode(const std::string& name) {
    return router_->FindPlace({.name = name}).status().code();
  }

  quire::testing::FakeCluster cluster_;
  const std::unique_ptr<DocumentRouter> router_ = cluster_.MakeRouter();
};

TEST_F(DocumentRouterTest, ADocumentIsFoundWhereItLiesAndPutWhereItBelongs) {
  const std::vector<std::string> order = Order("x");
  EXPECT_EQ(HolderCode("x"), StatusCode::kNotFound);
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[0]);
  cluster_.documents[order[1]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[1]) << "before a node joined";
  EXPECT_EQ(router_->FindPlace({.name = "x", .version = 7}).value(), order[0]);
  EXPECT_EQ(cluster_.views_read, (std::map<std::string, int>{{"a:1", 2}}))
      << "one view serves all, and an absence is looked at twice";
}

TEST_F(DocumentRouterTest, ADocumentThatMovesWhileItIsSoughtIsFound) {
  const std::vector<std::string> order = Order("x");
  cluster_.documents[order[2]] = {"x"};
  cluster_.after_get = [&](const std::string& address) {
    if (address != order[0]) return;
    cluster_.documents = {{order[0], {"x"}}};  // It moves once its new owner was asked.
  };
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[0]);
}

TEST_F(DocumentRouterTest, AnOwnerThatHangsCostsAPutAMomentOnly) {
  const std::vector<std::string> order = Order("x");
  cluster_.view.settings.replicas = 2;
  cluster_.hung = {order[0]};
  const TimePoint before = cluster_.clock.Now();
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]);
  EXPECT_LE(cluster_.clock.Now() - before, std::chrono::milliseconds(200));
  cluster_.hung = {order[0], order[1]};
  EXPECT_EQ(PlaceCode("x"), StatusCode::kUnavailable);
}

TEST_F(DocumentRouterTest, AnyHolderAnswersAndAbsenceNeedsEveryMember) {
  const std::vector<std::string> order = Order("x");
  cluster_.silent = {order[0]};
  EXPECT_EQ(HolderCode("x"), StatusCode::kUnavailable);
  cluster_.documents[order[2]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[2]);
  cluster_.documents[order[1]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[1]);
  cluster_.silent = {};
  cluster_.documents[order[0]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[0]);
}

TEST_F(DocumentRouterTest, ANodeWithoutTheLatestVersionGivesWayToOneThatHasIt) {
  const std::vector<std::string> order = Order("x");
  cluster_.behind = {order[0]};
  cluster_.documents[order[2]] = {"x"};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[2]);
  cluster_.documents.clear();
  EXPECT_THAT(router_->FindHolder({.name = "x"}).status().ToString(),
              HasSubstr("lies on another node"));
  cluster_.silent = {order[1]};
  EXPECT_EQ(HolderCode("x"), StatusCode::kUnavailable) << "that one may have it";
}

TEST_F(DocumentRouterTest, AWholeCopyIsPreferredToOneThatLacksSegments) {
  const std::vector<std::string> order = Order("x");
  cluster_.documents = {{order[0], {"x"}}, {order[2], {"x"}}};
  cluster_.lossy = {order[0]};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[2]);
  cluster_.silent = {order[2]};
  EXPECT_EQ(router_->FindHolder({.name = "x"}).value(), order[0]) << "better than none";
}

TEST_F(DocumentRouterTest, SeveralDocumentsAreReadFromANodeThatHasAll) {
  const std::vector<std::string> order = Order("x");
  cluster_.documents = {{order[0], {"x"}}, {order[1], {"y"}}, {order[2], {"x", "y"}}};
  const std::vector<DocumentName> names = {{.name = "x"}, {.name = "y"}};
  EXPECT_EQ(router_->FindHolder(names).value(), order[2]);
  cluster_.documents.erase(order[2]);
  const Status scattered = router_->FindHolder(names).status();
  EXPECT_EQ(scattered.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(scattered.ToString(), HasSubstr(order[0] + ", " + order[1]));
  cluster_.silent = {order[2]};
  EXPECT_EQ(router_->FindHolder(names).status().code(), StatusCode::kUnavailable);
  cluster_.silent = {};
  cluster_.documents.erase(order[1]);
  EXPECT_THAT(router_->FindHolder(names).status().ToString(), HasSubstr("has document y"));
  EXPECT_EQ(router_->FindHolder(std::span<const DocumentName>()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DocumentRouterTest, ASearchMayAskSomeNodesFirstAndOthersLast) {
  const std::vector<std::string> order = Order("x");
  for (const std::string& address : order) cluster_.documents[address] = {"x"};
  const std::vector<DocumentName> names = {{.name = "x"}};
  EXPECT_EQ(router_->FindHolder(names, {.first = order[2]}).value(), order[2]);
  EXPECT_EQ(router_->FindHolder(names, {.last = {order[0]}}).value(), order[1]);
  cluster_.silent = {order[2]};
  EXPECT_EQ(router_->FindHolder(names, {.last = {order[1], order[0]}}).value(), order[1]);
  EXPECT_EQ(cluster_.documents_asked, (std::map<std::string, int>{{order[1], 2}, {order[2], 1}}));
}

TEST_F(DocumentRouterTest, APutGoesToTheNearestOwnerThatAnswers) {
  const std::vector<std::string> order = Order("x");
  cluster_.silent = {order[0]};
  EXPECT_EQ(PlaceCode("x"), StatusCode::kUnavailable) << "the others are no owners";
  cluster_.view.settings.replicas = 2;
  LetViewsAge();
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]);
  cluster_.silent = {};
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[0]);
  MemberAt(order[0]).state = MemberState::kDraining;
  LetViewsAge();
  EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]);
}

TEST_F(DocumentRouterTest, ANodeThatIsAwayCountsAsSilentUntilItIsRemoved) {
  const std::vector<std::string> order = Order("x");
  for (const MemberState away : {MemberState::kLost, MemberState::kLeft}) {
    MemberAt(order[0]).state = away;
    LetViewsAge();
    EXPECT_THAT(router_->FindHolder({.name = "x"}).status().ToString(),
                HasSubstr(std::string("is ") + std::string(Name(away))));
    EXPECT_EQ(HolderCode("x"), StatusCode::kUnavailable);
    EXPECT_EQ(router_->FindPlace({.name = "x"}).value(), order[1]) << "names are agreed on";
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
