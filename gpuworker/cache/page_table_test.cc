// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/page_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/base/random.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CacheLayout kBudget{.sink_pages = 1, .window_pages = 2, .selectable_pages = 2};

PageTable TableWithPages(const CacheLayout& layout, uint32_t pages) {
  PageTable table(layout, 4, 2);
  table.StartAt(uint64_t{pages} * 4);
  return table;
}

TEST(PageTableTest, WindowCountsTheOpenPageAndExcludesSinks) {
  PageTable table(kBudget, 4, 2);
  EXPECT_EQ(table.num_pages(), 0u);
  table.StartAt(5);  // Page 0 is the sink, page 1 is open.
  EXPECT_EQ(table.sinks(), (PageRange{0, 1}));
  EXPECT_EQ(table.window(), (PageRange{1, 2}));
  EXPECT_EQ(table.candidates().size(), 0u);
  table.StartAt(17);  // Pages 0..4, page 4 is open.
  EXPECT_EQ(table.window(), (PageRange{3, 5}));
  EXPECT_EQ(table.candidates(), (PageRange{1, 3}));
}

TEST(PageTableTest, APageThatLeavesTheWindowBecomesACandidateAtTheNextPageOnly) {
  PageTable table(kBudget, 4, 2);
  table.StartAt(12);  // Three complete pages, no open one.
  EXPECT_EQ(table.candidates().size(), 0u);
  table.AppendToken();
  EXPECT_EQ(table.candidates(), (PageRange{1, 2}));
}

// Units of a layer may come before its token, which then takes their page out of the window.
TEST(PageTableTest, AnExpectedTokenHasTheCandidatesThatItWillHave) {
  for (const bool whole : {false, true}) {
    SCOPED_TRACE(whole);
    PageTable table(kBudget, 4, 2);
    table.SetWhole(whole);
    table.StartAt(12);
    table.ExpectToken();
    EXPECT_EQ(table.candidates(), (PageRange{1, 2}));
    EXPECT_EQ(table.window(), (PageRange{1, 3}));
    if (!whole) ASSERT_TRUE(table.Place({.head = 0, .index = 0, .generation = 1, .page = 1}).ok());
    ASSERT_TRUE(table.Activate(0, std::vector<uint32_t>{1}).ok());
    table.AppendToken();
    EXPECT_EQ(table.candidates(), (PageRange{1, 2}));
    EXPECT_EQ(table.AttendedTokens(0), 13u);
    EXPECT_EQ(table.AttendedTokens(1), 9u);
    for (int i = 0; i < 3; ++i) table.AppendToken();
    EXPECT_EQ(table.candidates(), (PageRange{1, 2})) << "nothing is expected";
  }
}

TEST(PageTableTest, HoldingEverythingMapsPagesToSlotsOneToOne) {
  PageTable table({.everything = true}, 4, 2);
  for (uint32_t i = 0; i < 10; ++i) {
    const TokenPlace place = table.AppendToken();
    EXPECT_EQ(place.slot, i / 4);
    EXPECT_EQ(place.row, i % 4);
  }
  EXPECT_EQ(table.num_slots(), 3u);
  EXPECT_EQ(table.candidates().size(), 0u);
  EXPECT_EQ(table.AttendedTokens(1), 10u);
}

TEST(PageTableTest, ASlidingWindowIsSeenToTheToken) {
  PageTable table(WindowLayout(6, 4, 1000), 4, 2);
  EXPECT_EQ(table.layout().window_pages, 3u);  // Tokens 3 to 8, for example.
  for (uint32_t tokens = 1; tokens <= 40; ++tokens) {
    SCOPED_TRACE(tokens);
    table.AppendToken();
    EXPECT_EQ(table.AttendedTokens(1), std::min(tokens, 6u));
    const uint32_t first = tokens < 6 ? 0 : tokens - 6;
    EXPECT_EQ(table.window(), (PageRange{first / 4, (tokens + 3) / 4}));
    AttendedSlots attended;
    table.ListAttended(&attended);
    ASSERT_EQ(attended.first_tokens.size(), attended.slots.size());
    uint32_t seen = 0;
    for (size_t i = 0; i < attended.slots.size(); ++i) {
      const uint32_t page = first / 4 + static_cast<uint32_t>(i);
      EXPECT_EQ(attended.slots[i], static_cast<int32_t>(page % 3));
      seen += attended.valid_tokens[i] - attended.first_tokens[i];
    }
    EXPECT_EQ(seen, std::min(tokens, 6u));
  }
}

