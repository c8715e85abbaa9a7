// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/digest_residency.h"

#include <gtest/gtest.h>

#include <thread>

#include "kvserver/store/testing/page_store_fixture.h"

namespace quire::kvserver::testing {
namespace {

class DigestResidencyTest : public PageStoreTest {
 protected:
  void SetUp() override {
    options_.digest_cache_bytes = 0;  // Every read is one of the database.
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
    const auto blocks = ReadDigestBlocks(*store_, "default", spec_, keys_, layer, first, end);
    EXPECT_TRUE(blocks.ok()) << blocks.status();
    return BytesOf(*blocks, first, end);
  }
  std::shared_ptr<const ResidentDigests> Hold(DigestResidency& residency,
                                              const std::vector<uint32_t>& layers) {
    auto held = residency.Hold("default", spec_, keys_, layers);
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
      const DigestBlocks blocks = held->Blocks(layer, first, end);
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
  const DigestBlocks kept = two->Blocks(0, 0, 5);
  one.reset();
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), bytes);
  two.reset();
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
  EXPECT_EQ(BytesOf(kept, 0, 5), Stored(0, 0, 5));  // Blocks keep their bytes.
}

TEST_F(DigestResidencyTest, AGrownContextIsHeldAnewWithoutReadingTheOldPart) {
  DigestResidency residency(store_.get());
  const std::vector<uint32_t> layers = {1};
  const auto before = residency.Hold("default", spec_, std::span(keys_).first(2), layers);
  ASSERT_TRUE(before.ok() && *before != nullptr);
  EXPECT_EQ((*before)->num_pages(), 4u);
  EXPECT_EQ(Hold(residency, layers)->num_pages(), 5u);
  EXPECT_EQ(Value(residency, "digest_extents_loaded"), 3u);
}

TEST_F(DigestResidencyTest, WhatDoesNotFitIsRefusedAndLeavesNothingBehind) {
  // Room for one layer of the chain, but not for two.
  const uint64_t one_layer = 6 * PageDigestBytes(spec_);
  DigestResidency residency(store_.get(), one_layer + PageDigestBytes(spec_));
  const uint64_t reads = Count("digest_reads");
  EXPECT_EQ(Hold(residency, {0, 1}), nullptr);
  EXPECT_EQ(Count("digest_reads"), reads);
  EXPECT_EQ(Value(residency, "digest_holds_refused"), 1u);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
  auto held = Hold(residency, {0});
  ASSERT_NE(held, nullptr);
  const uint64_t bytes = Value(residency, "digest_bytes_resident");
  EXPECT_EQ(Hold(residency, {1}), nullptr);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), bytes);
  held.reset();
  EXPECT_NE(Hold(residency, {1}), nullptr);
}

// Promise 7: tenants never share segments.
TEST_F(DigestResidencyTest, AnotherTenantGetsNothingByNamingResidentSegments) {
  DigestResidency residency(store_.get());
  const auto held = Hold(residency, {0});
  const std::vector<uint32_t> layers = {0};
  EXPECT_EQ(residency.Hold("other", spec_, keys_, layers).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Value(residency, "digest_extents_shared"), 0u);
}

TEST_F(DigestResidencyTest, ASegmentThatIsGoneFailsTheHoldAndReleasesTheRest) {
  DigestResidency residency(store_.get());
  ASSERT_TRUE(store_->DeleteSegment("default", keys_[2]).ok());
  const std::vector<uint32_t> layers = {0};
  EXPECT_EQ(residency.Hold("default", spec_, keys_, layers).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Value(residency, "digest_bytes_resident"), 0u);
}

TEST_F(DigestResidencyTest, HandlesMayOutliveTheResidency) {
  auto residency = std::make_unique<DigestResidency>(store_.get());
  const auto held = Hold(*residency, {0});
  residency.reset();
  EXPECT_EQ(BytesOf(held->Blocks(0, 0, 5), 0, 5), Stored(0, 0, 5));
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
