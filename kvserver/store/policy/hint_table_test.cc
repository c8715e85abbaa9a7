// SPDX-License-Identifier: Apache-2.0
//
// Conversations and the standing of their segments.
#include "kvserver/store/policy/hint_table.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SegmentKey HintedKey(uint64_t number) { return ExtentNumber(number).segment; }

class HintTableTest : public ::testing::Test {
 protected:
  void Note(const Hints& hints, const std::vector<uint64_t>& numbers,
            std::string_view tenant = "t") {
    std::vector<SegmentKey> keys;
    for (const uint64_t number : numbers) keys.push_back(HintedKey(number));
    Apply(table_.Note(tenant, hints, keys, now_));
  }
  /// Returns the released segments, in order.
  std::vector<uint64_t> Release(std::string_view conversation) {
    const auto changes = table_.Release("t", conversation);
    EXPECT_TRUE(changes);
    std::vector<uint64_t> released;
    for (const StandingChange& change : *changes) {
      if (change.standing == Standing::kReleased) released.push_back(NumberOf({change.segment, 0}));
    }
    Apply(*changes);
    return released;
  }
  void Apply(const HintTable::Changes& changes) {
    for (const StandingChange& change : changes) standings_[change.segment] = change.standing;
  }
  Standing Of(uint64_t number) { return standings_.at(HintedKey(number)); }

  TimePoint now_{std::chrono::seconds(100)};
  HintTable table_{/*most_uses=*/8};
  std::map<SegmentKey, Standing> standings_;
};

TEST_F(HintTableTest, ASegmentStandsAsHighAsTheConversationThatKeepsItLongest) {
  Note({.conversation = "a", .keep_seconds = 60}, {1, 2});
  Note({.conversation = "b", .priority = KeepPriority::kHigh}, {1, 3});
  Note({.conversation = "c", .priority = KeepPriority::kLow}, {3, 4});
  EXPECT_EQ(Of(1), Standing::kKept);
  EXPECT_EQ(Of(3), Standing::kHigh);
  EXPECT_EQ(Of(4), Standing::kLow);
  now_ += std::chrono::seconds(60);
  Apply(table_.Expire(now_));
  EXPECT_EQ(Of(1), Standing::kHigh) << "a's keep is over";
  EXPECT_EQ(Of(2), Standing::kNormal);
  EXPECT_THAT(Release("b"), IsEmpty()) << "others use both of its segments";
  EXPECT_EQ(Of(1), Standing::kNormal);
  EXPECT_EQ(Of(3), Standing::kLow);
}

TEST_F(HintTableTest, ReleasedChainsLeaveFromTheirEndAndAUseEndsTheRelease) {
  Note({.conversation = "a"}, {1, 2, 3});
  EXPECT_THAT(table_.SegmentsOf("t", "a"), ElementsAre(HintedKey(3), HintedKey(2), HintedKey(1)));
  EXPECT_THAT(Release("a"), ElementsAre(3, 2, 1));
  EXPECT_EQ(table_.num_conversations(), 0u);
  EXPECT_EQ(table_.num_segments(), 0u);
  Note({.conversation = "b"}, {1});
  EXPECT_EQ(Of(1), Standing::kNormal);
  EXPECT_EQ(Of(2), Standing::kReleased);
  EXPECT_FALSE(table_.Release("other", "b")) << "another tenant's";
}

TEST_F(HintTableTest, TheLastHintsHoldForAllSegmentsOfAConversation) {
  Note({.conversation = "a", .priority = KeepPriority::kHigh, .keep_seconds = 600}, {1, 2});
  Note({.conversation = "a"}, {2});
  EXPECT_EQ(Of(1), Standing::kNormal);
  EXPECT_EQ(table_.num_conversations(), 1u);
}

TEST_F(HintTableTest, OldConversationsAreForgotten) {
  Note({.conversation = "a", .priority = KeepPriority::kHigh}, {1});
  Note({.priority = KeepPriority::kLow, .keep_seconds = 7200}, {2});
  now_ += HintTable::kForgetAfter;
  Apply(table_.Expire(now_));
  EXPECT_EQ(Of(1), Standing::kNormal);
  EXPECT_EQ(Of(2), Standing::kKept);
  EXPECT_EQ(table_.num_conversations(), 0u);
  now_ += HintTable::kForgetAfter;
  Apply(table_.Expire(now_));
  EXPECT_EQ(table_.num_segments(), 0u) << "unused for longer than that when its keep was over";
}

TEST_F(HintTableTest, MemoryIsBoundedForEachTenant) {
  Note({.conversation = "a", .keep_seconds = 60}, {1, 2, 3});
  Note({.conversation = "b", .keep_seconds = 60}, {4, 5, 6});
  Note({.conversation = "a", .keep_seconds = 60}, {1});
  Note({.conversation = "c", .keep_seconds = 60}, {7, 8, 9}, "other");
  Note({.conversation = "c", .keep_seconds = 60}, {7, 8, 9});
  EXPECT_EQ(Of(4), Standing::kNormal) << "b had the oldest hint";
  EXPECT_EQ(Of(1), Standing::kKept);
  EXPECT_EQ(Of(9), Standing::kKept);
  EXPECT_EQ(table_.num_conversations(), 3u);
  EXPECT_THAT(table_.SegmentsOf("t", "b"), IsEmpty());
}

// Compared with a plain model: sets of segments and standings.
TEST_F(HintTableTest, ManyHintsGiveTheStandingsOfAPlainModel) {
  constexpr uint64_t kSeed = 66;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  HintTable table;
  SeededRandom random(kSeed);
  struct Plain {
    std::vector<uint64_t> segments;
    Standing standing = Standing::kNormal;
  };
  std::map<std::string, Plain> model;
  for (int step = 0; step < 3000; ++step) {
    const std::string name = std::to_string(random.Below(6));
    if (random.Below(5) == 0) {
      const auto changes = table.Release("t", name);
      EXPECT_EQ(changes.has_value(), model.erase(name) > 0);
      if (changes) Apply(*changes);
      continue;
    }
    const uint64_t first = random.Below(20);
    const auto priority = static_cast<KeepPriority>(1 + random.Below(3));
    const std::vector<SegmentKey> keys = {HintedKey(first), HintedKey(first + 1)};
    Apply(table.Note("t", {.conversation = name, .priority = priority}, keys, now_));
    Plain& plain = model[name];
    plain.segments.insert(plain.segments.end(), {first, first + 1});
    plain.standing = StandingOf(priority);
    for (uint64_t number = 0; number < 21; ++number) {
      std::optional<Standing> highest;
      for (const auto& [_, other] : model) {
        if (std::ranges::find(other.segments, number) == other.segments.end()) continue;
        highest = std::max(highest.value_or(Standing::kReleased), other.standing);
      }
      const auto known = standings_.find(HintedKey(number));
      if (highest) {
        ASSERT_NE(known, standings_.end()) << number;
        ASSERT_EQ(known->second, *highest) << number << " at step " << step;
      } else if (known != standings_.end()) {
        ASSERT_EQ(known->second, Standing::kReleased) << number << " at step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
