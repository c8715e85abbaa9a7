// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/quota_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

// Promise 6: nothing is unbounded. Over a limit the caller gets RESOURCE_EXHAUSTED.
TEST(QuotaTableTest, Promise6OverTheQuotaAChargeIsRefusedNamingTenantAndQuotaAndChangesNothing) {
  QuotaTable quotas(1000);
  ASSERT_TRUE(quotas.TryCharge("alice", TierName::kSsd, 700).ok());
  const Status status = quotas.TryCharge("alice", TierName::kSsd, 301);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const char* words : {"'alice'", "700 of its 1000", "SSD", "301"}) {
    EXPECT_THAT(std::string(Message(status)), HasSubstr(words));
  }
  EXPECT_EQ(quotas.used_bytes("alice", TierName::kSsd), 700u);
  EXPECT_TRUE(quotas.TryCharge("alice", TierName::kSsd, 300).ok());
  quotas.Release("alice", TierName::kSsd, 1000);
  EXPECT_TRUE(quotas.TryCharge("alice", TierName::kSsd, 1000).ok());
}

TEST(QuotaTableTest, TenantsAndTiersAreCountedApart) {
  QuotaTable quotas(1000);
  ASSERT_TRUE(quotas.TryCharge("alice", TierName::kDram, 1000).ok());
  EXPECT_TRUE(quotas.TryCharge("alice", TierName::kSsd, 1000).ok());
  EXPECT_TRUE(quotas.TryCharge("bob", TierName::kDram, 1000).ok());
  EXPECT_EQ(quotas.used_bytes("carol", TierName::kDram), 0u);
}

TEST(QuotaTableTest, AQuotaOfItsOwnTakesTheDefaultsPlaceAndKeepsWhatIsCharged) {
  QuotaTable quotas;
  ASSERT_TRUE(quotas.TryCharge("alice", TierName::kDram, 5000).ok());
  quotas.SetQuota("alice", TierName::kDram, 1000);
  EXPECT_EQ(quotas.quota_bytes("alice", TierName::kDram), 1000u);
  EXPECT_EQ(quotas.quota_bytes("alice", TierName::kSsd), QuotaTable::kUnlimited);
  EXPECT_EQ(quotas.TryCharge("alice", TierName::kDram, 1).code(), StatusCode::kResourceExhausted);
  quotas.Release("alice", TierName::kDram, 4500);
  EXPECT_TRUE(quotas.TryCharge("alice", TierName::kDram, 500).ok());
}

TEST(QuotaTableTest, NoSumOverflows) {
  QuotaTable quotas;
  ASSERT_TRUE(quotas.TryCharge("alice", TierName::kDram, QuotaTable::kUnlimited).ok());
  EXPECT_EQ(quotas.TryCharge("alice", TierName::kDram, QuotaTable::kUnlimited).code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace quire::kvserver
