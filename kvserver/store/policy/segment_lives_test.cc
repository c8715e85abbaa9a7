// SPDX-License-Identifier: Apache-2.0
//
// Rules of a segment's life: named and held segments stay, the rest is a cache.
#include "kvserver/store/policy/segment_lives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "common/base/random.h"
#include "kvserver/store/policy/eviction/eviction_factory.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {
namespace {

constexpr RemovalReason kEvery[] = {RemovalReason::kMarked, RemovalReason::kEvicted,
                                    RemovalReason::kExpired, RemovalReason::kDetached};

/// Parameterised by the eviction policies of a store.
class SegmentLivesTest : public ::testing::TestWithParam<std::string> {
 protected:
  static SegmentKey Key(uint64_t number) { return ExtentNumber(number).segment; }
  void Add(uint64_t number, uint64_t parent = 0, std::string_view tenant = "default") {
    now_ += std::chrono::seconds(1);
    lives_.Add({.key = Key(number),
                .tenant = tenant,
                .parent = parent == 0 ? kRootKey : Key(parent),
                .bytes = 100,
                .incarnation = lives_.NextIncarnation(1000)},
               now_);
  }
  void Use(uint64_t number) {
    now_ += std::chrono::seconds(1);
    EXPECT_TRUE(lives_.Hold(Key(number), now_));
    EXPECT_FALSE(lives_.Release(Key(number), now_));
  }
  uint64_t Victim(std::string_view tenant = "") {
    const auto victim = lives_.Victim(
        [&](const SegmentKey&, std::string_view of) { return tenant.empty() || of == tenant; });
    return victim ? NumberOf({*victim, 0}) : 0;
  }
  bool MayLeave(uint64_t number, RemovalReason why) {
    const bool may = lives_.BeginRemoval(Key(number), why);
    lives_.CancelRemoval(Key(number));
    return may;
  }
  bool Evict(uint64_t number) {
    const bool may = lives_.BeginRemoval(Key(number), RemovalReason::kEvicted);
    if (may) lives_.Remove(Key(number));
    return may;
  }