TEST(PageTableTest, ALayerThatHoldsEverythingListsWhatItsWindowSees) {
  PageTable all({.everything = true, .window_tokens = 6}, 4, 2);
  PageTable ring(WindowLayout(6, 4, 1000), 4, 2);
  for (uint64_t tokens = 1; tokens < 60; ++tokens) {
    all.AppendToken();
    ring.AppendToken();
    AttendedSlots of_all, of_ring;
    all.ListAttended(&of_all);
    ring.ListAttended(&of_ring);
    EXPECT_EQ(of_all.valid_tokens, of_ring.valid_tokens);
    EXPECT_EQ(of_all.first_tokens, of_ring.first_tokens);
    const uint64_t first = tokens < 6 ? 0 : tokens - 6;
    ASSERT_FALSE(of_all.slots.empty());
    EXPECT_EQ(of_all.slots.front(), static_cast<int32_t>(first / 4));
    EXPECT_EQ(of_all.slots.back(), static_cast<int32_t>((tokens - 1) / 4));
    EXPECT_EQ(all.candidates().size(), 0u);
  }
}

TEST(PageTableTest, AWindowHasThePagesThatItMayTouch) {
  EXPECT_EQ(WindowLayout(1, 4, 1000).window_pages, 2u);  // One to attend to, one to send.
  EXPECT_EQ(WindowLayout(5, 4, 1000).window_pages, 2u);
  EXPECT_EQ(WindowLayout(4096, 32, 100'000).window_pages, 129u);
  EXPECT_EQ(WindowLayout(4096, 32, 64).window_pages, 3u);  // No sequence is longer.
  EXPECT_FALSE(WindowLayout(8, 4, 1000).selects());
}

TEST(PageTableTest, HeadsShareASlotWithDifferentPages) {
  PageTable table = TableWithPages(kBudget, 8);
  ASSERT_TRUE(table.Place({.head = 0, .index = 0, .generation = 1, .page = 2}).ok());
  ASSERT_TRUE(table.Place({.head = 1, .index = 0, .generation = 1, .page = 4}).ok());
  ASSERT_TRUE(table.Activate(0, std::vector<uint32_t>{2}).ok());
  AttendedSlots attended;
  table.ListAttended(&attended);
  EXPECT_THAT(attended.slots, ElementsAre(0, 2, 1, 3, 4));  // Sink 0, pages 6 and 7, selectable.
  EXPECT_THAT(attended.valid_tokens, ElementsAre(4, 4, 4, 4, 0, 4, 4, 4, 0, 0));
  EXPECT_EQ(table.AttendedTokens(0), 16u);
  EXPECT_EQ(table.AttendedTokens(1), 12u);
}

TEST(PageTableTest, AStaleGenerationIsRefused) {
  PageTable table = TableWithPages(kBudget, 8);
  ASSERT_TRUE(table.Place({.head = 0, .index = 1, .generation = 3, .page = 2}).ok());
  for (uint32_t stale : {0u, 2u, 3u}) {
    const Status status =
        table.Place({.head = 0, .index = 1, .generation = stale, .page = 3, .replaced = 2});
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("generation 3"));
  }
  EXPECT_TRUE(table.IsResident(0, 2));
  EXPECT_FALSE(table.IsResident(0, 3));
}

TEST(PageTableTest, PlacementsThatContradictTheTableAreRefused) {
  PageTable table = TableWithPages(kBudget, 8);
  ASSERT_TRUE(table.Place({.head = 0, .index = 0, .generation = 1, .page = 2}).ok());
  const auto code = [&](const SlotPlacement& placement) { return table.Place(placement).code(); };
  EXPECT_EQ(code({.head = 0, .index = 0, .generation = 2, .page = 3, .replaced = 4}),
            StatusCode::kFailedPrecondition);  // Another page is there.
  EXPECT_EQ(code({.head = 0, .index = 1, .generation = 1, .page = 2}),
            StatusCode::kFailedPrecondition);  // Already resident.
  EXPECT_EQ(code({.head = 0, .index = 1, .generation = 1, .page = 0}),
            StatusCode::kFailedPrecondition);  // A sink.
  EXPECT_EQ(code({.head = 0, .index = 1, .generation = 1, .page = 7}),
            StatusCode::kFailedPrecondition);  // In the window.
  EXPECT_EQ(code({.head = 0, .index = 1, .generation = 1, .page = 8}),
            StatusCode::kFailedPrecondition);  // Does not exist.
  EXPECT_EQ(code({.head = 2, .index = 1, .generation = 1, .page = 3}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.head = 0, .index = 2, .generation = 1, .page = 3}),
            StatusCode::kInvalidArgument);
}

