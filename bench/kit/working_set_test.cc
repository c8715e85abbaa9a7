// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/working_set.h"

#include <gtest/gtest.h>

namespace quire::bench {
namespace {

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr WorkingSetNeeds kNeeds = {.caches = 4,
                                    .least_bytes = 512 * kMib,
                                    .step_bytes = 64 * kMib,
                                    .copies = 10,
                                    .besides_bytes = 1024 * kMib};

TEST(WorkingSetTest, IsSoManyCachesInWholeSteps) {
  const WorkingSet set = SizeWorkingSet(kNeeds, 260 * kMib, 64 * 1024 * kMib);
  EXPECT_EQ(set.bytes, 1088 * kMib);
  EXPECT_FALSE(set.capped);
}

TEST(WorkingSetTest, IsNotSmallerThanTheLeast) {
  EXPECT_EQ(SizeWorkingSet(kNeeds, 8 * kMib, 0).bytes, 512 * kMib);
}

TEST(WorkingSetTest, AnUnknownCacheIsTakenForALikelyOne) {
  const WorkingSetNeeds needs{.caches = 2};
  EXPECT_EQ(SizeWorkingSet(needs, 0, 0).bytes, 2 * kLikelyCacheBytes);
}

TEST(WorkingSetTest, MemoryHoldsAllCopiesAndWhatIsBesides) {
  const uint64_t needed = 10 * 1088 * kMib + 1024 * kMib;
  EXPECT_FALSE(SizeWorkingSet(kNeeds, 260 * kMib, needed).capped);
  const WorkingSet set = SizeWorkingSet(kNeeds, 260 * kMib, needed - 1);
  EXPECT_EQ(set.bytes, 1024 * kMib);
  EXPECT_TRUE(set.capped);
}

TEST(WorkingSetTest, IsAtLeastAStep) {
  const WorkingSet set = SizeWorkingSet(kNeeds, 260 * kMib, 1);
  EXPECT_EQ(set.bytes, 64 * kMib);
  EXPECT_TRUE(set.capped);
}

}  // namespace
}  // namespace quire::bench