  TimePoint now_{};
  SegmentLives lives_{MakeEvictionPolicy(GetParam()).value()};
};

INSTANTIATE_TEST_SUITE_P(Policies, SegmentLivesTest, ::testing::ValuesIn(EvictionPolicyNames()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(SegmentLivesTest, AStoredSegmentBelongsToItsTenantUnlessItsRecordIsDamaged) {
  Add(1);
  Add(2, 0, /*tenant=*/"");
  EXPECT_TRUE(lives_.MayBelongTo("default", Key(1)));
  EXPECT_FALSE(lives_.MayBelongTo("other", Key(1)));
  EXPECT_TRUE(lives_.MayBelongTo("other", Key(2))) << "its record is damaged";
  EXPECT_TRUE(lives_.MayBelongTo("other", Key(3))) << "it is not stored";
}

TEST_P(SegmentLivesTest, BytesKeepTheirIncarnationUntilOthersAreWritten) {
  Add(1);
  ASSERT_TRUE(lives_.Hold(Key(1), now_));
  const uint64_t written = lives_.WrittenAs(Key(1)).value();
  EXPECT_EQ(written, lives_.IncarnationOf(Key(1)));
  // Put again after a delete, and written out from DRAM: the same bytes.
  (void)lives_.Mark(Key(1));
  const uint64_t renewed = lives_.NextIncarnation(1000);
  lives_.Renew(Key(1), renewed);
  lives_.Add({.key = Key(1), .bytes = 200, .incarnation = renewed}, now_);
  EXPECT_EQ(lives_.IncarnationOf(Key(1)), renewed);
  EXPECT_EQ(lives_.WrittenAs(Key(1)), written);
  EXPECT_EQ(lives_.num_replaced(), 0u);
  // Its bytes were damaged: readers detect the change before new ones are written.
  const uint64_t replaced = lives_.NextIncarnation(1000);
  lives_.Rewrite(Key(1), replaced);
  EXPECT_EQ(lives_.WrittenAs(Key(1)), replaced);
  EXPECT_EQ(lives_.num_replaced(), 1u);
  lives_.Add({.key = Key(1), .bytes = 200, .incarnation = replaced}, now_);
  EXPECT_EQ(lives_.WrittenAs(Key(1)), replaced);
  EXPECT_EQ(lives_.num_replaced(), 1u);
  // A segment that is about to be put for the first time replaces nothing.
  lives_.Add({.key = Key(3)}, now_);
  lives_.Rewrite(Key(3), lives_.NextIncarnation(1000));
  EXPECT_EQ(lives_.num_replaced(), 1u);
  EXPECT_EQ(lives_.WrittenAs(Key(2)), std::nullopt);
}

TEST_P(SegmentLivesTest, WhatIsNamedOrHeldNeverLeaves) {
  Add(1);
  Add(2);
  ASSERT_TRUE(lives_.Name(Key(1)));
  ASSERT_TRUE(lives_.Hold(Key(2), now_));
  lives_.Mark(Key(1));
  lives_.Mark(Key(2));
  EXPECT_EQ(Victim(), 0u);
  EXPECT_TRUE(lives_.Marked(10).empty());
  EXPECT_TRUE(lives_.UnusedSince(now_ + std::chrono::hours(1), 10).empty());
  for (const RemovalReason why : kEvery) {
    EXPECT_FALSE(MayLeave(1, why)) << static_cast<int>(why);
    EXPECT_FALSE(MayLeave(2, why)) << static_cast<int>(why);
  }
}

TEST_P(SegmentLivesTest, ASegmentIsCachedFromTheLastNameOnAndNamedFromTheFirst) {
  Add(1);
  EXPECT_EQ(lives_.cached_bytes(), 100u);
  EXPECT_EQ(Victim(), 1u);
  ASSERT_TRUE(lives_.Name(Key(1)));
  ASSERT_TRUE(lives_.Name(Key(1)));
  EXPECT_EQ(lives_.cached_bytes(), 0u);
  lives_.Unname(Key(1), now_);
  EXPECT_EQ(Victim(), 0u) << "another document refers to it";
  lives_.Unname(Key(1), now_);
  lives_.Unname(Key(1), now_);
  EXPECT_EQ(lives_.num_cached(), 1u);
  EXPECT_EQ(Victim(), 1u);
}

TEST_P(SegmentLivesTest, AChainMakesRoomFromItsEndOn) {
  for (uint64_t i = 1; i <= 4; ++i) Add(i, i - 1);
  for (uint64_t i = 4; i >= 1; --i) {
    EXPECT_FALSE(i > 1 && MayLeave(i - 1, RemovalReason::kEvicted)) << "it is continued";
    EXPECT_EQ(Victim(), i);
    ASSERT_TRUE(Evict(i));
  }
  EXPECT_EQ(Victim(), 0u);
}

TEST_P(SegmentLivesTest, ATenantMakesRoomAmongItsOwn) {
  Add(1, 0, "a");
  Add(2, 0, "b");
  EXPECT_EQ(Victim("b"), 2u);
  EXPECT_EQ(Victim("a"), 1u);
  EXPECT_EQ(Victim("c"), 0u);
}

TEST_P(SegmentLivesTest, WhatADeleteWantsGoneGoesWithItsLastHolder) {
  Add(1);
  ASSERT_TRUE(lives_.Name(Key(1)));
  ASSERT_TRUE(lives_.Hold(Key(1), now_));
  ASSERT_TRUE(lives_.Hold(Key(1), now_));
  EXPECT_EQ(lives_.Mark(Key(1)), lives_.IncarnationOf(Key(1)));
  lives_.Unname(Key(1), now_);
  EXPECT_FALSE(lives_.Release(Key(1), now_));
  EXPECT_TRUE(lives_.Marked(10).empty());
  EXPECT_TRUE(lives_.Release(Key(1), now_));
  EXPECT_EQ(lives_.Marked(10).size(), 1u);
  EXPECT_TRUE(MayLeave(1, RemovalReason::kMarked));
}

// Promise 3: an acknowledged put is never undone by an older delete.
TEST_P(SegmentLivesTest, NamingOrPuttingItAgainTakesADeleteBack) {
  Add(1);
  const auto before = lives_.Mark(Key(1));
  lives_.Renew(Key(1), lives_.NextIncarnation(1000));
  EXPECT_GT(lives_.IncarnationOf(Key(1)), before);
  EXPECT_FALSE(MayLeave(1, RemovalReason::kMarked));
  lives_.Mark(Key(1));
  ASSERT_TRUE(lives_.Name(Key(1)));
  lives_.Unname(Key(1), now_);
  EXPECT_FALSE(MayLeave(1, RemovalReason::kMarked));
  lives_.Mark(Key(1));
  lives_.Unmark(Key(1));
  EXPECT_FALSE(MayLeave(1, RemovalReason::kMarked));
  lives_.Mark(Key(1));
  Add(1);  // Replaced by another put.
  EXPECT_FALSE(MayLeave(1, RemovalReason::kMarked));
}

TEST_P(SegmentLivesTest, ReplacingASegmentKeepsWhoNeedsIt) {
  Add(1);
  ASSERT_TRUE(lives_.Name(Key(1)));
  ASSERT_TRUE(lives_.Hold(Key(1), now_));
  Add(1);
  EXPECT_TRUE(lives_.IsNamed(Key(1)));
  EXPECT_EQ(lives_.num_held(), 1u);
  lives_.Unname(Key(1), now_);
  EXPECT_FALSE(MayLeave(1, RemovalReason::kEvicted));
  EXPECT_FALSE(lives_.Release(Key(1), now_));
  EXPECT_EQ(lives_.num_held(), 0u);
  EXPECT_TRUE(MayLeave(1, RemovalReason::kEvicted));
  EXPECT_EQ(lives_.cached_bytes(), 100u);
}

TEST_P(SegmentLivesTest, WhatIsLeavingCannotBeHeldOrNamedUnlessItStays) {
  Add(1);
  ASSERT_TRUE(lives_.BeginRemoval(Key(1), RemovalReason::kEvicted));
  EXPECT_FALSE(lives_.Hold(Key(1), now_));
  EXPECT_FALSE(lives_.Name(Key(1)));
  EXPECT_FALSE(lives_.BeginRemoval(Key(1), RemovalReason::kEvicted)) << "once";
  EXPECT_EQ(Victim(), 0u);
  lives_.CancelRemoval(Key(1));
  EXPECT_TRUE(lives_.Hold(Key(1), now_));
}

TEST_P(SegmentLivesTest, WhatContinuesARemovedSegmentIsDetachedUntilThatIsBack) {
  for (uint64_t i = 1; i <= 3; ++i) Add(i, i - 1);
  ASSERT_TRUE(lives_.Name(Key(3)));
  lives_.Remove(Key(1));
  ASSERT_EQ(lives_.Detached(10), std::vector<SegmentKey>{Key(2)});
  EXPECT_TRUE(MayLeave(2, RemovalReason::kDetached));
  Add(1);
  EXPECT_TRUE(lives_.Detached(10).empty());
  EXPECT_FALSE(MayLeave(2, RemovalReason::kDetached));
  lives_.Remove(Key(2));
  EXPECT_TRUE(lives_.Detached(10).empty()) << "what is named stays";
  lives_.Unname(Key(3), now_);
  EXPECT_EQ(lives_.Detached(10), std::vector<SegmentKey>{Key(3)});
}

TEST_P(SegmentLivesTest, CachedSegmentsExpireInOrderOfTheirLastUse) {
  for (uint64_t i = 1; i <= 4; ++i) Add(i);
  Use(1);
  const TimePoint middle = now_;
  Use(3);
  ASSERT_TRUE(lives_.Hold(Key(2), now_));
  EXPECT_EQ(lives_.UnusedSince(middle, 10), std::vector<SegmentKey>{Key(4)});
  EXPECT_EQ(lives_.UnusedSince(now_ + std::chrono::seconds(1), 2),
            (std::vector<SegmentKey>{Key(4), Key(1)}));
}

TEST_P(SegmentLivesTest, IncarnationsGrowWhateverTheClockSays) {
  uint64_t last = 0;
  for (const int64_t micros : {int64_t{1000}, int64_t{10}, int64_t{-5}, int64_t{2000}}) {
    const uint64_t next = lives_.NextIncarnation(micros);
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_EQ(last, 2000u);
  lives_.Add({.key = Key(1), .incarnation = 9000}, now_);  // Incarnation as stored.
  EXPECT_EQ(lives_.NextIncarnation(2001), 9001u);
}

TEST_P(SegmentLivesTest, NamesAreRestoredAsOftenAsTheRegistryOpens) {
  Add(1);
  Add(2);
  for (int times = 0; times < 2; ++times) lives_.RestoreNames({{Key(1), 2}, {Key(7), 1}}, now_);
  EXPECT_EQ(lives_.num_cached(), 1u);
  lives_.Unname(Key(1), now_);
  EXPECT_TRUE(lives_.IsNamed(Key(1)));
  lives_.RestoreNames({}, now_);
  EXPECT_EQ(lives_.num_cached(), 2u);
}

TEST_P(SegmentLivesTest, ALostSegmentThatIsPutAgainIsStillNamed) {
  lives_.RestoreNames({{Key(1), 2}}, now_);
  Add(1);
  EXPECT_EQ(lives_.CountNames(Key(1)), 2u);
  EXPECT_FALSE(Evict(1));
  EXPECT_EQ(lives_.num_cached(), 0u);
  lives_.Remove(Key(1));
  lives_.Unname(Key(1), now_);
  Add(1);
  EXPECT_EQ(lives_.CountNames(Key(1)), 1u) << "a document went while the segment was lost";
  lives_.Unname(Key(1), now_);
  EXPECT_TRUE(Evict(1));
  Add(1);
  EXPECT_FALSE(lives_.IsNamed(Key(1)));
}

// Any sequence of calls keeps the sums right, and removes no segment in use.
TEST_P(SegmentLivesTest, AnyHistoryKeepsTheRules) {
  SeededRandom random(7);
  struct Model {
    bool stored = false;
    int names = 0, holds = 0;
  };
  std::vector<Model> models(20);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t i = 1 + random.Below(models.size() - 1);
    Model& model = models[i];
    switch (random.Below(6)) {
      case 0:
        if (!model.stored) Add(i, random.Below(i));
        model.stored = true;
        break;
      case 1:
        ASSERT_EQ(lives_.Hold(Key(i), now_), model.stored);
        if (model.stored) ++model.holds;
        break;
      case 2:
        if (model.holds > 0) {
          --model.holds;
          (void)lives_.Release(Key(i), now_);
        }
        break;
      case 3:
        ASSERT_EQ(lives_.Name(Key(i)), model.stored);
        if (model.stored) ++model.names;
        break;
      case 4:
        if (model.names > 0) --model.names;
        lives_.Unname(Key(i), now_);
        break;
      case 5:
        if (const uint64_t victim = Victim(); victim != 0) {
          ASSERT_TRUE(models[victim].stored);
          ASSERT_EQ(models[victim].names + models[victim].holds, 0);
          ASSERT_TRUE(Evict(victim));
          models[victim].stored = false;
        }
        break;
    }
    size_t stored = 0, cached = 0, held = 0;
    for (const Model& m : models) {
      stored += m.stored ? 1 : 0;
      cached += m.stored && m.names == 0 ? 1 : 0;
      held += m.holds > 0 ? 1 : 0;
    }
    ASSERT_EQ(lives_.size(), stored);
    ASSERT_EQ(lives_.num_cached(), cached);
    ASSERT_EQ(lives_.cached_bytes(), cached * 100);
    ASSERT_EQ(lives_.num_held(), held);
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
