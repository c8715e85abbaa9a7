// SPDX-License-Identifier: Apache-2.0
//
// Behaviour of only the DRAM tier: batch reads, eviction around held extents, pins, quotas and
// watermarks. Unless said otherwise the arena has 16 slabs of one 4 KiB slot each.
#include "kvserver/store/dram/dram_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "common/base/retry_hint.h"
#include "kvserver/store/policy/eviction/lru.h"
#include "kvserver/store/policy/eviction/pgdsf.h"
#include "kvserver/store/testing/owned_extent.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/same_bytes.h"

namespace quire::kvserver::testing {
namespace {

constexpr uint64_t kSlots = 16;
constexpr uint64_t kSlotBytes = 4096;

class DramTierTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(std::make_unique<Lru>()); }
  void Open(std::unique_ptr<EvictionPolicy> policy) {
    tier_ = DramTier::Open(options_, std::move(policy)).value();
  }
  static ExtentId Id(uint64_t segment, uint32_t layer = 0) {
    return {OwnedExtent::SegmentNumber(segment), layer};
  }
  Status PutOne(const OwnedExtent& extent, std::string_view tenant = "") {
    ExtentView view = extent.view();
    view.tenant = tenant;
    return tier_->Put({&view, 1});
  }
  Status PutSlot(uint64_t segment, std::string_view tenant = "") {
    return PutOne({segment, 0, 1, kSlotBytes}, tenant);
  }
  bool Has(uint64_t segment) { return tier_->Has(Id(segment)); }
  void Fill() {
    for (uint64_t i = 0; i < kSlots; ++i) ASSERT_TRUE(PutSlot(i).ok());
  }
  /// Puts enough to evict every free extent several times.
  void TurnOver() {
    for (uint64_t i = 1000; i < 1000 + 5 * kSlots; ++i) ASSERT_TRUE(PutSlot(i).ok());
  }
  uint64_t Count(const std::string& name) { return CountersOf(*tier_)[name]; }

  DramTier::Options options_{.memory = {.bytes = kSlots * kSlotBytes}};
  std::unique_ptr<DramTier> tier_;
};

// --- Reads.

TEST_F(DramTierTest, ABatchHandsOutWhatIsThereInPlaceAndLeavesTheRestEmpty) {
  const OwnedExtent a(1, 0, 4, 1024), b(1, 1, 4, 1024), c(2, 0, 2, 1024);
  for (const OwnedExtent* extent : {&a, &b, &c}) ASSERT_TRUE(PutOne(*extent, "t").ok());
  const std::vector<UnitAddress> units = {
      {a.id.segment, 0, 3}, {a.id.segment, 1, 0},
      {a.id.segment, 2, 0},  // no such layer
      {a.id.segment, 0, 4},  // no such unit
      {c.id.segment, 0, 1}, {OwnedExtent::SegmentNumber(9), 0, 0}};
  std::vector<UnitBytes> out(units.size());
  EXPECT_EQ(tier_->ReadUnits("t", units, out), 3u);
  EXPECT_TRUE(quire::testing::SameBytes(out[0].ToSend().slice.bytes, a.Unit(3)));
  EXPECT_TRUE(quire::testing::SameBytes(out[1].ToSend().slice.bytes, b.Unit(0)));
  EXPECT_TRUE(quire::testing::SameBytes(out[4].ToSend().slice.bytes, c.Unit(1)));
  EXPECT_EQ(out[4].crc32c(), c.crcs[1]);
  for (const size_t miss : {2, 3, 5}) EXPECT_TRUE(out[miss].empty());
  const auto again = tier_->ReadUnit(a.id, 3);
  EXPECT_EQ(again->ToSend().slice.bytes.data(), out[0].ToSend().slice.bytes.data()) << "no copy";
  EXPECT_EQ(Count("dram_unit_hits"), 4u);
  EXPECT_EQ(Count("dram_unit_misses"), 3u);
}

// Promise 7: tenants never share segments.
TEST_F(DramTierTest, Promise7ABatchOfAnotherTenantFindsNothing) {
  ASSERT_TRUE(PutSlot(1, "owner").ok());
  std::vector<UnitBytes> out(1);
  const UnitAddress unit{OwnedExtent::SegmentNumber(1), 0, 0};
  EXPECT_EQ(tier_->ReadUnits("other", {&unit, 1}, out), 0u);
  EXPECT_TRUE(out[0].empty());
  EXPECT_EQ(tier_->ReadUnits("owner", {&unit, 1}, out), 1u);
}

