// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/host_tier.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace quire::worker {
namespace {

constexpr uint64_t kUnitBytes = 64;

Payload UnitOf(uint8_t value) {
  Payload payload;
  // In two pieces, as units come over some wires.
  payload.Append(std::vector<std::byte>(kUnitBytes / 2, std::byte{value}));
  payload.Append(std::vector<std::byte>(kUnitBytes / 2, std::byte{value}));
  return payload;
}

HostUnitName Page(uint32_t page) { return {.context = 1, .page = page}; }

TEST(HostTierTest, GivesBackWhatWasPutWithItsChecksum) {
  HostTier tier(4 * kUnitBytes);
  EXPECT_FALSE(tier.Get(Page(1)).has_value());
  tier.Put(Page(1), UnitOf(9), 77);
  const auto unit = tier.Get(Page(1));
  ASSERT_TRUE(unit.has_value());
  EXPECT_EQ(unit->crc32c, 77u);
  ASSERT_EQ(unit->bytes.bytes.size(), kUnitBytes);
  EXPECT_EQ(unit->bytes.bytes.front(), std::byte{9});
  EXPECT_EQ(unit->bytes.bytes.back(), std::byte{9});
  EXPECT_EQ(tier.stats().hits, 1u);
  EXPECT_EQ(tier.stats().misses, 1u);
}

TEST(HostTierTest, AUnitThatWasNotGoodToTheEndOfItsCopyIsNotKept) {
  HostTier tier(4 * kUnitBytes);
  tier.Put(Page(1), UnitOf(9), 77, [] { return false; });
  EXPECT_FALSE(tier.Get(Page(1)).has_value());
  tier.Put(Page(1), UnitOf(9), 77, [] { return true; });
  EXPECT_TRUE(tier.Get(Page(1)).has_value());
}

TEST(HostTierTest, DropsTheOneNotUsedForLongestAndStaysWithinItsBytes) {
  HostTier tier(3 * kUnitBytes + 1);
  for (uint8_t page = 0; page < 3; ++page) tier.Put(Page(page), UnitOf(page), 0);
  EXPECT_TRUE(tier.Get(Page(0)).has_value());
  tier.Touch(Page(1));
  tier.Put(Page(3), UnitOf(3), 0);
  EXPECT_FALSE(tier.Get(Page(2)).has_value());
  EXPECT_TRUE(tier.Get(Page(0)).has_value());
  EXPECT_TRUE(tier.Get(Page(1)).has_value());
  EXPECT_EQ(tier.stats().bytes, 3 * kUnitBytes);
  EXPECT_EQ(tier.stats().units, 3u);
  EXPECT_EQ(tier.stats().evictions, 1u);
}

TEST(HostTierTest, ADamagedUnitGoesAndOneThatComesAnewIsKept) {
  HostTier tier(4 * kUnitBytes);
  tier.Put(Page(0), UnitOf(0), 0);
  tier.Put(Page(1), UnitOf(1), 0);
  tier.DropDamaged(Page(0));
  tier.DropDamaged(Page(0));
  EXPECT_FALSE(tier.Get(Page(0)).has_value());
  EXPECT_TRUE(tier.Get(Page(1)).has_value());
  EXPECT_EQ(tier.stats().damaged, 1u);
  EXPECT_EQ(tier.stats().bytes, kUnitBytes);
  tier.Put(Page(0), UnitOf(9), 5);
  ASSERT_TRUE(tier.Get(Page(0)).has_value());
  EXPECT_EQ(tier.Get(Page(0))->bytes.bytes.front(), std::byte{9});
}

TEST(HostTierTest, PuttingAgainMakesItTheLastUsedAndKeepsOne) {
  HostTier tier(2 * kUnitBytes);
  tier.Put(Page(0), UnitOf(0), 0);
  tier.Put(Page(1), UnitOf(1), 0);
  tier.Put(Page(0), UnitOf(0), 0);
  tier.Put(Page(2), UnitOf(2), 0);
  EXPECT_TRUE(tier.Get(Page(0)).has_value());
  EXPECT_FALSE(tier.Get(Page(1)).has_value());
}

TEST(HostTierTest, AUnitThatWasGotOutlivesItsPlace) {
  HostTier tier(kUnitBytes);
  tier.Put(Page(0), UnitOf(5), 0);
  const auto unit = tier.Get(Page(0));
  tier.Put(Page(1), UnitOf(6), 0);
  EXPECT_FALSE(tier.Get(Page(0)).has_value());
  EXPECT_EQ(unit->bytes.bytes.back(), std::byte{5});
  EXPECT_EQ(tier.stats().bytes, kUnitBytes);
}

TEST(HostTierTest, WhatIsLargerThanTheTierIsNotKept) {
  HostTier tier(kUnitBytes - 1);
  tier.Put(Page(0), UnitOf(0), 0);
  EXPECT_FALSE(tier.Get(Page(0)).has_value());
  EXPECT_EQ(tier.stats().bytes, 0u);
}

TEST(HostTierTest, NamesDifferInEveryPart) {
  HostTier tier(100 * kUnitBytes);
  HostUnitName chain;
  chain.chain.bytes[31] = 1;
  const HostUnitName names[] = {{},
                                chain,
                                {.context = 1},
                                {.page = 1},
                                {.layer = 1},
                                {.head = 1},
                                {.part = UnitPart::kValues}};
  for (uint32_t i = 0; i < std::size(names); ++i) tier.Put(names[i], UnitOf(0), i);
  for (uint32_t i = 0; i < std::size(names); ++i) EXPECT_EQ(tier.Get(names[i])->crc32c, i);
}

TEST(HostPagesTest, SequencesShareTheDocumentsPagesAndNotTheirOwn) {
  HostTier tier(100 * kUnitBytes);
  SegmentKey document;
  document.bytes[0] = 1;
  const HostPages first(&tier, {document, 10}, 1);
  const HostPages second(&tier, {document, 10}, 2);
  first.Put(0, 0, 9, UnitOf(1), 1);
  first.Put(0, 0, 10, UnitOf(2), 2);
  const auto shared = second.Get(0, 0, 9);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->page, 9u);
  EXPECT_EQ(shared->crc32c, 1u);
  EXPECT_FALSE(second.Get(0, 0, 10).has_value());
  EXPECT_TRUE(first.Get(0, 0, 10).has_value());
  EXPECT_FALSE(HostPages().enabled());
}