TEST(PageTableTest, OnlyResidentPagesBecomeActive) {
  PageTable table = TableWithPages(kBudget, 8);
  ASSERT_TRUE(table.Place({.head = 0, .index = 0, .generation = 1, .page = 2}).ok());
  ASSERT_TRUE(table.Activate(0, std::vector<uint32_t>{2}).ok());
  EXPECT_EQ(table.Activate(0, std::vector<uint32_t>{2, 3}).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(table.ActivePages(0), ElementsAre(2));
  // An overwritten slot is out of attention until it is activated again.
  ASSERT_TRUE(table.Place({.head = 0, .index = 0, .generation = 2, .page = 3, .replaced = 2}).ok());
  EXPECT_THAT(table.ActivePages(0), ElementsAre());
}

// A naive model of one layer: sets and maps, computed from the definition at every step.
class NaiveTable {
 public:
  NaiveTable(const CacheLayout& layout, uint32_t p, uint32_t heads)
      : layout_(layout), p_(p), resident_(heads), active_(heads) {}

  std::set<uint32_t> Candidates() const {
    std::set<uint32_t> pages;
    const uint32_t count = NumPages();
    for (uint32_t page = 0; page < count; ++page) {
      if (page >= layout_.sink_pages && page + layout_.window_pages < count) pages.insert(page);
    }
    return pages;
  }
  uint32_t NumPages() const { return static_cast<uint32_t>((tokens_ + p_ - 1) / p_); }

  const CacheLayout layout_;
  const uint32_t p_;
  uint64_t tokens_ = 0;
  std::vector<std::map<uint32_t, uint32_t>> resident_;  // [head] page -> slot
  std::vector<std::set<uint32_t>> active_;              // [head]
};

// Rows that `head` attends to by the table, as page -> rows; a page listed twice fails.
std::map<uint32_t, uint32_t> Attended(const PageTable& table, const NaiveTable& model,
                                      uint32_t head) {
  std::map<uint32_t, uint32_t> page_of_slot;
  for (uint32_t page = 0; page < table.num_pages(); ++page) {
    const std::optional<uint32_t> slot = table.FixedSlot(page);
    if (slot) {
      EXPECT_TRUE(page_of_slot.emplace(*slot, page).second) << "slot " << *slot << " taken twice";
    }
  }
  for (const auto& [page, index] : model.resident_[head]) {
    EXPECT_TRUE(page_of_slot.emplace(table.SelectableSlot(index), page).second);
  }
  AttendedSlots attended;
  table.ListAttended(&attended);
  std::map<uint32_t, uint32_t> rows;
  for (size_t i = 0; i < attended.slots.size(); ++i) {
    const int32_t valid = attended.valid_tokens[head * attended.slots.size() + i];
    if (valid == 0) continue;
    const uint32_t page = page_of_slot.at(static_cast<uint32_t>(attended.slots[i]));
    EXPECT_TRUE(rows.emplace(page, valid).second) << "page " << page << " attended to twice";
  }
  return rows;
}

std::map<uint32_t, uint32_t> ExpectedAttended(const NaiveTable& model, uint32_t head) {
  const std::set<uint32_t> candidates = model.Candidates();
  std::map<uint32_t, uint32_t> rows;
  for (uint32_t page = 0; page < model.NumPages(); ++page) {
    if (candidates.contains(page) && !model.active_[head].contains(page)) continue;
    rows[page] = static_cast<uint32_t>(
        std::min<uint64_t>(model.p_, model.tokens_ - uint64_t{page} * model.p_));
  }
  return rows;
}

// Selects `want` for `head` in both, evicting residents outside of it, as a server would.
void SelectInBoth(PageTable& table, NaiveTable& model, uint32_t head,
                  const std::set<uint32_t>& want, std::map<uint32_t, uint32_t>& generations) {
  auto& resident = model.resident_[head];
  for (uint32_t page : want) {
    if (resident.contains(page)) continue;
    std::set<uint32_t> taken;
    for (const auto& [_, index] : resident) taken.insert(index);
    uint32_t index = 0;
    int32_t replaced = -1;
    while (taken.contains(index)) ++index;
    if (index == model.layout_.selectable_pages) {
      const auto victim = std::find_if(resident.begin(), resident.end(),
                                       [&](const auto& e) { return !want.contains(e.first); });
      ASSERT_NE(victim, resident.end());
      index = victim->second;
      replaced = static_cast<int32_t>(victim->first);
      resident.erase(victim);
    }
    const uint32_t generation = ++generations[head * 100 + index];
    ASSERT_EQ(table.Place({.head = head,
                           .index = index,
                           .generation = generation,
                           .page = page,
                           .replaced = replaced}),
              OkStatus());
    resident[page] = index;
  }
  ASSERT_EQ(table.Activate(head, std::vector<uint32_t>(want.begin(), want.end())), OkStatus());
  model.active_[head] = want;
}

TEST(PageTableTest, RandomWalkAgreesWithTheNaiveModel) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const CacheLayout layout{.sink_pages = static_cast<uint32_t>(random.Below(3)),
                             .window_pages = static_cast<uint32_t>(2 + random.Below(3)),
                             .selectable_pages = static_cast<uint32_t>(random.Below(5))};
    const uint32_t p = static_cast<uint32_t>(1 + random.Below(4));
    const uint32_t heads = static_cast<uint32_t>(1 + random.Below(3));
    PageTable table(layout, p, heads);
    NaiveTable model(layout, p, heads);
    std::map<uint32_t, uint32_t> generations;
    model.tokens_ = random.Below(20);
    table.StartAt(model.tokens_);
    for (int step = 0; step < 150; ++step) {
      const TokenPlace place = table.AppendToken();
      EXPECT_EQ(place.row, model.tokens_ % p);
      EXPECT_EQ(table.FixedSlot(static_cast<uint32_t>(model.tokens_ / p)), place.slot);
      ++model.tokens_;
      const std::set<uint32_t> candidates = model.Candidates();
      ASSERT_EQ(table.candidates().size(), candidates.size());
      for (uint32_t head = 0; head < heads; ++head) {
        std::vector<uint32_t> pool(candidates.begin(), candidates.end());
        std::set<uint32_t> want;
        while (want.size() < layout.selectable_pages && !pool.empty() && random.Below(8) != 0) {
          const size_t pick = random.Below(pool.size());
          want.insert(pool[pick]);
          pool.erase(pool.begin() + static_cast<ptrdiff_t>(pick));
        }
        if (random.Below(3) != 0) SelectInBoth(table, model, head, want, generations);
        const auto expected = ExpectedAttended(model, head);
        EXPECT_EQ(Attended(table, model, head), expected);
        uint64_t tokens = 0;
        for (const auto& [_, rows] : expected) tokens += rows;
        EXPECT_EQ(table.AttendedTokens(head), tokens);
      }
    }
  }
}

