// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership/static_membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "tests/kit/temp_dir.h"

namespace quire::cluster {
namespace {

using ::testing::HasSubstr;

class StaticMembershipTest : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<StaticMembership>> Read(const std::string& text) {
    std::ofstream(dir_ / "members") << text;
    return StaticMembership::ReadFile(dir_ / "members");
  }
  quire::testing::TempDir dir_;
};

TEST_F(StaticMembershipTest, AFileListsTheMembers) {
  const auto membership = Read(R"({"name": "demo", "members": [
      {"name": "b", "address": "127.0.0.1:2"}, {"name": "a", "address": "127.0.0.1:1"}]})");
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_TRUE((*membership)->Frozen().ok());
  const auto view = (*membership)->View();
  ASSERT_EQ(view->members.size(), 2u);
  EXPECT_EQ(view->members[0].name, "a");
  EXPECT_EQ(view->members[0].node_id, "a") << "the name, where there is no other id";
  EXPECT_EQ(view->members[1].state, MemberState::kUp);
}

TEST_F(StaticMembershipTest, AWrongFileIsExplained) {
  EXPECT_THAT(Read("{").status().ToString(), HasSubstr("/members: is no JSON"));
  EXPECT_THAT(Read(R"({"name": "demo"})").status().ToString(), HasSubstr("lists no members"));
  EXPECT_THAT(Read(R"({"name": "demo", "members": [{"name": "a"}]})").status().ToString(),
              HasSubstr("node a: "));
  EXPECT_THAT(Read(R"({"name": "demo", "members": [{"name": "A"}]})").status().ToString(),
              HasSubstr("the node's name 'A'"));
  EXPECT_EQ(StaticMembership::ReadFile(dir_ / "none").status().code(), StatusCode::kNotFound);
}

TEST_F(StaticMembershipTest, AThreadWaitsForAnotherView) {
  StaticMembership membership({.name = "demo", .epoch = 1});
  const auto is_second = [](const ClusterView& view) { return view.epoch == 2; };
  EXPECT_EQ(membership.WaitFor(is_second, Duration::zero())->epoch, 1u);
  std::thread setter([&] { membership.Set({.name = "demo", .epoch = 2}); });
  EXPECT_EQ(membership.WaitFor(is_second, std::chrono::seconds(20))->epoch, 2u);
  setter.join();
}

}  // namespace
}  // namespace quire::cluster
