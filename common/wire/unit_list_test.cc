// SPDX-License-Identifier: Apache-2.0
#include "common/wire/unit_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/wire/limits.h"

namespace quire::wire {
namespace {

using namespace std::string_literals;

constexpr uint32_t kLastPage = kEndOfUnitPages - 1;

std::string Encode(const PageLists& lists) {
  std::string bytes = "what was there before";
  EncodeUnitList(lists, &bytes);
  return bytes;
}

PageLists Decode(const std::string& bytes, uint32_t heads, uint32_t max_pages) {
  PageLists lists = {{1, 2, 3}};
  const Status status = DecodeUnitList(bytes, heads, max_pages, &lists);
  EXPECT_TRUE(status.ok()) << status;
  return lists;
}

/// The error of decoding `bytes`. Expects no remaining list.
Status Refused(const std::string& bytes, uint32_t heads = 1, uint32_t max_pages = 64) {
  PageLists lists = {{1, 2, 3}};
  const Status status = DecodeUnitList(bytes, heads, max_pages, &lists);
  EXPECT_EQ(lists, PageLists()) << status;
  return status;
}

/// `count` distinct pages of [first, first + span), ascending.
std::vector<uint32_t> RandomPages(uint32_t count, uint32_t first, uint32_t span,
                                  SeededRandom& random) {
  std::set<uint32_t> pages;
  while (pages.size() < count) pages.insert(first + static_cast<uint32_t>(random.Below(span)));
  return {pages.begin(), pages.end()};
}

TEST(UnitListTest, ListsOfEveryDensitySurviveTheWay) {
  SeededRandom random(7);
  for (const uint32_t span : {1u, 2u, 9u, 64u, 65u, 1000u, 100'000u, 1u << 24, kEndOfUnitPages}) {
    PageLists lists;
    for (int head = 0; head < 20; ++head) {
      const auto count = static_cast<uint32_t>(random.Below(std::min(span, 300u) + 1));
      const auto first = static_cast<uint32_t>(random.Below(kEndOfUnitPages - span + 1));
      lists.AppendHead(RandomPages(count, first, span, random));
    }
    EXPECT_EQ(Decode(Encode(lists), 20, 300), lists) << "span " << span;
  }
}

TEST(UnitListTest, TheBytesAreThoseOfTheFormat) {
  EXPECT_EQ(Encode({{}}), "\0"s);
  EXPECT_EQ(Encode({{5}}), "\x04\x05"s);                     // 1 << 2 | deltas, first 5
  EXPECT_EQ(Encode({{5, 300}}), "\x08\x05\xa6\x02"s);        // 294 pages between them
  EXPECT_EQ(Encode({{5, 6, 8, 13}}), "\x11\x05\x01\x85"s);   // bits 0, 2 and 7 after page 5
  EXPECT_EQ(Encode({{5, 6}, {5, 6}}), "\x08\x05\x00\x02"s);  // deltas; the same again
  EXPECT_EQ(Encode({{}, {}, {kLastPage}}), "\0\2\4\xff\xff\xff\xff\x03"s);
}

TEST(UnitListTest, DenseSelectionsTakeAboutABitAPageAndRepeatedOnesAByte) {
  PageLists lists;
  lists.AppendHead();
  for (uint32_t page = 100; page < 1124; ++page) lists.Append(page);
  lists.RepeatHead();
  EXPECT_LE(Encode(lists).size(), 1024u / 8 + 8);
}

TEST(UnitListTest, PagesAtTheEndsOfTheRangeSurvive) {
  const PageLists lists = {{0, kLastPage}, {kLastPage - 1, kLastPage}, {kLastPage}, {0}};
  EXPECT_EQ(Decode(Encode(lists), 4, 2), lists);
  PageLists dense;
  dense.AppendHead();
  for (uint32_t page = kLastPage - 99; page <= kLastPage; ++page) dense.Append(page);
  EXPECT_EQ(Decode(Encode(dense), 1, 100), dense);
}

TEST(UnitListTest, ADenseFormIsReadAlsoWhereDeltasAreSmaller) {
  EXPECT_EQ(Decode("\x09\x05\x02\x00\x01"s, 1, 2), (PageLists{{5, 14}}));
}

TEST(UnitListTest, EveryTruncationAndEveryExtraByteIsRefused) {
  const PageLists lists = {{1, 5, 400}, {}, {9, 10, 11, 12, 13, 14, 22}, {}, {kLastPage}};
  const std::string bytes = Encode(lists);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsInvalidArgument(Refused(bytes.substr(0, size), 5))) << size;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Refused(bytes + '\0', 5)));
  EXPECT_TRUE(absl::IsInvalidArgument(Refused(bytes, 4)));
  EXPECT_TRUE(absl::IsInvalidArgument(Refused(bytes, 6)));
}

TEST(UnitListTest, WhatIsNotAListIsRefusedByName) {
  const std::vector<std::pair<const char*, std::string>> lies = {
      {"a number too long", "\x84\x00\x05"s},
      {"a number over 32 bits", "\xff\xff\xff\xff\x1f"s},
      {"a number that does not end", "\x80\x80\x80\x80\x80\x80"s},
      {"an unknown form", "\x07\x05"s},
      {"a repetition at the first head", "\x02"s},
      {"a repetition of a count", "\x06"s},
      {"an empty bitmap", "\x01"s},
      {"a bitmap of no bytes", "\x05\x05\x00"s},
      {"a bitmap whose last byte is 0", "\x09\x05\x02\x01\x00"s},
      {"a bitmap of too many pages", "\x09\x05\x01\x03"s},
      {"a bitmap of too few pages", "\x0d\x05\x01\x01"s},
      {"a bitmap beyond the message", "\x09\x05\x7f\x01"s},
      {"a first page out of range", "\x04\x80\x80\x80\x80\x04"s},
      {"a delta out of range", "\x08\x00\xff\xff\xff\xff\x03"s},
      {"a delta that wraps around", "\x08\x05\xff\xff\xff\xff\x0f"s},
      {"a bitmap out of range", "\x09\xff\xff\xff\xff\x03\x01\x01"s},
  };
  for (const auto& [name, bytes] : lies) {
    const Status status = Refused(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name;
    EXPECT_NE(Message(status).find("head 0"), std::string_view::npos) << name << ": " << status;
  }
}

TEST(UnitListTest, MorePagesThanAHeadMayHaveAreRefusedBeforeRoomIsMade) {
  const std::string bytes = Encode({{1, 2, 3}});
  EXPECT_TRUE(absl::IsInvalidArgument(Refused(bytes, 1, 2)));
  EXPECT_EQ(Decode(bytes, 1, 3), (PageLists{{1, 2, 3}}));
  // A count of 2^30 - 1 pages with a handful of bytes behind it.
  EXPECT_TRUE(absl::IsInvalidArgument(Refused("\xfc\xff\xff\xff\x0f\x01\x01"s, 1, UINT32_MAX)));
}

}  // namespace
}  // namespace quire::wire
