// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/digest_residency.h"

#include <gtest/gtest.h>

#include <thread>

#include "kvserver/store/repair/scrubber.h"
#include "kvserver/store/testing/memory_damage.h"
#include "kvserver/store/testing/page_store_fixture.h"

namespace quire::kvserver::testing {
namespace {

class DigestResidencyTest : public PageStoreTest {
 protected:
  void SetUp() override {
    options_.digest_cache_bytes = 0;  // Every read goes to the database.
    PageStoreTest::SetUp();
    SegmentKey parent = kRootKey;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const size_t tokens = seed == 3 ? spec_.page_tokens - 1 : 0;  // One short page.
      const auto segment = PutTestSegment(*store_, spec_, seed, parent, tokens);
      ASSERT_TRUE(segment.ok()) << segment.status();
      keys_.push_back(parent = segment->key);
    }
  }
  static std::vector<std::byte> BytesOf(const DigestBlocks& blocks, uint32_t first, uint32_t end) {
    Payload payload;
    blocks.AppendTo(first, end, &payload);
    std::vector<std::byte> bytes(payload.size_bytes());
    payload.CopyTo(bytes.data());
    return bytes;
  }
  std::vector<std::byte> Stored(uint32_t layer, uint32_t first, uint32_t end) {
    const auto blocks = ReadDigestBlocks(*store_, "default", spec_, keys_, {layer, first, end});
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    return BytesOf(*blocks, first, end);
  }
  std::shared_ptr<const ResidentDigests> Hold(DigestResidency& residency,
                                              const std::vector<uint32_t>& layers) {
    auto held = residency.Hold("default", spec_, {keys_, layers});
    EXPECT_TRUE(held.ok()) << held.status();
    return held.ok() ? *held : nullptr;
  }
  uint64_t Value(const DigestResidency& residency, const std::string& name) {
    return MetricValuesOf(residency).at(name);
  }

  std::vector<SegmentKey> keys_;  ///< Two full segments of two pages, and one page.
};

TEST_F(DigestResidencyTest, GivesWhatTheStoreHasAndReadsItNoMore) {
  DigestResidency residency(store_.get());
  const auto held = Hold(residency, {0, 1});
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->num_pages(), 5u);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 2 * 5 * PageDigestBytes(spec_));
  std::vector<std::vector<std::byte>> got;
  const uint64_t reads = Count("digest_reads");
  for (const uint32_t layer : {0u, 1u}) {
    for (const auto& [first, end] : {std::pair{0u, 5u}, {1u, 2u}, {3u, 5u}, {4u, 5u}}) {
      const DigestBlocks blocks = held->Blocks(layer, first, end).value();
      EXPECT_EQ(blocks.first_page(), first / 2 * 2);
      got.push_back(BytesOf(blocks, first, end));
    }
  }
  EXPECT_EQ(Count("digest_reads"), reads);
  auto next = got.begin();
  for (const uint32_t layer : {0u, 1u}) {
    for (const auto& [first, end] : {std::pair{0u, 5u}, {1u, 2u}, {3u, 5u}, {4u, 5u}}) {
      EXPECT_EQ(*next++, Stored(layer, first, end));
    }
  }
}

TEST_F(DigestResidencyTest, SessionsOverTheSameSegmentsShareThemUntilTheLastOneGoes) {
  DigestResidency residency(store_.get());
  auto one = Hold(residency, {0});
  const uint64_t bytes = Value(residency, "digest_bytes_resident");
  const uint64_t reads = Count("digest_reads");
  auto two = Hold(residency, {0});
  EXPECT_EQ(Count("digest_reads"), reads);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), bytes);
  EXPECT_EQ(Value(residency, "digest_extents_shared"), 3u);
  const DigestBlocks kept = two->Blocks(0, 0, 5).value();
  one.reset();
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), bytes);
  two.reset();
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
  EXPECT_EQ(BytesOf(kept, 0, 5), Stored(0, 0, 5));  // Blocks keep their bytes.
}

