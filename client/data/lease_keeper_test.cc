// SPDX-License-Identifier: Apache-2.0
#include "client/data/lease_keeper.h"

#include <gmock/gmock.h>

#include "client/client_test_kit.h"
#include "quire/session.h"
#include "quire/v1/lease.pb.h"
#include "quire/v1/store.pb.h"

namespace quire::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = LeaseKeeper::Kind;

constexpr const char* kRenew = "quire.v1.Leases/Renew";
constexpr Duration kLong = std::chrono::hours(24);  ///< The thread never comes to it.
constexpr Duration kTimeout = std::chrono::seconds(5);

class LeaseKeeperTest : public testing::ClientTest {
 protected:
  LeaseKeeper keeper_{std::make_shared<LoopbackTransport>(&server_, LoopbackTransport::Options{}),
                      "team-a"};
};

TEST_F(LeaseKeeperTest, OneCallRenewsAllThatIsKept) {
  const auto context = keeper_.Keep(Kind::kContext, 3, kLong);
  auto other = keeper_.Keep(Kind::kContext, 5, kLong);
  const auto session = keeper_.Keep(Kind::kSession, 3, kLong);
  server_.Reply(kRenew, v1::RenewReply());
  server_.Reply(kRenew, v1::RenewReply());
  ASSERT_EQ(keeper_.Renew(kTimeout), OkStatus());
  EXPECT_THAT(server_.RequestOf<v1::RenewRequest>(0).context_ids(), ElementsAre(3u, 5u));
  EXPECT_THAT(server_.RequestOf<v1::RenewRequest>(0).session_ids(), ElementsAre(3u));
  EXPECT_EQ(server_.calls()[0].tenant, "team-a");
  other.reset();
  ASSERT_EQ(keeper_.Renew(kTimeout), OkStatus());
  EXPECT_THAT(server_.RequestOf<v1::RenewRequest>(1).context_ids(), ElementsAre(3u));
}

TEST_F(LeaseKeeperTest, WhatIsGoneIsNotAskedForAgain) {
  const auto context = keeper_.Keep(Kind::kContext, 3, kLong);
  const auto session = keeper_.Keep(Kind::kSession, 4, kLong);
  v1::RenewReply reply;
  reply.add_gone_context_ids(3);
  server_.Reply(kRenew, reply);
  server_.Reply(kRenew, v1::RenewReply());
  ASSERT_EQ(keeper_.Renew(kTimeout), OkStatus());
  ASSERT_EQ(keeper_.Renew(kTimeout), OkStatus());
  EXPECT_THAT(server_.RequestOf<v1::RenewRequest>(1).context_ids(), IsEmpty());
  EXPECT_THAT(server_.RequestOf<v1::RenewRequest>(1).session_ids(), ElementsAre(4u));
}

TEST_F(LeaseKeeperTest, AFailureIsLeftToTheNextRenewal) {
  const auto context = keeper_.Keep(Kind::kContext, 3, kLong);
  server_.Fail(kRenew, Unavailable("starting"));
  server_.Reply(kRenew, v1::RenewReply());
  EXPECT_TRUE(IsUnavailable(keeper_.Renew(kTimeout)));
  EXPECT_EQ(keeper_.Renew(kTimeout), OkStatus());
  EXPECT_THAT(server_.RequestOf<v1::RenewRequest>(1).context_ids(), ElementsAre(3u));
}

TEST_F(LeaseKeeperTest, NothingToKeepIsNoCall) {
  EXPECT_EQ(keeper_.Keep(Kind::kContext, 3, Duration::zero()), nullptr)
      << "a server without leases";
  EXPECT_EQ(keeper_.Renew(kTimeout), OkStatus());
  EXPECT_THAT(server_.calls(), IsEmpty());
}

TEST_F(LeaseKeeperTest, MoreThanACallMayHaveIsMoreCalls) {
  std::vector<LeaseKeeper::Kept> kept;
  for (uint64_t id = 1; id <= 5000; ++id) kept.push_back(keeper_.Keep(Kind::kContext, id, kLong));
  for (int i = 0; i < 2; ++i) server_.Reply(kRenew, v1::RenewReply());
  ASSERT_EQ(keeper_.Renew(kTimeout), OkStatus());
  ASSERT_EQ(server_.calls().size(), 2u);
  EXPECT_EQ(server_.RequestOf<v1::RenewRequest>(0).context_ids_size(), 4096);
  EXPECT_EQ(server_.RequestOf<v1::RenewRequest>(1).context_ids_size(), 5000 - 4096);
}

/// Tells of each renewal, from whatever thread.
class WaitingHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {}; }
  Status Handle(const CallContext&, std::string_view method, const CallMessage&,
                ReplyWriter& reply) override {
    EXPECT_EQ(method, kRenew);
    {
      MutexLock lock(mutex_);
      ++renewals_;
    }
    changed_.NotifyAll();
    return reply.Write({v1::RenewReply().SerializeAsString(), {}});
  }
  void AwaitRenewals(int count) {
    MutexLock lock(mutex_);
    while (renewals_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int renewals_ QUIRE_GUARDED_BY(mutex_) = 0;
};

TEST(LeaseKeeperThreadTest, RenewsByItself) {
  WaitingHandler server;
  LeaseKeeper keeper(std::make_shared<LoopbackTransport>(&server, LoopbackTransport::Options{}),
                     "default");
  const auto slow = keeper.Keep(Kind::kContext, 1, kLong);
  const auto quick = keeper.Keep(Kind::kSession, 2, std::chrono::milliseconds(6));
  server.AwaitRenewals(3);
}

/// A server that takes calls and never answers.
class SilentTransport final : public Transport {
 public:
  TransportCapabilities capabilities() const override { return {}; }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view, CallMessage,
                                               const CallOptions&) override {
    {
      MutexLock lock(mutex_);
      started_ = true;
    }
    changed_.NotifyAll();
    return std::unique_ptr<PendingCall>(std::make_unique<Silent>());
  }
  void AwaitCall() {
    MutexLock lock(mutex_);
    while (!started_) changed_.Wait(mutex_);
  }

 private:
  class Silent final : public PendingCall {
   public:
    StatusOr<std::optional<CallMessage>> Next(TimePoint) override {
      MutexLock lock(mutex_);
      while (!cancelled_) changed_.Wait(mutex_);
      return Status(StatusCode::kCancelled, "given up");
    }
    void Cancel() override {
      {
        MutexLock lock(mutex_);
        cancelled_ = true;
      }
      changed_.NotifyAll();
    }

   private:
    Mutex mutex_;
    CondVar changed_;
    bool cancelled_ QUIRE_GUARDED_BY(mutex_) = false;
  };

  Mutex mutex_;
  CondVar changed_;
  bool started_ QUIRE_GUARDED_BY(mutex_) = false;
};

TEST(LeaseKeeperThreadTest, ItsEndDoesNotWaitForASilentServer) {
  const auto server = std::make_shared<SilentTransport>();
  LeaseKeeper::Kept kept;
  {
    LeaseKeeper keeper(server, "default");
    kept = keeper.Keep(Kind::kContext, 1, std::chrono::milliseconds(6));
    server->AwaitCall();
  }
  kept.reset();  // May outlive the keeper.
}

}  // namespace
}  // namespace quire::internal
