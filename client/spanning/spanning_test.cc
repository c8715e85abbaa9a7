// SPDX-License-Identifier: Apache-2.0
//
// Lanes and scores of several nodes, merged, against the single list of one node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "client/client_test_kit.h"
#include "client/spanning/at_once.h"
#include "client/spanning/lane_merge.h"
#include "client/spanning/score_merge.h"
#include "client/spanning/sequence_places.h"
#include "common/base/random.h"
#include "common/page/slot_map.h"

namespace quire::internal {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kHeads = 2, kPlaces = 9, kPagesOfMember = 6;

/// Members of a random number, each on one of three nodes.
std::vector<std::string> SomeAddresses(SeededRandom& random) {
  std::vector<std::string> addresses(1 + random.Below(7));
  for (std::string& address : addresses) address = std::string(1, "abc"[random.Below(3)]);
  return addresses;
}

PageLists SomePages(size_t members, SeededRandom& random) {
  PageLists lists;
  for (uint32_t head = 0; head < kHeads; ++head) {
    std::set<uint32_t> pages;
    for (uint64_t i = random.Below(kPlaces + 1); i > 0; --i) {
      pages.insert(PageName(static_cast<uint32_t>(random.Below(members)),
                            static_cast<uint32_t>(random.Below(kPagesOfMember))));
    }
    lists.AppendHead(std::vector<uint32_t>(pages.begin(), pages.end()));
  }
  return lists;
}

/// The unit of a page of a head.
std::vector<std::byte> UnitOf(const UnitSizes& sizes, uint32_t head, uint32_t page) {
  return testing::RandomBytes(sizes.raw(), page * kHeads + head);
}

/// The reply of the node of a fragment to `wanted`.
RecallPart Sent(const SequencePlaces& places, const UnitSizes& sizes, size_t fragment,
                const PageLists& wanted) {
  RecallPart piece;
  for (uint32_t head = 0; head < wanted.num_heads(); ++head) {
    for (const uint32_t page : wanted.Head(head)) {
      const std::vector<std::byte> unit = UnitOf(sizes, head, places.GlobalName(fragment, page));
      piece.placements.push_back({.head = head, .page = page});
      piece.checksums.push_back(Crc32c(unit));
      piece.payload.Append(unit);
    }
  }
  return piece;
}

std::vector<RecallPart> AllSent(const SequencePlaces& places, const UnitSizes& sizes,
                                const PlannedLane& lane) {
  std::vector<RecallPart> pieces;
  for (size_t i = 0; i < lane.wanted.size(); ++i) {
    pieces.push_back(Sent(places, sizes, i, lane.wanted[i]));
  }
  return pieces;
}

TEST(SequencePlacesTest, MembersOfANodeKeepTheirOrder) {
  const std::vector<std::string> addresses = {"b", "a", "b", "a", "c"};
  const SequencePlaces places(addresses);
  ASSERT_EQ(places.fragments().size(), 3u);
  EXPECT_EQ(places.fragments()[0].address, "b");
  EXPECT_THAT(places.fragments()[0].members, ElementsAre(0, 2));
  EXPECT_THAT(places.fragments()[1].members, ElementsAre(1, 3));
  EXPECT_TRUE(places.spans());
  for (uint32_t member = 0; member < addresses.size(); ++member) {
    const uint32_t name = PageName(member, 77);
    EXPECT_EQ(places.GlobalName(places.FragmentOf(member), places.LocalName(name)), name);
  }
  EXPECT_FALSE(SequencePlaces(std::vector<std::string>{"a", "a"}).spans());
}

TEST(LaneMergeTest, AMergedLaneIsTheLaneOfOneNode) {
  constexpr uint64_t kSeed = 20261128;
  SeededRandom random(kSeed);
  const UnitSizes sizes(testing::TinySpec(), UnitPart::kWhole, {});
  for (int sequence = 0; sequence < 40; ++sequence) {
    const std::vector<std::string> addresses = SomeAddresses(random);
    const SequencePlaces places(addresses);
    SlotMap map(kHeads, kPlaces), one(kHeads, kPlaces);
    for (int round = 0; round < 20; ++round) {
      SCOPED_TRACE(::testing::Message()
                   << "seed " << kSeed << " sequence " << sequence << " round " << round);
      const PageLists pages = SomePages(addresses.size(), random);
      PlannedLane lane{.sequence = 3, .layer = 1, .exchange = 9};
      if (random.Below(2) == 0) lane.held = SomePages(addresses.size(), random);
      const PageLists held = lane.held;
      PlanLane(places, pages, &map, &lane);
      const std::vector<RecallPart> pieces = AllSent(places, sizes, lane);
      const auto merged = MergeLane(places, sizes, std::move(lane), pieces);
      ASSERT_TRUE(merged.ok()) << merged.status();

      SlotMap::Scratch scratch;
      PlacedUnits expected;
      one.Plan(pages, scratch, &expected);
      ASSERT_EQ(merged->placements.size(), expected.size());
      Payload units;
      size_t num_held = 0, i = 0;
      for (uint32_t head = 0; head < kHeads; ++head) {
        for (const size_t end = i + expected.counts[head]; i < end; ++i) {
          const Placement& unit = merged->placements[i];
          EXPECT_EQ(unit.head, head);
          EXPECT_EQ(unit.slot, expected.slots[i]);
          EXPECT_EQ(unit.generation, expected.generations[i]);
          EXPECT_EQ(unit.page, expected.pages[i]);
          EXPECT_EQ(unit.replaced, expected.replaced[i]);
          const bool is_held =
              held.num_heads() > 0 && std::ranges::binary_search(held.Head(head), unit.page);
          EXPECT_EQ(std::ranges::binary_search(merged->held, i), is_held);
          num_held += is_held;
          if (!is_held) units.Append(UnitOf(sizes, head, unit.page));
        }
      }
      EXPECT_EQ(merged->held.size(), num_held);
      EXPECT_EQ(testing::Bytes(merged->payload), testing::Bytes(units));
      const bool applied = random.Below(3) > 0;
      for (SlotMap* const each : {&map, &one}) applied ? each->Commit() : each->Rollback();
      if (HasFailure()) return;
    }
  }
}

TEST(LaneMergeTest, ANodeThatSendsOtherUnitsIsNamed) {
  const SequencePlaces places(std::vector<std::string>{"a", "b"});
  const UnitSizes sizes(testing::TinySpec(), UnitPart::kWhole, {});
  const PageLists pages = {{PageName(0, 1), PageName(1, 2)}, {PageName(1, 3)}};
  const auto merge = [&](const auto& change) {
    SlotMap map(kHeads, kPlaces);
    PlannedLane lane;
    PlanLane(places, pages, &map, &lane);
    std::vector<RecallPart> pieces = AllSent(places, sizes, lane);
    change(&pieces);
    return MergeLane(places, sizes, std::move(lane), pieces).status();
  };
  EXPECT_TRUE(merge([](auto*) {}).ok());
  const auto other_page = [](auto* pieces) { (*pieces)[1].placements[0].page = 4; };
  const auto other_member = [](auto* pieces) { (*pieces)[1].placements[0].page = PageName(5, 2); };
  const auto fewer = [](auto* pieces) { (*pieces)[1].placements.pop_back(); };
  const auto more = [](auto* pieces) { (*pieces)[1].placements.push_back({.head = 1, .page = 5}); };
  for (const Status& status : {merge(other_page), merge(other_member), merge(fewer), merge(more)}) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(), ::testing::HasSubstr("node at b"));
  }
}

