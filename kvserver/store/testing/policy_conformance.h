// SPDX-License-Identifier: Apache-2.0
//
// What every EvictionPolicy must do, whatever its order.
//   INSTANTIATE_TEST_SUITE_P(Lru, PolicyConformanceTest, ::testing::Values(MakeLru));
#ifndef QUIRE_KVSERVER_STORE_TESTING_POLICY_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_TESTING_POLICY_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>

#include "common/base/random.h"
#include "kvserver/store/eviction_policy.h"

namespace quire::kvserver::testing {

using MakePolicy = std::unique_ptr<EvictionPolicy> (*)();

inline ExtentId ExtentNumber(uint64_t number) {
  ExtentId id;
  std::memcpy(id.segment.bytes.data(), &number, sizeof number);
  return id;
}
inline bool AnyExtent(const ExtentId&) { return true; }

class PolicyConformanceTest : public ::testing::TestWithParam<MakePolicy> {
 protected:
  std::unique_ptr<EvictionPolicy> policy_ = GetParam()();
};

TEST_P(PolicyConformanceTest, AnEmptyPolicyHasNoVictim) {
  EXPECT_EQ(policy_->Victim(AnyExtent), std::nullopt);
  EXPECT_EQ(policy_->size(), 0u);
}

TEST_P(PolicyConformanceTest, EveryTrackedExtentIsAVictimOnce) {
  std::set<ExtentId> expected, seen;
  for (uint64_t i = 0; i < 100; ++i) {
    policy_->Insert(ExtentNumber(i), 4096);
    expected.insert(ExtentNumber(i));
  }
  while (const auto victim = policy_->Victim(AnyExtent)) {
    EXPECT_TRUE(seen.insert(*victim).second);
    policy_->Remove(*victim);
  }
  EXPECT_EQ(seen, expected);
}

TEST_P(PolicyConformanceTest, AVictimStaysTrackedUntilItIsRemoved) {
  policy_->Insert(ExtentNumber(1), 4096);
  EXPECT_EQ(policy_->Victim(AnyExtent), ExtentNumber(1));
  EXPECT_EQ(policy_->Victim(AnyExtent), ExtentNumber(1));
  EXPECT_EQ(policy_->size(), 1u);
}

TEST_P(PolicyConformanceTest, NeverPicksWhatIsNotEvictable) {
  for (uint64_t i = 0; i < 10; ++i) policy_->Insert(ExtentNumber(i), 4096);
  const auto only_seven = [](const ExtentId& id) { return id == ExtentNumber(7); };
  EXPECT_EQ(policy_->Victim(only_seven), ExtentNumber(7));
  EXPECT_EQ(policy_->Victim([](const ExtentId&) { return false; }), std::nullopt);
}

TEST_P(PolicyConformanceTest, IgnoresWhatItDoesNotTrack) {
  policy_->Insert(ExtentNumber(1), 4096);
  policy_->Touch(ExtentNumber(2));
  policy_->Remove(ExtentNumber(3));
  EXPECT_EQ(policy_->size(), 1u);
  EXPECT_EQ(policy_->Victim(AnyExtent), ExtentNumber(1));
}

TEST_P(PolicyConformanceTest, AgreesWithASetUnderRandomOperations) {
  SeededRandom random(5);
  std::set<ExtentId> tracked;
  for (int step = 0; step < 5000; ++step) {
    const ExtentId id = ExtentNumber(random.Below(50));
    switch (random.Below(4)) {
      case 0:
        if (tracked.insert(id).second) policy_->Insert(id, 4096);
        break;
      case 1:
        policy_->Touch(id);
        break;
      case 2:
        policy_->Remove(id);
        tracked.erase(id);
        break;
      default:
        const auto victim = policy_->Victim(AnyExtent);
        ASSERT_EQ(victim.has_value(), !tracked.empty());
        if (victim) {
          ASSERT_TRUE(tracked.contains(*victim));
        }
    }
    ASSERT_EQ(policy_->size(), tracked.size());
  }
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_POLICY_CONFORMANCE_H_
