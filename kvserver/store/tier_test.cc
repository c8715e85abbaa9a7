// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/dram_tier.h"
#include "kvserver/store/payload/engine_choice.h"
#include "kvserver/store/policy/lru.h"
#include "kvserver/store/ssd_tier.h"
#include "kvserver/store/testing/store_kit.h"
#include "kvserver/store/testing/tier_conformance.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::TempDir;

class DramHarness final : public TierHarness {
 public:
  Tier& tier() override { return *tier_; }

 private:
  std::unique_ptr<DramTier> tier_ = DramTier::Open(4 << 20, std::make_unique<Lru>()).value();
};

class SsdHarness final : public TierHarness {
 public:
  SsdHarness() { EXPECT_TRUE(tier_.Recover().ok()); }
  Tier& tier() override { return tier_; }

 private:
  TempDir dir_;
  std::unique_ptr<Database> database_ = Database::Open({.path = dir_ / "db"}).value();
  std::unique_ptr<IoEngine> engine_ = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  std::unique_ptr<PayloadStore> payload_ =
      PayloadStore::Open(
          {.volumes = {.directory = dir_ / "payload", .volume_bytes = kTestVolumeBytes},
           .buffers = {}},
          engine_.get())
          .value();
  SsdTier tier_{database_.get(), payload_.get()};
};

template <typename Harness>
std::unique_ptr<TierHarness> Make() {
  return std::make_unique<Harness>();
}

INSTANTIATE_TEST_SUITE_P(Dram, TierConformanceTest, ::testing::Values(&Make<DramHarness>));
INSTANTIATE_TEST_SUITE_P(Ssd, TierConformanceTest, ::testing::Values(&Make<SsdHarness>));

// --- What only the DRAM tier does. The arena below has 16 slabs of one 4 KiB slot each.

class DramTierTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kArenaBytes = 16 * 4096;
  static constexpr uint64_t kSlots = 16;

  Status PutOne(const OwnedExtent& extent) {
    const ExtentView view = extent.view();
    return tier_->Put({&view, 1});
  }
  uint64_t Count(const std::string& name) { return CountersOf(*tier_)[name]; }

  std::unique_ptr<DramTier> tier_ = DramTier::Open(kArenaBytes, std::make_unique<Lru>()).value();
};

TEST_F(DramTierTest, EvictsTheLeastRecentlyUsedExtent) {
  for (uint64_t i = 0; i < kSlots; ++i) ASSERT_TRUE(PutOne({i, 0, 1, 4096}).ok());
  ASSERT_TRUE(tier_->ReadUnit({OwnedExtent::SegmentNumber(0), 0}, 0).ok());
  ASSERT_TRUE(PutOne({100, 0, 1, 4096}).ok());
  EXPECT_TRUE(*tier_->Has({OwnedExtent::SegmentNumber(0), 0}));
  EXPECT_FALSE(*tier_->Has({OwnedExtent::SegmentNumber(1), 0}));
  EXPECT_EQ(Count("dram_evictions"), 1u);
}

TEST_F(DramTierTest, EvictionWorksAroundExtentsThatReadersHold) {
  const OwnedExtent pinned(0, 0, 1, 4096);
  ASSERT_TRUE(PutOne(pinned).ok());
  const auto held = tier_->ReadUnit(pinned.id, 0);
  ASSERT_TRUE(held.ok());
  for (uint64_t i = 1; i < 5 * kSlots; ++i) ASSERT_TRUE(PutOne({i, 0, 1, 4096}).ok());
  EXPECT_TRUE(*tier_->Has(pinned.id)) << "the coldest extent, but held";
  EXPECT_TRUE(std::ranges::equal(held->slice.bytes, pinned.Unit(0)));
}

// Promise 6: nothing is unbounded; over the limit the caller gets RESOURCE_EXHAUSTED.
TEST_F(DramTierTest, Promise6WhenReadersHoldEverythingAPutIsRefusedAndChangesNothing) {
  std::vector<UnitBytes> held;
  for (uint64_t i = 0; i < kSlots; ++i) {
    ASSERT_TRUE(PutOne({i, 0, 1, 4096}).ok());
    held.push_back(tier_->ReadUnit({OwnedExtent::SegmentNumber(i), 0}, 0).value());
  }
  EXPECT_EQ(PutOne({100, 0, 1, 4096}).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Count("dram_bytes_used"), kArenaBytes);
  for (uint64_t i = 0; i < kSlots; ++i) {
    EXPECT_TRUE(*tier_->Has({OwnedExtent::SegmentNumber(i), 0}));
  }
  held.clear();
  EXPECT_TRUE(PutOne({100, 0, 1, 4096}).ok()) << "there is room when the readers are gone";
}

