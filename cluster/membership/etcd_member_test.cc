// SPDX-License-Identifier: Apache-2.0
//
// Members, the membership that others see, and an operator's changes, over a real etcd.
#include "cluster/membership/etcd_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "cluster/etcd/etcd_requests.h"
#include "cluster/etcd/testing/etcd_front.h"
#include "cluster/etcd/testing/etcd_process.h"
#include "cluster/membership/cluster_admin.h"
#include "cluster/membership/etcd_membership.h"
#include "tests/kit/temp_dir.h"

namespace quire::cluster {
namespace {

using ::testing::HasSubstr;

constexpr Duration kLongEnough = std::chrono::seconds(20);

class EtcdMemberTest : public ::testing::Test {
 protected:
  EtcdMemberOptions NodeOptions(const std::string& name) {
    std::filesystem::create_directories(dir_ / name);
    return {.cluster_name = "demo",
            .data_dir = dir_ / name,
            .self = {.name = name, .zone = "east", .address = "127.0.0.1:1"},
            .lease = std::chrono::seconds(3)};
  }
  StatusOr<std::unique_ptr<EtcdMember>> Join(const EtcdMemberOptions& options) {
    return EtcdMember::Join(client_.get(), options);
  }
  /// Waits until `node` has this state, or is in the view no more.
  bool WaitForState(const Membership& membership, const std::string& node,
                    std::optional<MemberState> state) {
    const auto is_reached = [&](const ClusterView& view) {
      const Member* const member = view.Find(node);
      return state ? member != nullptr && member->state == *state : member == nullptr;
    };
    return is_reached(*membership.WaitFor(is_reached, kLongEnough));
  }
  static bool WaitForFrozen(const Membership& membership, bool frozen) {
    const TimePoint deadline = SystemClock().Now() + kLongEnough;
    while (membership.Frozen().ok() == frozen && SystemClock().Now() < deadline) {
      SystemClock().Sleep(std::chrono::milliseconds(20));
    }
    return membership.Frozen().ok() != frozen;
  }

  static bool WaitForStanding(const EtcdMember& member, StatusCode code) {
    const TimePoint deadline = SystemClock().Now() + kLongEnough;
    while (member.Standing().code() != code && SystemClock().Now() < deadline) {
      SystemClock().Sleep(std::chrono::milliseconds(20));
    }
    return member.Standing().code() == code;
  }