TEST_F(DigestResidencyTest, AGrownContextIsHeldAnewWithoutReadingTheOldPart) {
  DigestResidency residency(store_.get());
  const std::vector<uint32_t> layers = {1};
  const auto before = residency.Hold("default", spec_, {std::span(keys_).first(2), layers});
  ASSERT_TRUE(before.ok() && *before != nullptr);
  EXPECT_EQ((*before)->num_pages(), 4u);
  EXPECT_EQ(Hold(residency, layers)->num_pages(), 5u);
  EXPECT_EQ(Value(residency, "digest_extents_loaded"), 3u);
}

TEST_F(DigestResidencyTest, WhatDoesNotFitIsRefusedAndLeavesNothingBehind) {
  // Room for one layer of the chain, but not for two.
  const uint64_t one_layer = 6 * PageDigestBytes(spec_);
  const uint64_t limit = one_layer + PageDigestBytes(spec_);
  DigestResidency residency(store_.get(), {.max_bytes = limit, .max_bytes_per_tenant = limit});
  const uint64_t reads = Count("digest_reads");
  EXPECT_EQ(Hold(residency, {0, 1}), nullptr);
  EXPECT_EQ(Count("digest_reads"), reads);
  EXPECT_EQ(Value(residency, "digest_holds_refused"), 1u);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
  auto held = Hold(residency, {0});
  ASSERT_NE(held, nullptr);
  const uint64_t bytes = Value(residency, "digest_bytes_resident");
  const uint64_t frees = residency.frees();
  EXPECT_EQ(Hold(residency, {1}), nullptr);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), bytes);
  EXPECT_EQ(residency.frees(), frees);
  held.reset();
  EXPECT_GT(residency.frees(), frees) << "worth asking again";
  EXPECT_NE(Hold(residency, {1}), nullptr);
}

TEST_F(DigestResidencyTest, ATenantLeavesTheRestOfTheRoomToOthers) {
  const uint64_t one_layer = 6 * PageDigestBytes(spec_);
  DigestResidency residency(store_.get(), {2 * one_layer, one_layer});
  const auto mine = Hold(residency, {0});
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(Hold(residency, {1}), nullptr) << "over the tenant's share, with room left";
  std::vector<SegmentKey> keys;
  SegmentKey parent = kRootKey;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const auto segment =
        PutTestSegment(*store_, spec_, seed, parent, 0, Durability::kPersisted, "other");
    ASSERT_TRUE(segment.ok()) << segment.status();
    keys.push_back(parent = segment->key);
  }
  const std::vector<uint32_t> layers = {0};
  const auto theirs = residency.Hold("other", spec_, {keys, layers});
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_NE(*theirs, nullptr);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 11 * PageDigestBytes(spec_));
}

TEST_F(DigestResidencyTest, KindsAreHeldBesideEachOther) {
  DigestResidency residency(store_.get());
  const std::vector<uint32_t> layers = {0};
  std::vector<std::shared_ptr<const ResidentDigests>> held;
  uint64_t bytes = 0;
  for (const DigestKind kind : kernels::kDigestKinds) {
    auto digests = residency.Hold("default", spec_, {keys_, layers, kind});
    ASSERT_TRUE(digests.ok()) << digests.status();
    bytes += 5 * PageDigestBytes(spec_, kind);
    EXPECT_EQ(Value(residency, "digest_bytes_resident"), bytes);
    EXPECT_EQ((*digests)->num_pages(), 5u);
    const auto stored = ReadDigestBlocks(*store_, "default", spec_, keys_, {0, 1, 5, kind});
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_EQ(BytesOf((*digests)->Blocks(0, 1, 5).value(), 1, 5), BytesOf(*stored, 1, 5));
    held.push_back(*std::move(digests));
  }
  held.clear();
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
}

TEST_F(DigestResidencyTest, Promise2WhatAScrubFindsDamagedServesNobodyAndIsReadAnew) {
  DigestResidency residency(store_.get());
  const auto held = Hold(residency, {0, 1});
  Scrubber scrubber(residency.Scrub(), {.clock = &SystemClock()});
  const auto count = [&](const std::string& what) {
    return MetricValuesOf(scrubber).at("scrub_" + what + "{kind=\"held_digests\"}");
  };
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("checked"), 6u);
  EXPECT_EQ(count("damaged"), 0u);
  const std::vector<std::byte> right = Stored(1, 0, 5);
  FlipBit(std::as_bytes(
      std::span(static_cast<const std::byte*>(held->Blocks(1, 0, 2)->pointers()[0]), size_t{1})));
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("damaged"), 1u);
  EXPECT_EQ(held->Blocks(1, 0, 5), std::nullopt) << "the store is asked instead";
  EXPECT_EQ(BytesOf(held->Blocks(1, 2, 5).value(), 2, 5), Stored(1, 2, 5)) << "intact ones serve";
  const auto again = Hold(residency, {0, 1});
  EXPECT_EQ(BytesOf(again->Blocks(1, 0, 5).value(), 0, 5), right);
  ASSERT_TRUE(scrubber.RunRound().ok());
  EXPECT_EQ(count("damaged"), 1u) << "it is found once";
}