TEST_F(DramTierTest, AMissEmptiesWhatStoodInItsPlace) {
  ASSERT_TRUE(PutSlot(1).ok());
  std::vector<UnitBytes> out = {tier_->ReadUnit(Id(1), 0).value()};
  const UnitAddress missing{OwnedExtent::SegmentNumber(2), 0, 0};
  EXPECT_EQ(tier_->ReadUnits("", {&missing, 1}, out), 0u);
  EXPECT_TRUE(out[0].empty());
  EXPECT_EQ(out[0].ToSend().slice.owner, nullptr);
}

TEST_F(DramTierTest, ReadsWithoutAnyPutReachThePolicy) {
  Fill();
  std::vector<UnitBytes> out(1);
  const UnitAddress unit{OwnedExtent::SegmentNumber(0), 0, 0};
  for (uint32_t i = 0; i < 10 * DramIndex::kNotes; ++i) {
    ASSERT_EQ(tier_->ReadUnits("", {&unit, 1}, out), 1u);
  }
  out.clear();
  EXPECT_EQ(Count("dram_notes_dropped"), 0u);
  ASSERT_TRUE(PutSlot(100).ok());
  EXPECT_TRUE(Has(0));
  EXPECT_FALSE(Has(1));
}

TEST_F(DramTierTest, BatchesReadWholeUnitsWhileExtentsComeAndGo) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 0; i < 3000; ++i) {
      EXPECT_TRUE(PutOne({i % 40, 0, 4, 1024, i % 3}).ok());
      if (i % 7 == 0) {
        tier_->Erase(OwnedExtent::SegmentNumber(i % 40));
      }
    }
    stop = true;
  });
  std::vector<UnitAddress> units;
  for (uint64_t segment = 0; segment < 8; ++segment) {
    for (uint32_t unit = 0; unit < 4; ++unit) {
      units.push_back({OwnedExtent::SegmentNumber(segment), 0, unit});
    }
  }
  std::vector<UnitBytes> out(units.size());
  while (!stop) {
    tier_->ReadUnits("", units, out);
    for (const UnitBytes& unit : out) {
      if (unit.empty()) continue;
      ASSERT_EQ(Crc32c(unit.ToSend().slice.bytes), unit.crc32c());
    }
    out.assign(units.size(), {});
  }
  writer.join();
}

// --- Eviction.

TEST_F(DramTierTest, EvictsTheLeastRecentlyUsedExtent) {
  Fill();
  ASSERT_TRUE(tier_->ReadUnit(Id(0), 0).ok());
  ASSERT_TRUE(PutSlot(100).ok());
  EXPECT_TRUE(Has(0));
  EXPECT_FALSE(Has(1));
  EXPECT_EQ(Count("dram_evictions"), 1u);
}

TEST_F(DramTierTest, EvictionWorksAroundExtentsThatReadersHold) {
  const OwnedExtent held_extent(0, 0, 1, kSlotBytes);
  ASSERT_TRUE(PutOne(held_extent).ok());
  const auto held = tier_->ReadUnit(held_extent.id, 0);
  ASSERT_TRUE(held.ok());
  TurnOver();
  EXPECT_TRUE(Has(0)) << "the coldest extent, but held";
  EXPECT_TRUE(quire::testing::SameBytes(held->ToSend().slice.bytes, held_extent.Unit(0)));
}

// Promise 6: nothing is unbounded. Over the limit the caller gets RESOURCE_EXHAUSTED.
TEST_F(DramTierTest, Promise6WhenReadersHoldEverythingAPutIsRefusedAndChangesNothing) {
  std::vector<UnitBytes> held;
  for (uint64_t i = 0; i < kSlots; ++i) {
    ASSERT_TRUE(PutSlot(i).ok());
    held.push_back(tier_->ReadUnit(Id(i), 0).value());
  }
  const Status refused = PutSlot(100);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(refused).has_value());
  EXPECT_EQ(Count("dram_bytes_used"), kSlots * kSlotBytes);
  for (uint64_t i = 0; i < kSlots; ++i) EXPECT_TRUE(Has(i));
  held.clear();
  EXPECT_TRUE(PutSlot(100).ok()) << "there is room when the readers are gone";
}

