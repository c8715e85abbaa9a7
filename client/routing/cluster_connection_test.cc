// SPDX-License-Identifier: Apache-2.0
#include "quire/cluster_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/routing/node_choice.h"
#include "client/routing/node_transport.h"
#include "client/routing/testing/fake_cluster.h"
#include "common/base/answered.h"
#include "common/base/retry_hint.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr char kOpen[] = "quire.v1.Session/Open";
constexpr char kAppend[] = "quire.v1.Store/AppendPages";

class ClusterConnectionTest : public ::testing::Test {
 protected:
  ClusterConnectionTest() {
    for (const std::string& address : {order_[0], order_[1]}) cluster_.documents[address] = {"x"};
    connection_ = ClusterConnection::Open(
                      {.router = router_, .documents = {{.name = "x"}}, .clock = &cluster_.clock})
                      .value();
  }
  /// Address of the node that answered.
  StatusOr<std::string> Call(std::string_view method) {
    CallMessage reply;
    QUIRE_RETURN_IF_ERROR(connection_->control()->Call(method, {}, &reply, {}));
    return reply.control;
  }
  std::string Where(std::string_view method) { return Call(method).value_or("nowhere"); }

  quire::testing::FakeCluster cluster_;
  const std::vector<std::string> order_ = cluster_.Order("x");
  const std::shared_ptr<DocumentRouter> router_ = cluster_.MakeRouter();
  std::unique_ptr<ClusterConnection> connection_;
};

TEST_F(ClusterConnectionTest, CallsGoToOneNodeWhileItAnswers) {
  for (const char* method : {kOpen, kAppend}) EXPECT_EQ(Where(method), order_[0]);
  EXPECT_EQ(cluster_.documents_asked[order_[0]], 1) << "it is asked for the documents once";
  EXPECT_EQ(connection_->control()->capabilities().max_message_bytes, 1u << 20);
  EXPECT_EQ(connection_->counters().node_changes, 0u);
}

TEST_F(ClusterConnectionTest, WhatMayBeOpenedTwiceMovesAtOnceAndTheRestWithTheNextCall) {
  cluster_.silent = {order_[0]};
  EXPECT_EQ(Where(kOpen), order_[1]);
  EXPECT_EQ(connection_->counters().node_changes, 1u);
  EXPECT_EQ(connection_->counters().calls_failed, 1u);
  cluster_.silent = {order_[1]};
  EXPECT_EQ(Call(kAppend).status().code(), StatusCode::kUnavailable) << "it may have been done";
  EXPECT_EQ(Where(kAppend), order_[0]);
  cluster_.silent = {};
  EXPECT_EQ(Where(kAppend), order_[0]) << "it stays there";
  EXPECT_EQ(connection_->counters().node_changes, 2u);
}

TEST_F(ClusterConnectionTest, ANodeThatLetsACallsTimePassIsLeft) {
  cluster_.hung = {order_[0]};
  EXPECT_EQ(Call(kAppend).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Where(kAppend), order_[1]);
}

TEST_F(ClusterConnectionTest, TheSearchForANodeKeepsToTheTimeOfTheCall) {
  cluster_.hung = {"a:1", "b:1", "c:1"};
  EXPECT_EQ(Call(kAppend).status().code(), StatusCode::kDeadlineExceeded);
  const TimePoint start = cluster_.clock.Now();
  CallMessage reply;
  const CallOptions options{.timeout = std::chrono::milliseconds(50)};
  EXPECT_EQ(connection_->control()->Call(kOpen, {}, &reply, options).code(),
            StatusCode::kUnavailable);
  EXPECT_LE(cluster_.clock.Now() - start, options.timeout);
}

TEST_F(ClusterConnectionTest, TheOnlyHolderIsWaitedFor) {
  cluster_.documents.erase(order_[1]);
  cluster_.silent = {order_[0]};
  EXPECT_EQ(Call(kOpen).status().code(), StatusCode::kUnavailable);
  const Status not_sent = Call(kAppend).status();
  EXPECT_THAT(not_sent.ToString(), HasSubstr("may lie on a node"));
  EXPECT_TRUE(RetryAfter(not_sent)) << "every call may be repeated";
  cluster_.silent = {};
  EXPECT_EQ(Where(kOpen), order_[0]);
}

TEST_F(ClusterConnectionTest, ANodeThatLostTheDocumentIsLeftAndOneThatRefusesIsNot) {
  cluster_.failures[kAppend] = Answered(Unavailable("it stops"));
  EXPECT_EQ(Call(kAppend).status().code(), StatusCode::kUnavailable);
  cluster_.failures[kAppend] = NotFound("no such context");
  EXPECT_EQ(Call(kAppend).status().code(), StatusCode::kNotFound);
  cluster_.failures.clear();
  EXPECT_EQ(Where(kAppend), order_[0]);
  cluster_.failures[kAppend] = NotFound("no such context");
  EXPECT_EQ(Call(kAppend).status().code(), StatusCode::kNotFound);
  cluster_.failures.clear();
  cluster_.documents.erase(order_[0]);
  EXPECT_EQ(Where(kAppend), order_[1]);
}

TEST_F(ClusterConnectionTest, CallsInPartsMoveToo) {
  const auto transport = connection_->control();
  cluster_.silent = {order_[0]};
  const auto lost = transport->Start(kAppend, {}, {});
  ASSERT_TRUE(lost.ok());
  EXPECT_EQ((*lost)->Next(TimePoint::max()).status().code(), StatusCode::kUnavailable);
  const auto call = transport->Start(kAppend, {}, {});
  ASSERT_TRUE(call.ok());
  EXPECT_EQ((*call)->Next(TimePoint::max()).value()->control, order_[1]);
}

TEST_F(ClusterConnectionTest, ADataConnectionEndsWhenTheCallsGoElsewhere) {
  const auto choice = std::make_shared<internal::NodeChoice>(
      router_, std::vector<DocumentName>{{.name = "x"}}, &cluster_.clock);
  const auto node = choice->Current(Duration::max()).value();
  internal::NodeTransport data(choice, node, node.transport);
  CallMessage reply;
  EXPECT_EQ(data.Call("quire.v1.Session/Recall", {}, &reply, {}), OkStatus());
  EXPECT_EQ(reply.control, order_[0]);
  EXPECT_TRUE(data.Start("quire.v1.Session/Recall", {}, {}).ok());
  choice->Note(node, Unavailable("lost"));
  EXPECT_EQ(choice->Current(Duration::max()).value().address, order_[1]);
  EXPECT_EQ(data.Call("quire.v1.Session/Recall", {}, &reply, {}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(data.Start("quire.v1.Session/Recall", {}, {}).status().code(),
            StatusCode::kUnavailable);
}

TEST_F(ClusterConnectionTest, ItIsOpenedOverDocumentsThatAreThere) {
  EXPECT_EQ(
      ClusterConnection::Open({.router = router_, .documents = {{.name = "y"}}}).status().code(),
      StatusCode::kNotFound);
  EXPECT_EQ(ClusterConnection::Open({.router = router_}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ClusterConnection::Open({.documents = {{.name = "x"}}}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
