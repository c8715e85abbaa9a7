// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/admission/fair_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace quire::kvserver {
namespace {

TEST(FairQueueTest, CallsOfOneTenantKeepTheirOrder) {
  FairQueue queue({});
  for (FairQueue::Ticket t = 0; t < 10; ++t) queue.Push("a", t, 1000 * (10 - t));
  for (FairQueue::Ticket t = 0; t < 10; ++t) EXPECT_EQ(queue.Pop(), t);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(FairQueueTest, ATenantsQueueIsBoundedAndNoOtherFeelsIt) {
  FairQueue queue({.max_per_tenant = 2});
  queue.Push("a", 0, 1);
  EXPECT_TRUE(queue.HasRoom("a"));
  queue.Push("a", 1, 1);
  EXPECT_FALSE(queue.HasRoom("a"));
  EXPECT_TRUE(queue.HasRoom("b"));
  EXPECT_EQ(queue.size("a"), 2u);
  EXPECT_EQ(queue.size("b"), 0u);
  EXPECT_TRUE(queue.Pop());
  EXPECT_TRUE(queue.HasRoom("a"));
}

TEST(FairQueueTest, AFloodDelaysAnotherTenantByOneTurnAtMost) {
  FairQueue queue({.max_per_tenant = 1000, .quantum = 100});
  for (FairQueue::Ticket t = 0; t < 1000; ++t) queue.Push("flood", t, 10);
  for (int i = 0; i < 5; ++i) EXPECT_LT(*queue.Pop(), 1000u);
  queue.Push("calm", 5000, 10);
  int before = 0;
  while (*queue.Pop() != 5000) ++before;
  EXPECT_LE(before, 10) << "the rest of the flood's quantum";
}

TEST(FairQueueTest, CostIsSharedEvenlyHoweverItIsCut) {
  const uint64_t seed = 11;
  SeededRandom random(seed);
  FairQueue queue({.max_per_tenant = 8, .quantum = 1000, .max_cost = 5000});
  const std::map<std::string, uint64_t> largest = {{"small", 50}, {"medium", 900}, {"large", 5000}};
  std::map<FairQueue::Ticket, std::pair<std::string, uint64_t>> waiting;
  std::map<std::string, uint64_t> served;
  FairQueue::Ticket next = 0;
  for (int i = 0; i < 20000; ++i) {
    for (const auto& [tenant, most] : largest) {
      while (queue.HasRoom(tenant)) {
        const uint64_t cost = 1 + random.Below(most);
        waiting[next] = {tenant, cost};
        queue.Push(tenant, next++, cost);
      }
    }
    const auto ticket = queue.Pop();
    ASSERT_TRUE(ticket);
    const auto [tenant, cost] = waiting.at(*ticket);
    served[tenant] += cost;
    waiting.erase(*ticket);
  }
  for (const auto& [tenant, cost] : served) {
    EXPECT_NEAR(static_cast<double>(cost), static_cast<double>(served["medium"]), 10000)
        << tenant << " seed " << seed;
  }
}

TEST(FairQueueTest, WhatCallsCostBeyondTheirEstimateIsPaidLater) {
  FairQueue queue({.max_per_tenant = 1000, .quantum = 100, .max_cost = 1000});
  std::map<std::string, int> served;
  for (FairQueue::Ticket t = 0; t < 200; ++t) queue.Push(t % 2 == 0 ? "cheap" : "dear", t, 10);
  for (int i = 0; i < 100; ++i) {
    const bool cheap = *queue.Pop() % 2 == 0;
    ++served[cheap ? "cheap" : "dear"];
    if (!cheap) queue.Charge("dear", 90);  // Its replies are large.
  }
  EXPECT_GE(served["cheap"], 8 * served["dear"]);
  EXPECT_GT(served["dear"], 5) << "debt delays, it does not starve";
}

TEST(FairQueueTest, NobodyPaysForWhatNobodyElseWanted) {
  FairQueue queue({.max_per_tenant = 1000, .quantum = 100, .max_cost = 100000});
  queue.Charge("early", 100000);
  for (FairQueue::Ticket t = 0; t < 100; ++t) queue.Push(t % 2 == 0 ? "early" : "late", t, 100);
  int early = 0;
  for (int i = 0; i < 20; ++i) early += *queue.Pop() % 2 == 0 ? 1 : 0;
  EXPECT_EQ(early, 10);
}

TEST(FairQueueTest, CreditIsNotSavedUpByTenantsThatComeAndGo) {
  FairQueue queue({.max_per_tenant = 1000, .quantum = 1000});
  for (FairQueue::Ticket t = 0; t < 100; ++t) {
    queue.Push("visitor", t, 1);
    EXPECT_EQ(queue.Pop(), t);
  }
  for (FairQueue::Ticket t = 0; t < 100; ++t) queue.Push(t % 2 == 0 ? "visitor" : "other", t, 500);
  int visitor = 0;
  for (int i = 0; i < 20; ++i) visitor += *queue.Pop() % 2 == 0 ? 1 : 0;
  EXPECT_EQ(visitor, 10);
}

TEST(FairQueueTest, UrgentCallsOfATenantGoBeforeItsOthers) {
  FairQueue queue({});
  queue.Push("a", 1, 10, Priority::kPrefetch);
  queue.Push("a", 2, 10, Priority::kNormal);
  queue.Push("a", 3, 10, Priority::kCorrection);
  queue.Push("a", 4, 10, Priority::kPrefetch);
  queue.Push("a", 5, 10, Priority::kCorrection);
  queue.Remove("a", 4);
  for (const FairQueue::Ticket t : {3, 5, 2, 1}) EXPECT_EQ(queue.Pop(), t);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(FairQueueTest, AnUrgentCallTakesThePlaceOfTheTenantsLastPrefetch) {
  FairQueue queue({.max_per_tenant = 2});
  queue.Push("a", 1, 10, Priority::kPrefetch);
  queue.Push("a", 2, 10, Priority::kPrefetch);
  queue.Push("b", 3, 10, Priority::kPrefetch);
  EXPECT_EQ(queue.Displace("a", Priority::kPrefetch), std::nullopt);
  EXPECT_EQ(queue.Displace("a", Priority::kNormal), 2u);
  EXPECT_TRUE(queue.HasRoom("a"));
  EXPECT_EQ(queue.Displace("a", Priority::kNormal), 1u);
  EXPECT_EQ(queue.tenants(), 1u);
  EXPECT_EQ(queue.Displace("a", Priority::kCorrection), std::nullopt);
  EXPECT_EQ(queue.Pop(), 3u);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(FairQueueTest, UrgencyTakesNothingFromOtherTenants) {
  FairQueue queue({.max_per_tenant = 1000, .quantum = 100});
  for (FairQueue::Ticket t = 0; t < 200; ++t) {
    const bool urgent = t % 2 == 0;
    queue.Push(urgent ? "urgent" : "calm", t, 10,
               urgent ? Priority::kCorrection : Priority::kPrefetch);
  }
  int urgent = 0;
  for (int i = 0; i < 100; ++i) urgent += *queue.Pop() % 2 == 0 ? 1 : 0;
  EXPECT_EQ(urgent, 50);
}

TEST(FairQueueTest, WhoGivesUpLeavesNoTrace) {
  FairQueue queue({});
  queue.Push("a", 1, 10);
  queue.Push("a", 2, 10);
  queue.Push("b", 3, 10);
  queue.Remove("b", 3);
  EXPECT_EQ(queue.tenants(), 1u);
  queue.Remove("a", 1);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.Pop(), 2u);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_EQ(queue.tenants(), 0u);
}

TEST(FairQueueTest, CostsBeyondAnyBoundEndAllTheSame) {
  FairQueue queue({.max_per_tenant = 4, .quantum = 1, .max_cost = 1000});
  queue.Push("a", 1, UINT64_MAX);
  queue.Push("b", 2, 0);
  queue.Charge("a", UINT64_MAX);
  queue.Charge("a", UINT64_MAX);
  EXPECT_EQ(queue.Pop(), 2u);
  EXPECT_EQ(queue.Pop(), 1u);
}

}  // namespace
}  // namespace quire::kvserver
