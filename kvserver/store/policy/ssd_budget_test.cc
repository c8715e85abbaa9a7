// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/ssd_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kLargest = 256 * kMib;

// Promise 6: nothing is unbounded, and the parts do not exceed the whole.
TEST(SsdBudgetTest, Promise6ThePartsMakeTheLimitAndEachOfThemIsOfUse) {
  for (uint64_t limit = SsdBudget::kLeastBytes; limit < uint64_t{1} << 45; limit += limit / 3 + 1) {
    const auto budget = DivideSsd(limit, kLargest, 0);
    ASSERT_TRUE(budget.ok()) << budget.status();
    SCOPED_TRACE(limit);
    EXPECT_EQ(budget->limit_bytes, limit);
    EXPECT_EQ(budget->volumes_bytes + budget->metadata_bytes, limit);
    EXPECT_LT(budget->payload_bytes, budget->volumes_bytes);
    EXPECT_GE(budget->payload_bytes, limit / 3);
    EXPECT_GE(budget->volumes_bytes / budget->volume_bytes, 7u);
    EXPECT_LE(budget->volume_bytes, kLargest);
    EXPECT_EQ(budget->volume_bytes % 4096, 0u);
    EXPECT_TRUE(MetadataFits(limit / 32, budget->metadata_bytes, budget->buffer_bytes))
        << "minima and maxima of a full store";
    EXPECT_FALSE(
        MetadataFits(budget->metadata_bytes / 2, budget->metadata_bytes, budget->buffer_bytes));
  }
}

TEST(SsdBudgetTest, ALimitThatCannotWorkIsRefusedWithTheLeastThatDoes) {
  const auto refused = DivideSsd(SsdBudget::kLeastBytes - 1, kLargest, 0);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(refused.status())), HasSubstr("at least 16777216"));
  EXPECT_FALSE(DivideSsd(0, kLargest, 0).ok());

  const auto full = DivideSsd(100 * kMib, kLargest, 99 * kMib);
  EXPECT_EQ(full.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(full.status())), HasSubstr("at least 112197632"));
  EXPECT_TRUE(DivideSsd(112197632, kLargest, 99 * kMib).ok());
}

TEST(SsdBudgetTest, VolumesThatAreThereStayAndTheDatabaseHasTheRest) {
  const auto budget = DivideSsd(128 * kMib, kLargest, 118 * kMib);
  ASSERT_TRUE(budget.ok()) << budget.status();
  EXPECT_EQ(budget->volumes_bytes, 118 * kMib);
  EXPECT_EQ(budget->metadata_bytes, 10 * kMib);
}

}  // namespace
}  // namespace quire::kvserver