ResidentId IdOf(uint8_t segment) {
  return {.id = {.extent = {.segment = SegmentKey{.bytes = {segment}}, .layer = 0}}};
}

TEST(DigestTableTest, OneHolderLoadsAndTheOthersWaitForItOrTakeOverFromIt) {
  DigestTable table({100, 100});
  const std::vector<ResidentId> ids = {IdOf(1), IdOf(2)};
  ASSERT_TRUE(table.Hold("t", ids, 40));
  ASSERT_TRUE(table.Hold("t", ids, 40)) << "shared: no more room is needed";
  EXPECT_FALSE(table.Hold("t", std::vector{IdOf(1), IdOf(3)}, 40));
  EXPECT_EQ(table.used_bytes(), 80u);
  const auto bytes = std::make_shared<ResidentBlock>(
      "t", ids[0], std::make_shared<const std::vector<std::byte>>(30), 0);
  ASSERT_EQ(table.Take("t", ids[0]), nullptr);
  ASSERT_EQ(table.Take("t", ids[1]), nullptr);
  ResidentBytes loaded, after_failure = bytes;
  std::thread other([&] {
    loaded = table.Take("t", ids[0]);
    after_failure = table.Take("t", ids[1]);
    if (after_failure == nullptr) table.Loaded("t", ids[1], bytes);
  });
  table.Loaded("t", ids[0], bytes);
  table.Failed("t", ids[1]);
  other.join();
  EXPECT_EQ(loaded, bytes);
  EXPECT_EQ(after_failure, nullptr) << "the other one has to load it";
  EXPECT_EQ(table.used_bytes(), 60u);
  EXPECT_TRUE(table.Hold("t", std::vector{IdOf(3)}, 40)) << "what was taken too much is back";
  table.Release("t", std::vector{IdOf(3)});
  table.Release("t", ids);
  EXPECT_EQ(table.used_bytes(), 60u);
  table.Release("t", ids);
  EXPECT_EQ(table.used_bytes(), 0u);
}

// Promise 7: tenants never share segments.
TEST_F(DigestResidencyTest, AnotherTenantGetsNothingByNamingResidentSegments) {
  DigestResidency residency(store_.get());
  const auto held = Hold(residency, {0});
  const std::vector<uint32_t> layers = {0};
  EXPECT_EQ(residency.Hold("other", spec_, {keys_, layers}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Value(residency, "digest_extents_shared"), 0u);
}

TEST_F(DigestResidencyTest, ASegmentThatIsGoneFailsTheHoldAndReleasesTheRest) {
  DigestResidency residency(store_.get());
  ASSERT_TRUE(store_->DeleteSegment("default", keys_[2]).ok());
  const std::vector<uint32_t> layers = {0};
  EXPECT_EQ(residency.Hold("default", spec_, {keys_, layers}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
}

TEST_F(DigestResidencyTest, HandlesMayOutliveTheResidency) {
  auto residency = std::make_unique<DigestResidency>(store_.get());
  const auto held = Hold(*residency, {0});
  residency.reset();
  EXPECT_EQ(BytesOf(held->Blocks(0, 0, 5).value(), 0, 5), Stored(0, 0, 5));
}

TEST_F(DigestResidencyTest, ConcurrentHoldsOfTheSameSegmentsAddUp) {
  DigestResidency residency(store_.get());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_NE(Hold(residency, {0, 1}), nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
  EXPECT_EQ(Value(residency, "digest_holds"), 80u);
  EXPECT_EQ(Value(residency, "digest_extents_loaded") + Value(residency, "digest_extents_shared"),
            80u * 6);
}

}  // namespace
}  // namespace quire::kvserver::testing
