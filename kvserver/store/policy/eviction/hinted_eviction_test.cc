// SPDX-License-Identifier: Apache-2.0
//
// The order in which hinted extents leave, and the bound of those that leave last.
#include "kvserver/store/policy/eviction/hinted_eviction.h"

#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "kvserver/store/policy/eviction/eviction_factory.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;

class HintedEvictionTest : public ::testing::Test {
 protected:
  NewExtent Extent(uint64_t number, std::string_view tenant = "t") {
    return {.id = ExtentNumber(number), .bytes = 10, .tenant = tenant};
  }
  void Set(uint64_t number, Standing standing, bool tracked = true, std::string_view tenant = "t") {
    const NewExtent extent = Extent(number, tenant);
    policy_.SetStanding(extent.id.segment, standing, {&extent, tracked ? 1u : 0u});
  }

  HintedEviction policy_{MakeEvictionPolicy("lru").value(),
                         {.tier_bytes = 100, .quotas = {{"small", 40}}, .share = 0.5}};
};

TEST_F(HintedEvictionTest, StandingsComeBeforeTheOrderOfThePolicy) {
  for (uint64_t i = 1; i <= 6; ++i) policy_.Insert(Extent(i));
  Set(1, Standing::kKept);
  Set(2, Standing::kHigh);
  Set(5, Standing::kLow);
  Set(6, Standing::kReleased);
  EXPECT_THAT(EvictAll(policy_), ElementsAre(6, 5, 3, 4, 2, 1));
  EXPECT_EQ(policy_.raised_bytes(), 0u);
}

TEST_F(HintedEvictionTest, AStandingHoldsForExtentsThatComeLater) {
  Set(1, Standing::kKept, /*tracked=*/false);
  Set(2, Standing::kReleased, /*tracked=*/false);
  for (uint64_t i = 1; i <= 3; ++i) policy_.Insert(Extent(i));
  EXPECT_THAT(EvictAll(policy_), ElementsAre(2, 3, 1));
  policy_.Insert(Extent(3));
  policy_.Insert(Extent(1));
  Set(1, Standing::kNormal);
  EXPECT_THAT(EvictAll(policy_), ElementsAre(3, 1));
}

TEST_F(HintedEvictionTest, AUseEndsARelease) {
  for (uint64_t i = 1; i <= 3; ++i) policy_.Insert(Extent(i));
  Set(2, Standing::kReleased);
  EXPECT_TRUE(policy_.IsReleased(ExtentNumber(2)));
  policy_.Touch(ExtentNumber(2));
  EXPECT_FALSE(policy_.IsReleased(ExtentNumber(2)));
  EXPECT_THAT(EvictAll(policy_), ElementsAre(1, 3, 2));
}

TEST_F(HintedEvictionTest, RaisedExtentsAreBoundedByTheTierAndByQuotas) {
  for (uint64_t i = 1; i <= 9; ++i) policy_.Insert(Extent(i, i <= 3 ? "small" : "t"));
  for (uint64_t i = 1; i <= 3; ++i) Set(i, Standing::kKept, true, "small");
  EXPECT_EQ(policy_.raised_bytes(), 20u) << "half of its quota";
  EXPECT_EQ(policy_.not_raised(), 1u);
  for (uint64_t i = 4; i <= 9; ++i) Set(i, Standing::kHigh);
  EXPECT_EQ(policy_.raised_bytes(), 50u) << "half of the tier";
  EXPECT_THAT(EvictAll(policy_), ElementsAre(3, 7, 8, 9, 4, 5, 6, 1, 2));
}

TEST_F(HintedEvictionTest, HeldExtentsStayWhateverTheirStanding) {
  for (uint64_t i = 1; i <= 4; ++i) policy_.Insert(Extent(i));
  Set(1, Standing::kKept);
  Set(2, Standing::kReleased);
  const auto only = [&](uint64_t number) {
    return policy_.Victim([=](const ExtentId& id) { return id == ExtentNumber(number); });
  };
  for (const uint64_t number : {1, 3, 2, 4, 1}) EXPECT_EQ(only(number), ExtentNumber(number));
  EXPECT_THAT(EvictAll(policy_), ElementsAre(2, 3, 4, 1));
}

}  // namespace
}  // namespace quire::kvserver::testing
