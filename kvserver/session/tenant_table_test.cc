// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/tenant_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvserver/session/memory_budget.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

class TenantTableTest : public ::testing::Test {
 protected:
  uint64_t Insert(const std::string& tenant) {
    return *table_.Insert(tenant, std::make_shared<int>(1));
  }
  quire::testing::FakeClock clock_;
  TenantTable<int> table_{{.noun = "session",
                           .option = "--max-sessions",
                           .max_per_tenant = 2,
                           .idle_expiry = std::chrono::seconds(60),
                           .clock = &clock_}};
};

TEST_F(TenantTableTest, AnotherTenantsIdIsNotFound) {
  const uint64_t id = Insert("a");
  EXPECT_TRUE(table_.Find("a", id).ok());
  EXPECT_EQ(table_.Find("b", id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table_.Remove("b", id), nullptr);
  EXPECT_NE(table_.Remove("a", id), nullptr);
  EXPECT_EQ(table_.Remove("a", id), nullptr);
}

class ScriptedRandom final : public Random {
 public:
  explicit ScriptedRandom(std::vector<uint64_t> values) : values_(std::move(values)) {}
  uint64_t Next() override { return values_.at(next_++); }

 private:
  std::vector<uint64_t> values_;
  size_t next_ = 0;
};

TEST(TenantTableIdsTest, AreNeitherZeroNorInUse) {
  ScriptedRandom random({7, 0, 7, 9});
  quire::testing::FakeClock clock;
  TenantTable<int> table({.noun = "session", .option = "", .clock = &clock, .random = &random});
  EXPECT_EQ(*table.Insert("a", std::make_shared<int>(1)), 7u);
  EXPECT_EQ(*table.Insert("b", std::make_shared<int>(1)), 9u);
}

TEST_F(TenantTableTest, TheBoundIsPerTenantAndNamesTheRemedy) {
  const uint64_t id = Insert("a");
  Insert("a");
  const auto third = table_.Insert("a", std::make_shared<int>(1));
  EXPECT_EQ(third.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(third.status())), HasSubstr("--max-sessions"));
  EXPECT_NE(RetryAfter(third.status()), std::nullopt);
  EXPECT_TRUE(table_.Insert("b", std::make_shared<int>(1)).ok());
  table_.Remove("a", id);
  EXPECT_TRUE(table_.Insert("a", std::make_shared<int>(1)).ok());
}

TEST_F(TenantTableTest, WhatNobodyUsesIsForgottenWhenRoomIsNeeded) {
  const uint64_t idle = Insert("a"), used = Insert("a");
  clock_.Advance(std::chrono::seconds(40));
  ASSERT_TRUE(table_.Find("a", used).ok());
  clock_.Advance(std::chrono::seconds(40));
  Insert("a");
  EXPECT_FALSE(table_.Find("a", idle).ok());
  EXPECT_TRUE(table_.Find("a", used).ok());
}

TEST(MemoryBudgetTest, LeasesReturnTheirBytes) {
  auto budget = std::make_shared<MemoryBudget>(100, "open contexts", "--context-bytes");
  auto first = budget->Take(60);
  ASSERT_TRUE(first.ok());
  const auto second = budget->Take(41);
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(second.status())), HasSubstr("--context-bytes"));
  EXPECT_NE(RetryAfter(second.status()), std::nullopt);
  EXPECT_TRUE(budget->Take(40).ok());
  EXPECT_EQ(budget->used_bytes(), 60u);
  first->reset();
  EXPECT_TRUE(budget->Take(100).ok());
  const Status never = budget->Take(101).status();
  EXPECT_EQ(never.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(never), std::nullopt);
}

TEST_F(TenantTableTest, WhatIsIdleIsGoneAlsoWhenNobodyInserts) {
  const uint64_t id = Insert("a");
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_EQ(table_.Find("a", id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table_.size(), 1u);
  table_.RemoveIdle();
  EXPECT_EQ(table_.size(), 0u);
}

}  // namespace
}  // namespace quire::kvserver