TEST_F(DramTierTest, APutThatDoesNotFitWholeLeavesNoneOfItsExtents) {
  const OwnedExtent pinned(0, 0, 1, 4096);
  ASSERT_TRUE(PutOne(pinned).ok());
  const auto held = tier_->ReadUnit(pinned.id, 0);
  std::vector<OwnedExtent> extents;
  for (uint64_t i = 1; i <= kSlots; ++i) extents.emplace_back(i, 0, 1, 4096);
  std::vector<ExtentView> views;
  for (const OwnedExtent& extent : extents) views.push_back(extent.view());
  EXPECT_EQ(tier_->Put(views).code(), StatusCode::kResourceExhausted);
  for (const OwnedExtent& extent : extents) EXPECT_FALSE(*tier_->Has(extent.id));
  EXPECT_EQ(Count("dram_bytes_used"), 4096u);
}

TEST_F(DramTierTest, AnExtentLargerThanASlabIsRefused) {
  EXPECT_EQ(PutOne({1, 0, 1, 3 * 4096}).code(), StatusCode::kResourceExhausted);
}

TEST_F(DramTierTest, AccountsExactlyForPutsReplacementsAndErases) {
  ASSERT_TRUE(PutOne({1, 0, 1, 100}).ok());
  ASSERT_TRUE(PutOne({1, 1, 1, 4096}).ok());
  ASSERT_TRUE(PutOne({1, 0, 1, 100, 7}).ok());
  EXPECT_EQ(Count("dram_extents"), 2u);
  EXPECT_EQ(Count("dram_bytes_used"), 2 * 4096u);
  const auto held = tier_->ReadUnit({OwnedExtent::SegmentNumber(1), 1}, 0);
  ASSERT_TRUE(tier_->Erase(OwnedExtent::SegmentNumber(1)).ok());
  EXPECT_EQ(Count("dram_extents"), 0u);
  EXPECT_EQ(Count("dram_bytes_used"), 4096u) << "what a reader holds is still in use";
}

TEST_F(DramTierTest, BytesOutliveTheTier) {
  const OwnedExtent extent(1, 0, 1, 4096);
  ASSERT_TRUE(PutOne(extent).ok());
  const auto held = tier_->ReadUnit(extent.id, 0);
  tier_.reset();
  EXPECT_TRUE(std::ranges::equal(held->slice.bytes, extent.Unit(0)));
}

TEST(DramTierSlabTest, ASpecWithoutRoomTakesOverTheColdestSlabOfAnother) {
  // 16 slabs of 16 KiB: four slots of 4 KiB or two of 8 KiB each.
  const auto tier = DramTier::Open(256 << 10, std::make_unique<Lru>()).value();
  const auto put = [&](const OwnedExtent& extent) {
    const ExtentView view = extent.view();
    return tier->Put({&view, 1});
  };
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(put({i, 0, 1, 4096}).ok());
  const auto held = tier->ReadUnit({OwnedExtent::SegmentNumber(1), 0}, 0);
  const OwnedExtent large(100, 0, 2, 4096);
  ASSERT_TRUE(put(large).ok());
  EXPECT_TRUE(*tier->Has(large.id));
  EXPECT_TRUE(*tier->Has({OwnedExtent::SegmentNumber(1), 0})) << "its slab has a reader";
  EXPECT_EQ(CountersOf(*tier)["dram_evictions"], 4u) << "one slab, no more";
  EXPECT_EQ(CountersOf(*tier)["dram_extents"], 61u);
}

TEST(ArenaTest, ASlotKeptAfterFreeNamesNothing) {
  const auto arena = Arena::Reserve(Arena::kMinBytes).value();
  const auto first = arena->Allocate(4096);
  ASSERT_TRUE(first);
  arena->Free(*first);
  const auto second = arena->Allocate(4096);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->index, first->index) << "the same place";
  EXPECT_TRUE(arena->Bytes(*first).empty());
  arena->Free(*first);
  EXPECT_EQ(arena->used_bytes(), 4096u) << "a stale slot frees nothing";
}

TEST(ArenaTest, SlotsDoNotOverlap) {
  const auto arena = Arena::Reserve(1 << 20).value();
  std::vector<std::span<std::byte>> slots;
  while (const auto slot = arena->Allocate(5000)) slots.push_back(arena->Bytes(*slot));
  EXPECT_EQ(slots.size(), 16u * (65536 / 8192));
  std::ranges::sort(slots, {}, [](const auto& slot) { return slot.data(); });
  for (size_t i = 1; i < slots.size(); ++i) {
    EXPECT_GE(slots[i].data(), slots[i - 1].data() + slots[i - 1].size());
  }
}

TEST(ArenaTest, RefusesAbsurdSizes) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1000}, uint64_t{1} << 60}) {
    const auto arena = Arena::Reserve(bytes);
    EXPECT_EQ(arena.status().code(), StatusCode::kInvalidArgument) << bytes;
    EXPECT_NE(Message(arena.status()).find("dram_bytes"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
