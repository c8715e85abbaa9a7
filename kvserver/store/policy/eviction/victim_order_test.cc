// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/victim_order.h"

#include <gtest/gtest.h>

#include <array>

#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

class VictimOrderTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kExtents = 100;

  VictimOrderTest() {
    for (uint64_t i = 0; i < kExtents; ++i) {
      ids_[i] = ExtentNumber(i);
      places_[i] = {.priority = static_cast<double>(i), .turn = i, .id = &ids_[i]};
      order_.Insert(places_[i]);
    }
  }

  std::array<ExtentId, kExtents> ids_;
  std::array<VictimOrder::Place, kExtents> places_;
  VictimOrder order_;
};

TEST_F(VictimOrderTest, TheLowestPriorityIsFirstAndOfEqualsTheOnePlacedFirst) {
  EXPECT_EQ(order_.First(AnyExtent), &ids_[0]);
  order_.Erase(places_[0]);
  places_[0].priority = 1;  // as much as extent 1, whose turn was later
  order_.Insert(places_[0]);
  EXPECT_EQ(order_.First(AnyExtent), &ids_[0]);
}

TEST_F(VictimOrderTest, WhatIsMovedStandsAtItsNewPlaceAlsoWhenItWasAside) {
  EXPECT_EQ(order_.First([&](const ExtentId& id) { return id == ids_[1]; }), &ids_[1]);
  VictimOrder::Place to = places_[0];  // aside now
  to.priority = 1.5;
  order_.Move(places_[0], to);
  to = places_[1];
  to.priority = 1.7;
  order_.Move(places_[1], to);
  EXPECT_EQ(order_.First(AnyExtent), &ids_[0]);
  order_.Erase({.priority = 1.5, .turn = 0, .id = &ids_[0]});
  EXPECT_EQ(order_.First(AnyExtent), &ids_[1]);
}

TEST_F(VictimOrderTest, WhatIsRefusedIsAskedAgainAFewAtATimeInTurn) {
  std::vector<uint64_t> asked;
  const auto only_last = [&](const ExtentId& id) {
    asked.push_back(NumberOf(id));
    return NumberOf(id) == kExtents - 1;
  };
  EXPECT_EQ(order_.First(only_last), &ids_[kExtents - 1]);
  EXPECT_EQ(asked.size(), kExtents);
  std::set<uint64_t> again;
  for (uint64_t search = 0; search < kExtents / kAskedAgain + 1; ++search) {
    asked.clear();
    EXPECT_EQ(order_.First(only_last), &ids_[kExtents - 1]);
    EXPECT_EQ(asked.size(), kAskedAgain + 1u);
    again.insert(asked.begin(), asked.end());
  }
  EXPECT_EQ(again.size(), kExtents) << "all of them had their turn";
}

TEST_F(VictimOrderTest, WhatIsAsideCanBeErasedAndFound) {
  const auto none = [](const ExtentId&) { return false; };
  EXPECT_EQ(order_.First(none), nullptr);
  order_.Erase(places_[3]);
  const auto three_or_five = [](const ExtentId& id) {
    return NumberOf(id) == 3 || NumberOf(id) == 5;
  };
  EXPECT_EQ(order_.FirstAside(none), nullptr);
  EXPECT_EQ(order_.FirstAside(three_or_five), &ids_[5]);
}

}  // namespace
}  // namespace quire::kvserver::testing
