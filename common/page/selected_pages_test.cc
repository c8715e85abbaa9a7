// SPDX-License-Identifier: Apache-2.0
#include "common/page/selected_pages.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "common/base/random.h"

namespace quire {
namespace {

constexpr uint32_t kEmptySlot = UINT32_MAX;

std::vector<uint32_t> PagesBelow(uint32_t end, size_t count, SeededRandom& random) {
  std::set<uint32_t> pages;
  while (pages.size() < count) pages.insert(static_cast<uint32_t>(random.Below(end)));
  return {pages.begin(), pages.end()};
}

TEST(SelectedPagesTest, EachIsFoundOnceHoweverFarApartTheyLie) {
  constexpr uint64_t kSeed = 20261123;
  SeededRandom random(kSeed);
  SelectedPages selected;
  for (const uint32_t end : {100u, 5000u, 1u << 30}) {
    for (int round = 0; round < 50; ++round) {
      SCOPED_TRACE(testing::Message() << "seed " << kSeed << " end " << end << " round " << round);
      const std::vector<uint32_t> pages = PagesBelow(end, random.Below(80), random);
      const std::vector<uint32_t> slots = PagesBelow(end, 80, random);
      std::set<uint32_t> missing(pages.begin(), pages.end());
      selected.Reset(pages);
      EXPECT_FALSE(selected.Find(kEmptySlot));
      for (const uint32_t slot : slots) EXPECT_EQ(selected.Find(slot), missing.erase(slot) > 0);
      for (const uint32_t page : pages) {
        if (random.Below(2) == 0) continue;
        EXPECT_EQ(selected.Find(page), missing.erase(page) > 0);
      }
      for (size_t i = 0; i < pages.size(); ++i) {
        EXPECT_EQ(selected.IsMissing(i), missing.contains(pages[i]));
      }
    }
  }
}

}  // namespace
}  // namespace quire
