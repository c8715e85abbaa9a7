// SPDX-License-Identifier: Apache-2.0
#include "common/page/slot_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/base/random.h"

namespace quire {
namespace {

using ::testing::ElementsAre;

/// A placement of one head.
struct Placed {
  uint32_t slot, generation, page;
  int32_t replaced;
  friend bool operator==(const Placed&, const Placed&) = default;
};

class Map {
 public:
  Map(uint32_t heads, uint32_t slots) : map(heads, slots) {}
  PlacedUnits Recall(const PageLists& pages) {
    map.Commit();
    map.Plan(pages, scratch_, &placed_);
    return placed_;
  }
  /// Recalls pages of a map with one head.
  std::vector<Placed> RecallHead(std::vector<uint32_t> pages) {
    PageLists lists;
    lists.AppendHead(pages);
    const PlacedUnits placed = Recall(lists);
    std::vector<Placed> units;
    for (size_t i = 0; i < placed.size(); ++i) {
      units.push_back(
          {placed.slots[i], placed.generations[i], placed.pages[i], placed.replaced[i]});
    }
    return units;
  }

  SlotMap map;

 private:
  SlotMap::Scratch scratch_;
  PlacedUnits placed_;
};

TEST(SlotMapTest, FillsEmptySlotsFromTheLowest) {
  Map map(1, 4);
  EXPECT_THAT(map.RecallHead({3, 9}), ElementsAre(Placed{0, 1, 3, -1}, Placed{1, 1, 9, -1}));
  EXPECT_THAT(map.RecallHead({1, 9}), ElementsAre(Placed{2, 1, 1, -1}));
}

TEST(SlotMapTest, PlacesNothingThatIsResident) {
  Map map(1, 4);
  map.RecallHead({1, 2, 3, 4});
  EXPECT_TRUE(map.RecallHead({1, 2, 3, 4}).empty());
  EXPECT_TRUE(map.RecallHead({}).empty());
}

TEST(SlotMapTest, ReplacesTheLeastRecentlySelectedAndNeverASelectedPage) {
  Map map(1, 3);
  map.RecallHead({10, 11, 12});
  map.RecallHead({10, 12});
  EXPECT_THAT(map.RecallHead({12, 13}), ElementsAre(Placed{1, 2, 13, 11}));
  EXPECT_THAT(map.RecallHead({5, 12, 13}), ElementsAre(Placed{0, 2, 5, 10}));
}

TEST(SlotMapTest, RollbackRestoresEverySlot) {
  Map map(1, 3);
  map.RecallHead({1, 2, 3});
  const auto first = map.RecallHead({2, 7, 8});
  map.map.Rollback();
  EXPECT_EQ(map.map.slots(0)[0].page, 1);
  EXPECT_EQ(map.map.slots(0)[0].generation, 1u);
  EXPECT_EQ(map.RecallHead({2, 7, 8}), first);
  map.map.Commit();
  map.map.Rollback();
  EXPECT_TRUE(map.RecallHead({2, 7, 8}).empty());
}

TEST(SlotMapTest, HeadsAreApart) {
  Map map(3, 2);
  const PlacedUnits placed = map.Recall({{0, 5}, {}, {1}});
  EXPECT_THAT(placed.counts, ElementsAre(2, 0, 1));
  EXPECT_THAT(placed.pages, ElementsAre(0, 5, 1));
  EXPECT_THAT(placed.slots, ElementsAre(0, 1, 0));
  EXPECT_EQ(map.map.slots(2)[0].page, 1);
  EXPECT_EQ(map.map.slots(1)[0].page, -1);
}

TEST(SlotMapTest, GoesOnFromAReplacedMapAndFromAClearedOne) {
  Map map(1, 3);
  map.RecallHead({20});
  map.map.Replace(std::vector<int32_t>{-1, 8, 4}, std::vector<uint32_t>{5, 6, 7});
  EXPECT_THAT(map.RecallHead({1, 4, 9}), ElementsAre(Placed{0, 6, 1, -1}, Placed{1, 7, 9, 8}));
  map.map.Clear();
  map.map.Rollback();
  EXPECT_THAT(map.RecallHead({4}), ElementsAre(Placed{0, 1, 4, -1}));
}

TEST(SlotMapTest, HoldsPagesOfTheHighestMember) {
  Map map(1, 2);
  constexpr uint32_t kLast = 63u << 24 | 0xffffff;
  EXPECT_THAT(map.RecallHead({0, kLast}),
              ElementsAre(Placed{0, 1, 0, -1}, Placed{1, 1, kLast, -1}));
  EXPECT_THAT(map.RecallHead({7, kLast}), ElementsAre(Placed{0, 2, 7, 0}));
}

TEST(SlotMapTest, AfterEveryRecallExactlyTheDiffWasPlaced) {
  SeededRandom random(5);
  for (const uint32_t slots : {1u, 2u, 7u, 64u, 1000u}) {
    Map map(1, slots);
    for (int round = 0; round < 300; ++round) {
      std::set<uint32_t> before;
      for (const auto& slot : map.map.slots(0)) {
        if (slot.page >= 0) before.insert(static_cast<uint32_t>(slot.page));
      }
      std::set<uint32_t> wanted;
      for (uint64_t n = random.Below(slots + 1); n > 0; --n) {
        wanted.insert(static_cast<uint32_t>(random.Below(3 * slots)));
      }
      std::set<uint32_t> placed, missing;
      std::set_difference(wanted.begin(), wanted.end(), before.begin(), before.end(),
                          std::inserter(missing, missing.end()));
      for (const Placed& p : map.RecallHead({wanted.begin(), wanted.end()})) {
        EXPECT_TRUE(placed.insert(p.page).second);
        EXPECT_FALSE(p.replaced >= 0 && wanted.contains(static_cast<uint32_t>(p.replaced)));
        EXPECT_EQ(map.map.slots(0)[p.slot].page, static_cast<int32_t>(p.page));
        EXPECT_EQ(map.map.slots(0)[p.slot].generation, p.generation);
      }
      EXPECT_EQ(placed, missing);
      if (random.Below(4) == 0) map.map.Rollback();
    }
  }
}

}  // namespace
}  // namespace quire
