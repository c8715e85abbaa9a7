// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/context/page_use_table.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace quire::kvserver {
namespace {

SegmentKey Tip(uint8_t number) { return {.bytes = {number}}; }

TEST(PageUseTableTest, CountsByPageAndTenant) {
  PageUseTable uses;
  const auto use = uses.Of("a", Tip(1), 3);
  use->Add(0);
  use->Add(2);
  use->Add(2);
  use->Add(3);  // A page that a question appends.
  EXPECT_EQ(uses.Counts("a", Tip(1)), (std::vector<uint32_t>{1, 0, 2}));
  EXPECT_EQ(uses.Of("a", Tip(1), 3), use);
  EXPECT_TRUE(uses.Counts("b", Tip(1)).empty());
  EXPECT_TRUE(uses.Counts("a", Tip(2)).empty());
}

TEST(PageUseTableTest, ChainsOpenedLongestAgoGoUnlessTheyAreInUse) {
  PageUseTable uses(/*most_pages=*/10);
  const auto kept = uses.Of("a", Tip(1), 4);
  uses.Of("a", Tip(2), 3);
  uses.Of("a", Tip(3), 3);
  uses.Of("a", Tip(2), 3);  // Opened again: 3 is the older one now.
  EXPECT_NE(uses.Of("a", Tip(4), 3), nullptr);
  EXPECT_EQ(uses.Counts("a", Tip(1)).size(), 4u);
  EXPECT_EQ(uses.Counts("a", Tip(2)).size(), 3u);
  EXPECT_TRUE(uses.Counts("a", Tip(3)).empty());
  EXPECT_EQ(uses.Of("a", Tip(5), 7), nullptr) << "its uses do not count beside the one in use";
  EXPECT_NE(uses.Of("a", Tip(5), 6), nullptr);
}

TEST(PageUseTableTest, ManyMayCountAtOnce) {
  PageUseTable uses;
  const auto use = uses.Of("a", Tip(1), 2);
  constexpr uint32_t kTimes = 10000;
  std::vector<std::thread> threads;
  for (uint32_t page = 0; page < 2; ++page) {
    threads.emplace_back([&use, page] {
      for (uint32_t i = 0; i < kTimes; ++i) use->Add(page);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(uses.Counts("a", Tip(1)), (std::vector<uint32_t>{kTimes, kTimes}));
}

}  // namespace
}  // namespace quire::kvserver