// Promise 1: the same tokens may be stored with other bytes once a delete has taken the first.
TEST(HostPagesTest, PagesOfAnotherIncarnationAreOtherPages) {
  HostTier tier(100 * kUnitBytes);
  SegmentKey document;
  document.bytes[0] = 1;
  const HostPages before(&tier, {document, 10, 5}, 1);
  const HostPages after(&tier, {document, 10, 6}, 2);
  before.Put(0, 0, 3, UnitOf(1), 1);
  EXPECT_FALSE(after.Get(0, 0, 3).has_value());
  after.Put(0, 0, 3, UnitOf(2), 2);
  EXPECT_EQ(before.Get(0, 0, 3)->crc32c, 1u);
  EXPECT_EQ(after.Get(0, 0, 3)->crc32c, 2u);
}

TEST(HostPagesTest, ValuesAreNotTakenForUnits) {
  HostTier tier(100 * kUnitBytes);
  SegmentKey document;
  document.bytes[0] = 1;
  const HostPages whole(&tier, {document, 10}, 1);
  const HostPages values(&tier, {document, 10}, 1, UnitPart::kValues);
  for (const uint32_t page : {3u, 12u}) {
    values.Put(0, 0, page, UnitOf(1), 1);
    EXPECT_FALSE(whole.Get(0, 0, page).has_value());
    EXPECT_TRUE(values.Get(0, 0, page).has_value());
  }
}

TEST(HostTierTest, ManyThreadsStayWithinTheBytes) {
  HostTier tier(8 * kUnitBytes);
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&tier, thread] {
      for (uint32_t i = 0; i < 500; ++i) {
        const uint32_t page = (i * 7 + thread) % 20;
        tier.Put(Page(page), UnitOf(static_cast<uint8_t>(page)), page);
        if (const auto unit = tier.Get(Page((page + 3) % 20))) {
          EXPECT_EQ(static_cast<uint32_t>(unit->bytes.bytes.front()), unit->crc32c);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tier.stats().bytes, 8 * kUnitBytes);
}

}  // namespace
}  // namespace quire::worker
