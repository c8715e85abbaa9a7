// SPDX-License-Identifier: Apache-2.0
//
// What may go to SSD: quotas of tenants, and the write budget with what stays in DRAM only.
#include <gtest/gtest.h>

#include <string>

#include "kvserver/store/testing/page_store_fixture.h"
#include "tests/kit/fake_clock.h"

namespace quire::kvserver::testing {
namespace {

class PageStoreSpaceTest : public PageStoreTest {
 protected:
  uint64_t segment_bytes() const { return SegmentBytes(spec_, spec_.segment_pages); }
  StatusOr<TestSegment> PutNumber(uint64_t seed, Durability durability,
                                  const SegmentKey& parent = kRootKey,
                                  std::string_view tenant = "default") {
    return PutTestSegment(*store_, spec_, seed, parent, /*num_tokens=*/0, durability, tenant);
  }
  bool IsRead(const TestSegment& segment) {
    const auto bytes = ReadSegment(*store_, spec_, segment);
    return bytes.ok() && *bytes == segment.payload;
  }
};

TEST_F(PageStoreSpaceTest, ATenantStopsAtItsQuotaAndOthersGoOn) {
  options_.tenant_ssd_quota_bytes = {{"other", 2 * segment_bytes()}};
  Open();
  ASSERT_TRUE(PutNumber(1, Durability::kMemory, kRootKey, "other").ok());
  const auto second = PutNumber(2, Durability::kMemory, kRootKey, "other");
  ASSERT_TRUE(second.ok());
  const Status refused = PutNumber(3, Durability::kMemory, kRootKey, "other").status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(refused.message()).find("tenant 'other'"), std::string::npos) << refused;
  EXPECT_TRUE(PutNumber(3, Durability::kMemory).ok());
  Open();  // What is stored counts again.
  EXPECT_FALSE(PutNumber(3, Durability::kMemory, kRootKey, "other").ok());
  ASSERT_TRUE(store_->DeleteSegment("other", second->key).ok());
  EXPECT_TRUE(PutNumber(3, Durability::kMemory, kRootKey, "other").ok());
}

TEST_F(PageStoreSpaceTest, AStoredSegmentThatIsPutAgainIsNotChargedAgain) {
  options_.tenant_ssd_quota_bytes = {{"default", segment_bytes()}};
  Open();
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  EXPECT_TRUE(PutNumber(1, Durability::kPersisted).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
}

/// A budget of one segment at once, and one in a second.
class WriteBudgetTest : public PageStoreSpaceTest {
 protected:
  void SetUp() override {
    options_.ssd_write_bytes_per_second = segment_bytes();
    options_.ssd_write_burst_bytes = segment_bytes();
    options_.clock = &clock_;
    Open();
  }
  quire::testing::FakeClock clock_;
};

TEST_F(WriteBudgetTest, WhatIsOverTheBudgetStaysInDramOnly) {
  const auto first = PutNumber(1, Durability::kMemory);
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Count("puts_dram_only"), 1u);
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
  EXPECT_TRUE(IsRead(*second));
  EXPECT_TRUE(store_->ReadDigests("default", second->key, 0).ok());
  EXPECT_EQ(store_->Lookup("default", spec_, second->tokens)->size(), 1u);
  EXPECT_EQ(
      store_->StatChain("default", **store_->ResolveChain("default", second->key))->segments_on_ssd,
      0u);
  clock_.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(PutNumber(3, Durability::kMemory).ok());
  EXPECT_EQ(Count("puts_dram_only"), 1u) << "the budget has filled";
}

// Promise 8: a miss costs a recompute, never a wrong answer.
TEST_F(WriteBudgetTest, Promise8ItIsGoneAfterARestartAndCanBePutAgain) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  Open();
  EXPECT_EQ(Count("segments"), 1u);
  EXPECT_EQ(store_->Lookup("default", spec_, second->tokens)->size(), 0u);
  EXPECT_EQ(ReadSegment(*store_, spec_, *second).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());
  EXPECT_TRUE(IsRead(*second));
}

TEST_F(WriteBudgetTest, ItIsGoneWhenItHasLeftDram) {
  options_.dram_bytes = 64 << 10;  // Slots for 16 extents.
  Open();
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  for (uint64_t seed = 10; seed < 20; ++seed) {
    ASSERT_TRUE(PutNumber(seed, Durability::kPersisted).ok());
  }
  const Status gone = ReadSegment(*store_, spec_, *second).status();
  EXPECT_EQ(gone.code(), StatusCode::kNotFound) << gone;
  EXPECT_EQ(store_->Lookup("default", spec_, second->tokens)->size(), 0u);
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());
  EXPECT_TRUE(IsRead(*second));
}

// Promise 3: what is acknowledged as persisted survives, and so does all that it continues.
TEST_F(WriteBudgetTest, Promise3APutThatPersistsWritesOutWhatItContinues) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());  // spends the budget
  const auto root = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(root.ok());
  const auto middle = PutNumber(3, Durability::kMemory, root->key);
  ASSERT_TRUE(middle.ok());
  ASSERT_EQ(Count("puts_dram_only"), 2u);
  const auto tip = PutNumber(4, Durability::kPersisted, middle->key);
  ASSERT_TRUE(tip.ok()) << tip.status();
  Open();
  ASSERT_TRUE(store_->ResolveChain("default", tip->key).ok());
  EXPECT_TRUE(IsRead(*root) && IsRead(*middle) && IsRead(*tip));
  EXPECT_EQ(Count("ssd_bytes_used"), 4 * segment_bytes());
}

TEST_F(WriteBudgetTest, PuttingItAgainToPersistWritesItOut) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(PutNumber(2, Durability::kPersisted).ok());
  EXPECT_EQ(Count("segments"), 2u);
  Open();
  EXPECT_TRUE(IsRead(*second));
  ASSERT_TRUE(store_->DeleteSegment("default", second->key).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
}

TEST_F(WriteBudgetTest, DeletingItGivesNothingBackThatWasNotCharged) {
  ASSERT_TRUE(PutNumber(1, Durability::kMemory).ok());
  const auto second = PutNumber(2, Durability::kMemory);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(store_->DeleteSegment("default", second->key).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), segment_bytes());
  EXPECT_EQ(Count("segments"), 1u);
}

}  // namespace
}  // namespace quire::kvserver::testing
