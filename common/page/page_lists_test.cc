// SPDX-License-Identifier: Apache-2.0
#include "quire/page_lists.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

std::vector<uint32_t> Pages(std::span<const uint32_t> pages) {
  return {pages.begin(), pages.end()};
}

TEST(PageListsTest, HeadsAreKeptApartHoweverTheyWereAdded) {
  PageLists lists = {{1, 2}, {}};
  lists.AppendHead(std::vector<uint32_t>{7});
  lists.Append(9);
  const std::span<uint32_t> room = lists.AddHead(2);
  room[0] = 3;
  room[1] = 4;
  lists.RepeatHead();
  ASSERT_EQ(lists.num_heads(), 5u);
  EXPECT_EQ(lists.num_pages(), 8u);
  EXPECT_EQ(Pages(lists.Head(0)), (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(lists.Head(1).empty());
  EXPECT_EQ(Pages(lists.Head(2)), (std::vector<uint32_t>{7, 9}));
  EXPECT_EQ(Pages(lists.Head(3)), (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(Pages(lists.Head(4)), (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(lists, (PageLists{{1, 2}, {}, {7, 9}, {3, 4}, {3, 4}}));
}

TEST(PageListsTest, TheSamePagesInOtherHeadsAreOtherLists) {
  EXPECT_NE((PageLists{{1}, {2}}), (PageLists{{1, 2}, {}}));
  EXPECT_NE(PageLists(), PageLists({{}}));
}

TEST(PageListsTest, ResetAndClearForgetThePages) {
  PageLists lists = {{1, 2}, {3}};
  lists.Reset(3);
  EXPECT_EQ(lists, (PageLists{{}, {}, {}}));
  lists.Clear();
  EXPECT_EQ(lists, PageLists());
  lists.AppendHead();
  EXPECT_EQ(lists.num_heads(), 1u);
}

}  // namespace
}  // namespace quire