TEST(ScoreMergeTest, MergedScoresAreInTheOrderOfOneNode) {
  constexpr uint64_t kSeed = 4711;
  SeededRandom random(kSeed);
  const KvSpec spec = testing::TinySpec();
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed " << kSeed << " round " << round);
    const std::vector<std::string> addresses = SomeAddresses(random);
    const SequencePlaces places(addresses);
    ContentScoring wanted{.layers = {1, 0}};
    for (uint32_t member = 0; member < addresses.size(); ++member) {
      if (random.Below(3) == 0) continue;
      const auto first = static_cast<uint32_t>(random.Below(5));
      wanted.candidates.push_back({member, first, first + static_cast<uint32_t>(random.Below(4))});
    }
    const size_t query = wanted.layers.size() * spec.num_kv_heads * spec.key_dim();
    for (size_t i = 0; i < wanted.candidates.size() * query; ++i) {
      wanted.queries.push_back(static_cast<float>(i / query));  // Tells its candidate.
    }
    // A score names its query, layer and page. Many are equal.
    const auto score = [](float asked, uint32_t layer, uint32_t page) {
      return asked * 100 + static_cast<float>(layer * 10 + page / 2);
    };
    const auto asked = SplitScoring(places, spec, wanted);
    ASSERT_TRUE(asked.ok()) << asked.status();
    std::vector<std::vector<float>> scores;
    for (const FragmentScoring& fragment : *asked) {
      std::vector<float>& of_node = scores.emplace_back();
      const ContentScoring& scoring = fragment.scoring;
      for (size_t i = 0; i < scoring.candidates.size(); ++i) {
        const CandidateRange& range = scoring.candidates[i];
        EXPECT_EQ(places.fragments()[fragment.fragment].members[range.member],
                  wanted.candidates[fragment.candidates[i]].member);
        for (const uint32_t layer : scoring.layers) {
          for (uint32_t page = range.first_page; page < range.end_page; ++page) {
            of_node.push_back(score(scoring.queries[i * query], layer, page));
          }
        }
      }
    }
    std::vector<float> expected;
    for (size_t i = 0; i < wanted.candidates.size(); ++i) {
      for (const uint32_t layer : wanted.layers) {
        for (uint32_t page = wanted.candidates[i].first_page; page < wanted.candidates[i].end_page;
             ++page) {
          expected.push_back(score(static_cast<float>(i), layer, page));
        }
      }
    }
    EXPECT_EQ(MergeScores(wanted, *asked, scores), expected);
  }
}

TEST(AtOnceTest, EveryNumberRunsAndTheFirstErrorIsReturned) {
  std::atomic<int> ran = 0;
  const auto work = [&](size_t i) {
    ++ran;
    return i < 2 ? OkStatus() : NotFound("number ", i);
  };
  EXPECT_TRUE(AtOnce(0, work).ok());
  EXPECT_TRUE(AtOnce(2, work).ok());
  EXPECT_THAT(AtOnce(4, work).ToString(), ::testing::HasSubstr("number 2"));
  EXPECT_EQ(ran, 6);
}

}  // namespace
}  // namespace quire::internal