TEST_F(DramTierTest, APutThatDoesNotFitWholeLeavesNoneOfItsExtents) {
  ASSERT_TRUE(PutSlot(0).ok());
  const auto held = tier_->ReadUnit(Id(0), 0);
  std::vector<OwnedExtent> extents;
  for (uint64_t i = 1; i <= kSlots; ++i) extents.emplace_back(i, 0, 1, kSlotBytes);
  std::vector<ExtentView> views;
  for (const OwnedExtent& extent : extents) views.push_back(extent.view());
  EXPECT_EQ(tier_->Put(views).code(), StatusCode::kResourceExhausted);
  for (const OwnedExtent& extent : extents) EXPECT_FALSE(tier_->Has(extent.id));
  EXPECT_EQ(Count("dram_bytes_used"), kSlotBytes);
}

TEST_F(DramTierTest, ReservedRoomIsSeenByNobodyUntilItIsPublished) {
  const OwnedExtent extent(1, 0, 4, 1024);
  const ExtentView view = extent.view();
  {
    DramTier::Room room = tier_->Reserve({&view, 1});
    ASSERT_TRUE(room.refusal().ok());
    std::ranges::copy(extent.bytes, room.bytes(0).begin());
    EXPECT_FALSE(Has(1));
    EXPECT_EQ(Count("dram_bytes_used"), kSlotBytes);
    tier_->Publish({&view, 1}, std::move(room));
  }
  const auto unit = tier_->ReadUnit(extent.id, 3);
  ASSERT_TRUE(unit.ok()) << unit.status();
  EXPECT_TRUE(quire::testing::SameBytes(unit->Verify()->bytes(), extent.Unit(3)));
}

TEST_F(DramTierTest, RoomThatIsNotPublishedGoesBackWithItsCharge) {
  options_.tenant_quota_bytes = 2 * kSlotBytes;
  Open(std::make_unique<Lru>());
  std::vector<OwnedExtent> extents;
  std::vector<ExtentView> views;
  for (uint32_t layer = 0; layer < 3; ++layer) extents.emplace_back(1, layer, 1, kSlotBytes);
  for (const OwnedExtent& extent : extents) views.push_back(extent.view());
  {
    const DramTier::Room room = tier_->Reserve(views);
    EXPECT_EQ(room.refusal().code(), StatusCode::kResourceExhausted);
    EXPECT_FALSE(room.bytes(1).empty()) << "what the quota has room for";
    EXPECT_TRUE(room.bytes(2).empty());
    EXPECT_FALSE(tier_->Reserve(views).refusal().ok()) << "it is reserved";
  }
  EXPECT_EQ(Count("dram_bytes_used"), 0u);
  EXPECT_TRUE(tier_->Reserve(std::span(views).first(2)).refusal().ok());
}

TEST_F(DramTierTest, AnExtentLargerThanASlabIsRefused) {
  EXPECT_EQ(PutOne({1, 0, 1, 3 * kSlotBytes}).code(), StatusCode::kResourceExhausted);
}

TEST_F(DramTierTest, AccountsExactlyForPutsReplacementsAndErases) {
  ASSERT_TRUE(PutOne({1, 0, 1, 100}).ok());
  ASSERT_TRUE(PutOne({1, 1, 1, 4096}).ok());
  ASSERT_TRUE(PutOne({1, 0, 1, 100, 7}).ok());
  EXPECT_EQ(Count("dram_extents"), 2u);
  EXPECT_EQ(Count("dram_bytes_used"), 2 * kSlotBytes);
  EXPECT_EQ(Count("dram_bytes_payload"), 4196u);
  EXPECT_EQ(Count("dram_slots_used{slot_bytes=\"4096\"}"), 2u);
  EXPECT_EQ(Count("dram_slabs{slot_bytes=\"4096\"}"), 2u);
  const auto held = tier_->ReadUnit(Id(1, 1), 0);
  tier_->Erase(Id(1).segment);
  EXPECT_EQ(Count("dram_extents"), 0u);
  EXPECT_EQ(Count("dram_bytes_payload"), 0u);
  EXPECT_EQ(Count("dram_bytes_used"), kSlotBytes) << "what a reader holds is still in use";
}

