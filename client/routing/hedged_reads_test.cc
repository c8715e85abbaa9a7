// SPDX-License-Identifier: Apache-2.0
#include "client/routing/hedged_reads.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/routing/testing/fake_cluster.h"
#include "quire/cluster_connection.h"

namespace quire {
namespace {

using namespace std::chrono_literals;

class HedgedReadsTest : public ::testing::Test {
 protected:
  HedgedReadsTest() {
    for (const std::string& address : {order_[0], order_[1]}) {
      cluster_.documents[address] = {"x"};
      cluster_.latency[address] = 1ms;
    }
    connection_ = Open(/*hedge_reads=*/true);
  }
  std::unique_ptr<ClusterConnection> Open(bool hedge_reads) {
    return ClusterConnection::Open({.router = cluster_.MakeRouter(),
                                    .documents = {{.name = "x"}},
                                    .hedge_reads = hedge_reads,
                                    .clock = &cluster_.clock})
        .value();
  }
  StatusOr<std::string> Fetch(Duration timeout = 30s) {
    CallMessage reply;
    QUIRE_RETURN_IF_ERROR(
        connection_->control()->Call(testing::kFetchMethod, {}, &reply, {.timeout = timeout}));
    return reply.control;
  }
  /// Makes as many reads as tell the pace.
  void LearnPace() {
    for (int i = 0; i < 64; ++i) ASSERT_EQ(Fetch().value(), order_[0]);
  }
  ClusterConnection::Counters Counters() const { return connection_->counters(); }

  quire::testing::FakeCluster cluster_;
  const std::vector<std::string> order_ = cluster_.Order("x");
  std::unique_ptr<ClusterConnection> connection_;
};

TEST_F(HedgedReadsTest, ASlowReadIsAnsweredByTheSecondNode) {
  LearnPace();
  EXPECT_EQ(Counters().hedged, 0u);
  cluster_.latency[order_[0]] = 1s;
  for (int i = 0; i < 200; ++i) {
    const TimePoint start = cluster_.clock.Now();
    EXPECT_EQ(Fetch().value(), order_[1]);
    EXPECT_LT(cluster_.clock.Now() - start, 5ms) << "the slow node does not change the pace";
  }
  EXPECT_EQ(Counters().reads, 264u);
  EXPECT_EQ(Counters().hedged, 200u);
  EXPECT_EQ(Counters().hedges_won, 200u);
  EXPECT_EQ(Counters().node_changes, 0u) << "slow is not failed";
}

TEST_F(HedgedReadsTest, TheFirstNodeMayStillBeFaster) {
  LearnPace();
  cluster_.latency[order_[0]] = 3ms;
  cluster_.latency[order_[1]] = 1s;
  EXPECT_EQ(Fetch().value(), order_[0]);
  EXPECT_EQ(Counters().hedged, 1u);
  EXPECT_EQ(Counters().hedges_won, 0u);
}

TEST_F(HedgedReadsTest, AnErrorOfTheSecondNodeCountsForNothing) {
  LearnPace();
  cluster_.latency[order_[0]] = 3ms;
  cluster_.silent = {order_[1]};
  EXPECT_EQ(Fetch().value(), order_[0]);
  EXPECT_EQ(Counters().hedges_won, 0u);
}

TEST_F(HedgedReadsTest, AReadThatNoNodeAnswersEndsAtItsTime) {
  LearnPace();
  cluster_.hung = {order_[0], order_[1]};
  const TimePoint start = cluster_.clock.Now();
  EXPECT_EQ(Fetch(50ms).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_LE(cluster_.clock.Now() - start, 60ms);
}

TEST_F(HedgedReadsTest, WithoutASecondHolderNothingIsHedged) {
  cluster_.documents.erase(order_[1]);
  LearnPace();
  cluster_.latency[order_[0]] = 1s;
  EXPECT_EQ(Fetch().value(), order_[0]);
  EXPECT_EQ(Counters().hedged, 0u);
}

TEST_F(HedgedReadsTest, AFirstNodeThatFailsMeanwhileIsLeft) {
  LearnPace();
  cluster_.silent = {order_[0]};
  EXPECT_EQ(Fetch().value(), order_[1]);
  EXPECT_EQ(Counters().node_changes, 1u);
}

TEST_F(HedgedReadsTest, HedgingMayBeOff) {
  connection_ = Open(/*hedge_reads=*/false);
  LearnPace();
  cluster_.latency[order_[0]] = 1s;
  EXPECT_EQ(Fetch().value(), order_[0]);
  EXPECT_EQ(Counters().reads, 0u);
}

TEST(ReadPaceTest, SlowIsBeyondMostOfTheLatestAnswers) {
  internal::ReadPace pace;
  EXPECT_FALSE(pace.SlowAfter());
  for (int i = 1; i <= 100; ++i) pace.Add(std::chrono::milliseconds(i));
  EXPECT_EQ(pace.SlowAfter(), 92ms) << "of the first 96";
  for (int i = 0; i < 128; ++i) pace.Add(7ms);
  EXPECT_EQ(pace.SlowAfter(), 7ms) << "earlier ones do not count";
}

}  // namespace
}  // namespace quire