  quire::testing::TempDir dir_;
  testing::EtcdProcess etcd_;
  const std::unique_ptr<EtcdClient> client_ =
      EtcdClient::Create({.endpoints = {etcd_.address()}}).value();
  ClusterAdmin admin_{client_.get(), "demo"};
};

TEST_F(EtcdMemberTest, NodesJoinDrainLeaveAndAreRemoved) {
  EtcdMembership membership(client_.get(), "demo");
  EXPECT_EQ(admin_.Read().status().code(), StatusCode::kNotFound);
  auto a = Join(NodeOptions("a"));
  auto b = Join(NodeOptions("b"));
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_TRUE(WaitForState(membership, "a", MemberState::kUp));
  EXPECT_TRUE(WaitForState(membership, "b", MemberState::kUp));
  EXPECT_EQ(membership.View()->id.size(), 32u);
  EXPECT_EQ(membership.View()->Find("b")->zone, "east");

  ASSERT_TRUE(admin_.SetDraining("a", true).ok());
  EXPECT_TRUE(WaitForState(membership, "a", MemberState::kDraining));
  a->reset();
  EXPECT_TRUE(WaitForState(membership, "a", MemberState::kLeft));
  a = Join(NodeOptions("a"));
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_TRUE(WaitForState(membership, "a", MemberState::kDraining)) << "also after a restart";
  ASSERT_TRUE(admin_.SetDraining("a", false).ok());
  EXPECT_TRUE(WaitForState(membership, "a", MemberState::kUp));

  EXPECT_THAT(admin_.Remove("a").ToString(), HasSubstr("stop it before"));
  EXPECT_EQ(admin_.Remove("x").code(), StatusCode::kNotFound);
  a->reset();
  ASSERT_TRUE(admin_.Remove("a").ok());
  EXPECT_TRUE(WaitForState(membership, "a", std::nullopt));
  EXPECT_THAT(Join(NodeOptions("a")).status().ToString(), HasSubstr("was removed"));

  EXPECT_EQ(admin_.Change({.max_clock_skew_millis = 2000})->max_clock_skew_millis, 2000u);
  EXPECT_EQ(admin_.Read()->settings.max_clock_skew_millis, 2000u);
  EXPECT_EQ(admin_.Change({.replicas = 1})->replicas, 1u);
  EXPECT_EQ(admin_.Change({.replicas = 2, .copy_bytes_per_second = 0})->replicas, 2u);
  EXPECT_EQ(admin_.Change({.min_replicas = 2})->min_replicas, 2u);
  EXPECT_EQ(admin_.Read()->settings.copy_bytes_per_second, 0u);
  EXPECT_EQ(admin_.Change({.replicas = 9}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(EtcdMemberTest, ARemovalWhoseReplyIsLostIsDone) {
  ASSERT_TRUE(Join(NodeOptions("a")).ok()) << "and leaves";
  testing::EtcdFront front(etcd_.address());
  const auto client = EtcdClient::Create({.endpoints = {front.address()}}).value();
  ClusterAdmin admin(client.get(), "demo");
  front.replies_to_lose = 1;
  EXPECT_EQ(admin.Remove("a"), OkStatus());
  EXPECT_EQ(front.replies_to_lose, 0);
  EXPECT_TRUE(admin_.Read()->members.empty());
  EXPECT_EQ(admin.Remove("a").code(), StatusCode::kNotFound) << "it was gone before";
}

TEST_F(EtcdMemberTest, ALeaseThatEndsMakesTheNodeLostUntilItJoinsAgain) {
  EtcdMembership membership(client_.get(), "demo");
  EtcdMemberOptions options = NodeOptions("a");
  auto member = Join(options);
  ASSERT_TRUE(member.ok()) << member.status();
  ASSERT_TRUE(WaitForState(membership, "a", MemberState::kUp));

  options.data_dir = dir_ / "copy";
  std::filesystem::create_directories(options.data_dir);
  EXPECT_THAT(Join(options).status().ToString(), HasSubstr("another node named a is up"));
  std::filesystem::copy(dir_ / "a/cluster.json", dir_ / "copy/cluster.json",
                        std::filesystem::copy_options::overwrite_existing);
  options.self.address = "127.0.0.1:2";
  EXPECT_THAT(Join(options).status().ToString(), HasSubstr("is a copy of this one"));

  etcd_.Kill();
  EXPECT_TRUE(WaitForFrozen(membership, true));
  EXPECT_EQ(membership.View()->Find("a")->state, MemberState::kUp) << "the view stays";
  etcd_.Start();
  EXPECT_TRUE(WaitForFrozen(membership, false));
  EXPECT_TRUE(WaitForState(membership, "a", MemberState::kUp));
  EXPECT_TRUE(WaitForStanding(**member, StatusCode::kOk)) << (*member)->Standing();
}

TEST_F(EtcdMemberTest, AnAdvertisedAddressDoesNotReplaceALiveProcess) {
  EtcdMemberOptions options = NodeOptions("a");
  options.lease = std::chrono::seconds(1);
  auto first = Join(options);
  ASSERT_TRUE(first.ok()) << first.status();
  EtcdMemberOptions copy = options;
  copy.data_dir = dir_ / "copy";
  std::filesystem::create_directories(copy.data_dir);
  std::filesystem::copy(dir_ / "a/cluster.json", dir_ / "copy/cluster.json");
  EXPECT_THAT(Join(copy).status().ToString(), HasSubstr("is a copy of this one"));
  copy.lease = std::chrono::hours(1);
  copy.is_stopping = [] { return true; };
  EXPECT_EQ(Join(copy).status().code(), StatusCode::kCancelled);

  copy.is_stopping = {};
  copy.listens_on_address = true;
  auto second = Join(copy);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(WaitForStanding(**first, StatusCode::kFailedPrecondition));
  EXPECT_THAT((*first)->Standing().ToString(), HasSubstr("another process"));
  EXPECT_TRUE((*second)->Standing().ok());
  second->reset();
  EXPECT_TRUE(WaitForStanding(**first, StatusCode::kOk)) << "its place is free again";
}

TEST_F(EtcdMemberTest, DestructionEndsTheWaitOfARenewal) {
  EtcdMemberOptions options = NodeOptions("a");
  options.lease = std::chrono::seconds(6);
  std::atomic<int> times_asked = 0;
  options.is_stopping = [&] {
    ++times_asked;
    return false;
  };
  auto member = Join(options);
  ASSERT_TRUE(member.ok()) << member.status();
  const std::string prefix = ClusterPrefix("demo");
  const auto live = client_->ReadPrefix(prefix + LiveKey("a"));
  ASSERT_EQ(live->kvs_size(), 1);
  v1::ClusterMember other = ToProto((*member)->self());
  other.set_incarnation(other.incarnation() + 1);
  other.set_address("127.0.0.1:2");
  etcdserverpb::TxnRequest txn;
  AddPut(txn, prefix + LiveKey("a"), ToJsonText(other));
  ASSERT_TRUE(client_->Commit(txn).ok());
  ASSERT_TRUE(client_->RevokeLease(live->kvs(0).lease()).ok());

  const int before = times_asked;
  const TimePoint deadline = SystemClock().Now() + kLongEnough;
  while (times_asked < before + 6 && SystemClock().Now() < deadline) {
    SystemClock().Sleep(std::chrono::milliseconds(20));
  }
  ASSERT_GE(times_asked, before + 6) << "the renewal waits for the other process";
  const TimePoint begun = SystemClock().Now();
  member->reset();
  EXPECT_LT(SystemClock().Now() - begun, std::chrono::seconds(4)) << "its turn is 8 s away";
}

TEST_F(EtcdMemberTest, AnEtcdThatLostItsDataFreezesTheViewAndNobodyJoins) {
  EtcdMembership membership(client_.get(), "demo");
  auto member = Join(NodeOptions("a"));
  ASSERT_TRUE(member.ok()) << member.status();
  ASSERT_TRUE(WaitForState(membership, "a", MemberState::kUp));
  etcd_.Kill();
  etcd_.LoseData();
  etcd_.Start();
  const TimePoint deadline = SystemClock().Now() + kLongEnough;
  while (membership.Frozen().code() != StatusCode::kFailedPrecondition &&
         SystemClock().Now() < deadline) {
    SystemClock().Sleep(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(membership.Frozen().ToString(), HasSubstr("etcd has lost the records"));
  EXPECT_NE(membership.View()->Find("a"), nullptr);
  ASSERT_TRUE(WaitForStanding(**member, StatusCode::kFailedPrecondition));
  EXPECT_THAT((*member)->Standing().ToString(), HasSubstr("etcd has lost its data"));
}

TEST_F(EtcdMemberTest, AClockFarOffIsRefused) {
  EtcdMemberOptions options = NodeOptions("a");
  options.clock_offsets = [](const ClusterView&) { return std::vector<int64_t>{60'000'000}; };
  EXPECT_THAT(Join(options).status().ToString(), HasSubstr("60000 ms ahead"));
  EXPECT_EQ(admin_.Read().status().code(), StatusCode::kNotFound) << "nothing was changed";
}

}  // namespace
}  // namespace quire::cluster