TEST_F(DramTierTest, BytesOutliveTheTier) {
  const OwnedExtent extent(1, 0, 1, kSlotBytes);
  ASSERT_TRUE(PutOne(extent).ok());
  const auto held = tier_->ReadUnit(extent.id, 0);
  tier_.reset();
  EXPECT_TRUE(quire::testing::SameBytes(held->ToSend().slice.bytes, extent.Unit(0)));
}

TEST_F(DramTierTest, ASpecWithoutRoomTakesOverTheColdestSlabOfAnother) {
  options_.memory.bytes = 256 << 10;  // 16 slabs: four slots of 4 KiB or two of 8 KiB each
  Open(std::make_unique<Lru>());
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(PutSlot(i).ok());
  const auto held = tier_->ReadUnit(Id(1), 0);
  ASSERT_TRUE(PutOne({100, 0, 2, kSlotBytes}).ok());
  EXPECT_TRUE(Has(100));
  EXPECT_TRUE(Has(1)) << "its slab has a reader";
  EXPECT_EQ(Count("dram_evictions"), 4u) << "one slab, no more";
  EXPECT_EQ(Count("dram_extents"), 61u);
}

TEST_F(DramTierTest, ThePolicyIsToldWhatAnExtentCostAndWhatItContinues) {
  Open(std::make_unique<Pgdsf>());
  const auto put = [&](uint64_t segment, uint64_t parent, double cost) {
    const OwnedExtent extent(segment, 0, 1, kSlotBytes);
    ExtentView view = extent.view();
    view.parent = OwnedExtent::SegmentNumber(parent);
    view.seconds_per_token = cost;
    ASSERT_TRUE(tier_->Put({&view, 1}).ok());
  };
  put(1, 0, 1e-6);  // cheap, but continued by the next
  put(2, 1, 1);
  for (uint64_t i = 3; i <= kSlots; ++i) put(i, 0, i == 9 ? 0.1 : 2);
  ASSERT_TRUE(PutSlot(100).ok());
  EXPECT_FALSE(Has(9)) << "the cheapest leaf";
  EXPECT_TRUE(Has(1));
}

