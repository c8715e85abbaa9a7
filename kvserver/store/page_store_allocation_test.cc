// SPDX-License-Identifier: Apache-2.0
//
// Reads from DRAM do not allocate.
#include <gtest/gtest.h>

#include "kvserver/store/policy/eviction/eviction_factory.h"
#include "kvserver/store/testing/page_store_fixture.h"
#include "tests/kit/allocation_count.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::AllocationsOfThisThread;

class PageStoreAllocationTest : public PageStoreTest,
                                public ::testing::WithParamInterface<std::string> {
  void SetUp() override {
    options_.eviction_policy = GetParam();
    Open();
  }
};

TEST_P(PageStoreAllocationTest, ReadsOfUnitsInDramAllocateNothing) {
  const auto chain = PutTestChain(*store_, spec_, 1, 8);
  ASSERT_TRUE(chain.ok()) << chain.status();
  std::vector<UnitAddress> units;
  for (const TestSegment& segment : *chain) {
    const auto all = AllUnits(spec_, segment.key, segment.tokens.size());
    units.insert(units.end(), all.begin(), all.end());
  }
  std::vector<UnitBytes> out;
  ASSERT_TRUE(store_->ReadUnits("default", units, &out).ok());
  const uint64_t before = AllocationsOfThisThread();
  for (int i = 0; i < 1000; ++i) {
    // Often enough for the policy to receive notes of reads in between.
    ASSERT_TRUE(store_->ReadUnits("default", units, &out).ok());
  }
  EXPECT_EQ(AllocationsOfThisThread() - before, 0u);
  EXPECT_EQ(Count("ssd_unit_reads"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, PageStoreAllocationTest,
                         ::testing::ValuesIn(EvictionPolicyNames()));

}  // namespace
}  // namespace quire::kvserver::testing
