// SPDX-License-Identifier: Apache-2.0
//
// The read path of the store allocates nothing when what is read is in DRAM. The program's own
// operator new counts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "kvserver/store/testing/page_store_fixture.h"

namespace {

thread_local uint64_t allocations = 0;

}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace quire::kvserver::testing {
namespace {

TEST_F(PageStoreTest, ReadsOfUnitsInDramAllocateNothing) {
  const auto chain = PutTestChain(*store_, spec_, 1, 8);
  ASSERT_TRUE(chain.ok()) << chain.status();
  std::vector<UnitAddress> units;
  for (const TestSegment& segment : *chain) {
    const auto all = AllUnits(spec_, segment.key, segment.tokens.size());
    units.insert(units.end(), all.begin(), all.end());
  }
  std::vector<UnitBytes> out;
  ASSERT_TRUE(store_->ReadUnits("default", units, &out).ok());
  const uint64_t before = allocations;
  for (int i = 0; i < 1000; ++i) {
    // Often enough that the policy is told of the reads in between.
    ASSERT_TRUE(store_->ReadUnits("default", units, &out).ok());
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(Count("ssd_unit_reads"), 0u);
}

}  // namespace
}  // namespace quire::kvserver::testing
