// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of EvictionPolicy, whatever its order:
//   INSTANTIATE_TEST_SUITE_P(Lru, EvictionConformanceTest, ::testing::Values(MakeLru));
#ifndef QUIRE_KVSERVER_STORE_POLICY_TESTING_EVICTION_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_POLICY_TESTING_EVICTION_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <set>

#include "common/base/random.h"
#include "kvserver/store/policy/testing/numbered_extents.h"

namespace quire::kvserver::testing {

using MakeEviction = std::function<std::unique_ptr<EvictionPolicy>()>;

class EvictionConformanceTest : public ::testing::TestWithParam<MakeEviction> {
 protected:
  std::unique_ptr<EvictionPolicy> policy_ = GetParam()();
};

TEST_P(EvictionConformanceTest, AnEmptyPolicyHasNoVictim) {
  EXPECT_EQ(policy_->Victim(AnyExtent), std::nullopt);
  EXPECT_EQ(policy_->size(), 0u);
}

TEST_P(EvictionConformanceTest, EveryTrackedExtentIsAVictimOnce) {
  std::set<uint64_t> expected;
  for (uint64_t i = 0; i < 100; ++i) {
    Insert(*policy_, i);
    expected.insert(i);
  }
  const std::vector<uint64_t> order = EvictAll(*policy_);
  EXPECT_EQ(order.size(), 100u);
  EXPECT_EQ(std::set<uint64_t>(order.begin(), order.end()), expected);
}

TEST_P(EvictionConformanceTest, AVictimStaysTrackedUntilItIsEvictedOrRemoved) {
  Insert(*policy_, 1);
  EXPECT_EQ(policy_->Victim(AnyExtent), ExtentNumber(1));
  EXPECT_EQ(policy_->Victim(AnyExtent), ExtentNumber(1));
  EXPECT_EQ(policy_->size(), 1u);
  policy_->Evict(ExtentNumber(1));
  EXPECT_EQ(policy_->size(), 0u);
  Insert(*policy_, 1);
  EXPECT_EQ(policy_->Victim(AnyExtent), ExtentNumber(1)) << "it came back";
  policy_->Remove(ExtentNumber(1));
  EXPECT_EQ(policy_->Victim(AnyExtent), std::nullopt);
}

TEST_P(EvictionConformanceTest, NeverPicksWhatIsNotEvictable) {
  for (uint64_t i = 0; i < 10; ++i) Insert(*policy_, i);
  const auto only_seven = [](const ExtentId& id) { return id == ExtentNumber(7); };
  EXPECT_EQ(policy_->Victim(only_seven), ExtentNumber(7));
  EXPECT_EQ(policy_->Victim([](const ExtentId&) { return false; }), std::nullopt);
  EXPECT_EQ(policy_->Victim(only_seven), ExtentNumber(7)) << "refused before, and asked again";
}

TEST_P(EvictionConformanceTest, IgnoresWhatItDoesNotTrack) {
  Insert(*policy_, 1);
  policy_->Touch(ExtentNumber(2));
  policy_->Remove(ExtentNumber(3));
  policy_->Evict(ExtentNumber(4));
  EXPECT_EQ(policy_->size(), 1u);
  EXPECT_EQ(policy_->Victim(AnyExtent), ExtentNumber(1));
}

TEST_P(EvictionConformanceTest, TakesSizesCostsAndParentsThatMakeNoSense) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  uint64_t number = 0;
  for (const double cost : {-1.0, kInfinity, -kInfinity, kInfinity - kInfinity, 1e300}) {
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 62}) {
      ++number;
      policy_->Insert({.id = ExtentNumber(number),
                       .bytes = bytes,
                       .parent = SegmentNumber(number),  // its own parent
                       .seconds_per_token = cost});
      policy_->Touch(ExtentNumber(number));
    }
  }
  EXPECT_EQ(EvictAll(*policy_).size(), number);
}

TEST_P(EvictionConformanceTest, ExtentsThatAreHeldForLongDoNotMakeASearchLong) {
  constexpr uint64_t kHeld = 9000, kFree = 1000, kRounds = 2000;
  for (uint64_t i = 1; i <= kHeld + kFree; ++i) Insert(*policy_, i);
  uint64_t asked = 0;
  const auto not_held = [&](const ExtentId& id) {
    ++asked;
    return NumberOf(id) > kHeld;
  };
  for (uint64_t round = 0; round < kRounds; ++round) {
    const auto victim = policy_->Victim(not_held);
    ASSERT_TRUE(victim.has_value());
    policy_->Evict(*victim);
    Insert(*policy_, kHeld + kFree + 1 + round);
  }
  // Each held extent steps aside once; after that a call asks about few.
  EXPECT_LE(asked, 2 * kHeld + 16 * kRounds);
}

TEST_P(EvictionConformanceTest, AgreesWithASetUnderRandomOperations) {
  const uint64_t seed = 5;
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  std::set<ExtentId> tracked, held;
  const auto free = [&](const ExtentId& id) { return tracked.contains(id) && !held.contains(id); };
  for (int step = 0; step < 20000; ++step) {
    const ExtentId id = ExtentNumber(1 + random.Below(50));
    switch (random.Below(7)) {
      case 0:
      case 1:
        if (tracked.insert(id).second) {
          policy_->Insert({.id = id,
                           .bytes = 1 + random.Below(8192),
                           .parent = SegmentNumber(random.Below(50)),
                           .seconds_per_token = random.Uniform()});
        }
        break;
      case 2:
        policy_->Touch(id);
        break;
      case 3:
        policy_->Remove(id);
        tracked.erase(id);
        held.erase(id);
        break;
      case 4:
        if (tracked.contains(id)) held.insert(id);
        break;
      case 5:
        held.erase(id);
        break;
      default:
        const auto victim = policy_->Victim(free);
        ASSERT_EQ(victim.has_value(), held.size() < tracked.size());
        if (!victim) break;
        ASSERT_TRUE(free(*victim));
        policy_->Evict(*victim);
        tracked.erase(*victim);
    }
    ASSERT_EQ(policy_->size(), tracked.size());
  }
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_POLICY_TESTING_EVICTION_CONFORMANCE_H_
