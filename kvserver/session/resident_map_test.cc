// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/resident_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/base/random.h"

namespace quire::kvserver {
namespace {

using Pages = std::vector<uint32_t>;

std::vector<Placement> Recall(ResidentMap& map, const Pages& pages) {
  map.StartRecall();
  return map.Plan(0, 0, pages);
}

TEST(ResidentMapTest, FillsEmptySlotsFromTheLowest) {
  ResidentMap map(1, 1, 4);
  EXPECT_EQ(Recall(map, {3, 9}), (std::vector<Placement>{{0, 1, 3, -1}, {1, 1, 9, -1}}));
  EXPECT_EQ(Recall(map, {1, 9}), (std::vector<Placement>{{2, 1, 1, -1}}));
}

TEST(ResidentMapTest, PlacesNothingThatIsResident) {
  ResidentMap map(1, 1, 4);
  Recall(map, {1, 2, 3, 4});
  EXPECT_TRUE(Recall(map, {1, 2, 3, 4}).empty());
  EXPECT_TRUE(Recall(map, {}).empty());
}

TEST(ResidentMapTest, ReplacesTheLeastRecentlySelectedAndNeverASelectedPage) {
  ResidentMap map(1, 1, 3);
  Recall(map, {10, 11, 12});
  Recall(map, {10, 12});
  EXPECT_EQ(Recall(map, {12, 13}), (std::vector<Placement>{{1, 2, 13, 11}}));
  EXPECT_EQ(Recall(map, {5, 12, 13}), (std::vector<Placement>{{0, 2, 5, 10}}));
}

TEST(ResidentMapTest, RollbackRestoresTheMapAndRepeatsTheSamePlan) {
  ResidentMap map(1, 1, 3);
  Recall(map, {1, 2, 3});
  map.Commit();
  const auto first = Recall(map, {2, 7, 8});
  map.Rollback();
  EXPECT_EQ(map.slots(0, 0)[0].page, 1);
  EXPECT_EQ(map.slots(0, 0)[0].generation, 1u);
  EXPECT_EQ(Recall(map, {2, 7, 8}), first);
  map.Commit();
  map.Rollback();
  EXPECT_TRUE(Recall(map, {2, 7, 8}).empty());
}

TEST(ResidentMapTest, LayersAndHeadsAreApart) {
  ResidentMap map(2, 2, 1);
  map.StartRecall();
  for (uint32_t layer = 0; layer < 2; ++layer) {
    for (uint32_t head = 0; head < 2; ++head) {
      EXPECT_EQ(map.Plan(layer, head, Pages{layer * 2 + head}).size(), 1u);
    }
  }
  EXPECT_EQ(map.slots(1, 0)[0].page, 2);
  EXPECT_EQ(map.slots(0, 1)[0].page, 1);
}

TEST(ResidentMapTest, GoesOnFromAReplacedMap) {
  ResidentMap map(1, 1, 3);
  map.Replace(0, 0, std::vector<int32_t>{-1, 8, 4}, std::vector<uint32_t>{5, 6, 7});
  EXPECT_EQ(Recall(map, {1, 4, 9}), (std::vector<Placement>{{0, 6, 1, -1}, {1, 7, 9, 8}}));
}

TEST(ResidentMapTest, AfterEveryRecallExactlyTheDiffWasPlaced) {
  SeededRandom random(5);
  for (const uint32_t slots : {1u, 2u, 7u, 64u}) {
    ResidentMap map(1, 1, slots);
    for (int round = 0; round < 500; ++round) {
      std::set<uint32_t> before;
      for (const auto& slot : map.slots(0, 0)) {
        if (slot.page >= 0) before.insert(static_cast<uint32_t>(slot.page));
      }
      std::set<uint32_t> wanted;
      for (uint64_t n = random.Below(slots + 1); n > 0; --n) {
        wanted.insert(static_cast<uint32_t>(random.Below(3 * slots)));
      }
      std::set<uint32_t> placed, missing;
      std::set_difference(wanted.begin(), wanted.end(), before.begin(), before.end(),
                          std::inserter(missing, missing.end()));
      for (const Placement& p : Recall(map, Pages(wanted.begin(), wanted.end()))) {
        EXPECT_TRUE(placed.insert(p.page).second);
        EXPECT_FALSE(p.replaced >= 0 && wanted.contains(static_cast<uint32_t>(p.replaced)));
        EXPECT_EQ(map.slots(0, 0)[p.slot].page, static_cast<int32_t>(p.page));
        EXPECT_EQ(map.slots(0, 0)[p.slot].generation, p.generation);
      }
      EXPECT_EQ(placed, missing);
      if (random.Below(4) == 0) {
        map.Rollback();
      } else {
        map.Commit();
      }
    }
  }
}

}  // namespace
}  // namespace quire::kvserver
