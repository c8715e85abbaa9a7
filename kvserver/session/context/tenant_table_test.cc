// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/tenant_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvserver/session/context/memory_budget.h"
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
                           .lease = std::chrono::seconds(60),
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

TEST_F(TenantTableTest, UsingItOrRenewingItKeepsIt) {
  const uint64_t left = Insert("a"), renewed = Insert("a"), used = Insert("b");
  for (int i = 0; i < 5; ++i) {
    clock_.Advance(std::chrono::seconds(40));
    ASSERT_TRUE(table_.Find("b", used).ok());
    const std::vector<uint64_t> ids = {left, renewed};
    EXPECT_EQ(table_.Renew("a", i == 0 ? std::vector<uint64_t>{renewed} : ids),
              i == 0 ? std::vector<uint64_t>() : std::vector<uint64_t>{left});
  }
  EXPECT_FALSE(table_.Find("a", left).ok());
  EXPECT_TRUE(table_.Find("a", renewed).ok());
  EXPECT_EQ(table_.Renew("b", std::vector<uint64_t>{renewed}), std::vector<uint64_t>{renewed})
      << "of another tenant";
}

TEST_F(TenantTableTest, ALeaseDoesNotRunOutDuringAUse) {
  const uint64_t id = Insert("a");
  auto call = *table_.Find("a", id);
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(std::chrono::seconds(50));
    table_.RemoveExpired();
    ASSERT_EQ(table_.size(), 1u);
    EXPECT_FALSE(table_.RemoveIdle("a"));
  }
  call.reset();
  clock_.Advance(std::chrono::seconds(50));
  EXPECT_TRUE(table_.Find("a", id).ok()) << "the lease starts when the call ends";
}

// Promise 6: the leftovers of a dead client do not block its tenant.
TEST_F(TenantTableTest, OverTheBoundWhatHasBeenIdleForLongestGoesFirst) {
  const uint64_t first = Insert("a");
  clock_.Advance(std::chrono::seconds(10));
  const uint64_t second = Insert("a");
  clock_.Advance(std::chrono::seconds(15));
  const uint64_t third = Insert("a");  // The first is idle for 25 s, a client renews every 10.
  EXPECT_FALSE(table_.Find("a", first).ok());
  ASSERT_EQ(table_.Renew("a", std::vector<uint64_t>{second, third}), std::vector<uint64_t>());
  EXPECT_EQ(table_.displaced(), 1u);
  EXPECT_EQ(table_.expired(), 0u);
  const auto refused = table_.Insert("a", std::make_shared<int>(1));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted) << "both are in use";
}

TEST_F(TenantTableTest, ARefusedCallerIsToldWhenSomethingMayBeIdle) {
  Insert("a");
  Insert("a");
  clock_.Advance(std::chrono::milliseconds(19'500));
  const auto soon = table_.Insert("a", std::make_shared<int>(1));
  EXPECT_EQ(RetryAfter(soon.status()), std::chrono::milliseconds(500));
  clock_.Advance(*RetryAfter(soon.status()));
  EXPECT_TRUE(table_.Insert("a", std::make_shared<int>(1)).ok());
}

TEST_F(TenantTableTest, AnIdleObjectOfAnotherTenantIsLeftAlone) {
  const uint64_t other = Insert("b");
  clock_.Advance(std::chrono::seconds(30));
  Insert("a");
  Insert("a");
  EXPECT_FALSE(table_.Insert("a", std::make_shared<int>(1)).ok());
  EXPECT_TRUE(table_.Find("b", other).ok());
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

TEST(MemoryBudgetTest, ReclaimsBeforeItRefuses) {
  std::vector<MemoryBudget::Lease> left_behind;
  auto budget = std::make_shared<MemoryBudget>(100, "open contexts", "--context-bytes", [&] {
    if (left_behind.empty()) return false;
    left_behind.pop_back();
    return true;
  });
  for (int i = 0; i < 4; ++i) left_behind.push_back(*budget->Take(20));
  EXPECT_TRUE(budget->Take(70).ok());
  EXPECT_EQ(left_behind.size(), 1u) << "as many as it takes";
  EXPECT_FALSE(budget->Take(101).ok());
  EXPECT_EQ(left_behind.size(), 1u) << "what never fits costs nobody anything";
}

TEST_F(TenantTableTest, WhatHasRunOutIsGoneAlsoWhenNobodyInserts) {
  const uint64_t id = Insert("a");
  clock_.Advance(std::chrono::seconds(61));
  EXPECT_EQ(table_.Find("a", id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table_.size(), 1u);
  table_.RemoveExpired();
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(table_.expired(), 1u);
}

}  // namespace
}  // namespace quire::kvserver