TEST_F(DramTierTest, AboveTheHighMarkExtentsLeaveDownToTheLowOne) {
  options_.high_watermark = 0.75;
  options_.low_watermark = 0.5;
  Open(std::make_unique<Lru>());
  for (uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(PutSlot(i).ok());
  EXPECT_EQ(Count("dram_evictions"), 0u);
  ASSERT_TRUE(PutSlot(12).ok());
  EXPECT_EQ(Count("dram_bytes_used"), 8 * kSlotBytes);
  EXPECT_FALSE(Has(4));
  EXPECT_TRUE(Has(5));
}

TEST_F(DramTierTest, MarksThatMakeNoSenseAreRefused) {
  options_.high_watermark = 0.5;
  options_.low_watermark = 0.7;
  EXPECT_EQ(DramTier::Open(options_, std::make_unique<Lru>()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DramTierTest, RefusesMalformedExtentsAndHoldsNoneOfThePut) {
  const OwnedExtent good(1, 0, 2, 64), bad(2, 0, 3, 64);
  ExtentView ragged = bad.view(), empty = bad.view(), oversized = bad.view();
  ragged.bytes = ragged.bytes.first(100);
  empty.unit_crc32c = {};
  oversized.full_bytes = 64;
  for (const ExtentView& view : {ragged, empty, oversized}) {
    const std::vector<ExtentView> views = {good.view(), view};
    EXPECT_EQ(tier_->Put(views).code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(tier_->Has(good.id));
    EXPECT_FALSE(tier_->Has(bad.id));
  }
}

// --- Pins.

TEST_F(DramTierTest, APinnedSegmentStaysUntilItIsUnpinnedAsOften) {
  ASSERT_TRUE(PutSlot(1).ok());
  ASSERT_TRUE(tier_->Pin(Id(1).segment, kSlotBytes).ok());
  ASSERT_TRUE(tier_->Pin(Id(1).segment, kSlotBytes).ok());
  TurnOver();
  EXPECT_TRUE(Has(1));
  ASSERT_TRUE(tier_->Unpin(Id(1).segment).ok());
  TurnOver();
  EXPECT_TRUE(Has(1));
  ASSERT_TRUE(tier_->Unpin(Id(1).segment).ok());
  TurnOver();
  EXPECT_FALSE(Has(1));
  EXPECT_EQ(tier_->Unpin(Id(1).segment).code(), StatusCode::kNotFound);
}

TEST_F(DramTierTest, Promise6PinsHoldNoMoreThanTheirShare) {
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(PutSlot(i).ok());
    ASSERT_TRUE(tier_->Pin(Id(i).segment, kSlotBytes).ok());
  }
  EXPECT_EQ(tier_->Pin(Id(8).segment, kSlotBytes).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Count("dram_bytes_pinned"), 8 * kSlotBytes);
  tier_->Erase(Id(0).segment);
  EXPECT_EQ(Count("dram_bytes_pinned"), 7 * kSlotBytes) << "an erased segment has no pins";
}

// --- Quotas.

TEST_F(DramTierTest, ATenantAtItsQuotaEvictsItsOwnAndNeverAnothers) {
  options_.tenant_quotas["small"] = 4 * kSlotBytes;
  Open(std::make_unique<Lru>());
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(PutSlot(i, "other").ok());
  for (uint64_t i = 10; i < 30; ++i) ASSERT_TRUE(PutSlot(i, "small").ok());
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(Has(i)) << "colder, but another's";
  EXPECT_EQ(Count("dram_bytes_used"), 8 * kSlotBytes);
  EXPECT_FALSE(Has(25));
  EXPECT_TRUE(Has(26));
}

TEST_F(DramTierTest, Promise6ATenantWhoseOwnExtentsAreHeldIsRefusedAtItsQuota) {
  options_.tenant_quota_bytes = 2 * kSlotBytes;
  Open(std::make_unique<Lru>());
  std::vector<UnitBytes> held;
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(PutSlot(i, "a").ok());
    held.push_back(tier_->ReadUnit(Id(i), 0).value());
  }
  const Status refused = PutSlot(2, "a");
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfter(refused).has_value());
  EXPECT_EQ(Count("dram_quota_refused"), 1u);
  EXPECT_TRUE(PutSlot(3, "b").ok()) << "there is room for others";
  held.clear();
  EXPECT_TRUE(PutSlot(2, "a").ok());
}

TEST_F(DramTierTest, AnExtentLargerThanTheQuotaEvictsNothing) {
  options_.memory.bytes = 1 << 20;
  options_.tenant_quota_bytes = 2 * kSlotBytes;
  Open(std::make_unique<Lru>());
  ASSERT_TRUE(PutSlot(1, "a").ok());
  EXPECT_EQ(PutOne({2, 0, 3, kSlotBytes}, "a").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Has(1));
}

TEST_F(DramTierTest, QuotasAreGivenBackWithEvictionEraseAndRefusal) {
  options_.tenant_quota_bytes = 4 * kSlotBytes;
  Open(std::make_unique<Lru>());
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(PutSlot(i, "a").ok());
  for (uint64_t i = 0; i < 4; ++i) tier_->Erase(Id(i).segment);
  const auto fill_other = [&](uint64_t first, const std::string& tenant) {
    for (uint64_t i = first; i < first + 4; ++i) ASSERT_TRUE(PutSlot(i, tenant).ok());
  };
  fill_other(10, "b");
  fill_other(20, "c");
  fill_other(30, "d");
  fill_other(40, "e");
  // The arena is full and everything is held: a's put is refused without a charge.
  std::vector<UnitBytes> held;
  for (const uint64_t first : {10, 20, 30, 40}) {
    for (uint64_t i = first; i < first + 4; ++i) {
      held.push_back(tier_->ReadUnit(Id(i), 0).value());
    }
  }
  for (int i = 0; i < 10; ++i) ASSERT_FALSE(PutSlot(50, "a").ok());
  EXPECT_EQ(Count("dram_quota_refused"), 0u);
  held.clear();
  fill_other(50, "a");
  EXPECT_EQ(Count("dram_quota_refused"), 0u);
}

}  // namespace
}  // namespace quire::kvserver::testing