TEST(PageTableTest, AWholeLayerHasEveryPageAndAttendsToWhatIsSelected) {
  CacheLayout layout = kBudget;
  layout.whole = true;
  PageTable table = TableWithPages(layout, 8);
  EXPECT_EQ(table.num_slots(), 8u);
  EXPECT_EQ(table.FixedPages().size(), 8u);
  EXPECT_THAT(table.FixedPages(3), ElementsAre(0, 1, 2));
  EXPECT_EQ(table.candidates(), (PageRange{1, 6}));
  EXPECT_EQ(table.FixedSlot(4), 4u);
  EXPECT_TRUE(table.IsResident(0, 5));
  EXPECT_FALSE(table.IsResident(0, 6)) << "it is of the window";
  ASSERT_TRUE(table.Activate(0, std::vector<uint32_t>{2, 5}).ok());
  ASSERT_TRUE(table.Activate(1, std::vector<uint32_t>{3, 5}).ok());
  EXPECT_EQ(table.Activate(1, std::vector<uint32_t>{7}).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(table.ActivePages(1), ElementsAre(3, 5));
  AttendedSlots attended;
  table.ListAttended(&attended);
  EXPECT_THAT(attended.slots, ElementsAre(0, 6, 7, 2, 3, 5));
  EXPECT_THAT(attended.valid_tokens, ElementsAre(4, 4, 4, 4, 0, 4, 4, 4, 4, 0, 4, 4));
  EXPECT_EQ(table.AttendedTokens(0), 20u);
  EXPECT_EQ(table.Place({.head = 0, .index = 0, .generation = 9, .page = 2}).code(),
            StatusCode::kFailedPrecondition);
}

TEST(PageTableTest, ALayerThatLeavesAndComesBackStartsWithEmptySlotsAndItsGenerations) {
  PageTable table = TableWithPages(kBudget, 8);
  ASSERT_TRUE(table.Place({.head = 0, .index = 1, .generation = 3, .page = 2}).ok());
  ASSERT_TRUE(table.Activate(0, std::vector<uint32_t>{2}).ok());
  table.SetWhole(true);
  EXPECT_TRUE(table.ActivePages(0).empty());
  ASSERT_TRUE(table.Activate(0, std::vector<uint32_t>{4}).ok());
  table.SetWhole(false);
  EXPECT_TRUE(table.ActivePages(0).empty());
  EXPECT_FALSE(table.IsResident(0, 2));
  EXPECT_EQ(table.num_slots(), 5u);
  EXPECT_THAT(table.FixedPages(), ElementsAre(0, 6, 7));
  EXPECT_FALSE(table.Place({.head = 0, .index = 1, .generation = 3, .page = 4}).ok());
  EXPECT_TRUE(table.Place({.head = 0, .index = 1, .generation = 4, .page = 4}).ok());
}

}  // namespace
}  // namespace quire::worker
