// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/random.h"
#include "common/base/retry_hint.h"
#include "common/base/threads/executor.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

TEST(Crc32cTest, MatchesThePublishedCheckValue) {
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(Crc32cTest, GoesOnFromASeed) {
  EXPECT_EQ(Crc32c(Bytes("56789"), Crc32c(Bytes("1234"))), 0xe3069283u);
}

TEST(Crc32cSuffixTest, IsTheChecksumOfTheEndForEveryPlaceAndLength) {
  SeededRandom random(11);
  std::vector<size_t> lengths = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 4095, 4096, 8192, 100003};
  for (int i = 0; i < 40; ++i) lengths.push_back(random.Below(20000));
  for (const size_t suffix_bytes : lengths) {
    const Crc32cSuffix suffix(suffix_bytes);
    for (const size_t prefix_bytes : {size_t{0}, size_t{1}, size_t{8192}, random.Below(5000)}) {
      std::vector<std::byte> whole(prefix_bytes + suffix_bytes);
      for (std::byte& byte : whole) byte = static_cast<std::byte>(random.Next());
      const std::span<const std::byte> bytes(whole);
      EXPECT_EQ(suffix.Of(Crc32c(bytes), Crc32c(bytes.first(prefix_bytes))),
                Crc32c(bytes.last(suffix_bytes)))
          << prefix_bytes << " and " << suffix_bytes;
    }
  }
}

TEST(Crc32cSuffixTest, IsAnotherForAnotherWholeOrBeginning) {
  const Crc32cSuffix suffix(5);
  const uint32_t whole = Crc32c(Bytes("123456789")), prefix = Crc32c(Bytes("1234"));
  ASSERT_EQ(suffix.Of(whole, prefix), Crc32c(Bytes("56789")));
  for (uint32_t bit = 0; bit < 32; ++bit) {
    EXPECT_NE(suffix.Of(whole ^ 1u << bit, prefix), Crc32c(Bytes("56789"))) << bit;
    EXPECT_NE(suffix.Of(whole, prefix ^ 1u << bit), Crc32c(Bytes("56789"))) << bit;
  }
}

TEST(Crc32cTest, SeesEveryFlippedBit) {
  std::string text = "one page of keys and values";
  const uint32_t clean = Crc32c(Bytes(text));
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(Crc32c(Bytes(text)), clean) << "bit " << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST(RandomTest, SameSeedGivesSameSequence) {
  SeededRandom a(7), b(7), c(8);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_NE(a.Next(), c.Next());
}

TEST(RandomTest, NormalHasUnitVariance) {
  SeededRandom random(3);
  double sum = 0, squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.Normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.05);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.05);
}

TEST(RandomTest, FillTakesWholeValuesInOrder) {
  std::array<uint8_t, 11> bytes{};
  SeededRandom(7).Fill(bytes);
  SeededRandom random(7);
  const std::array<uint64_t, 2> values = {random.Next(), random.Next()};
  EXPECT_EQ(std::memcmp(bytes.data(), values.data(), bytes.size()), 0);
}

TEST(RetryHintTest, IsKeptByAnnotateInWholeMilliseconds) {
  const Status busy = WithRetryAfter(ResourceExhausted("busy"), std::chrono::microseconds(1200));
  EXPECT_EQ(RetryAfter(busy), std::chrono::milliseconds(2));
  EXPECT_EQ(RetryAfter(Annotate(busy, "put")), std::chrono::milliseconds(2));
  EXPECT_EQ(RetryAfter(WithRetryAfter(Unavailable("x"), Duration::zero())),
            std::chrono::milliseconds(1));
  EXPECT_EQ(RetryAfter(ResourceExhausted("full")), std::nullopt);
  EXPECT_EQ(RetryAfter(OkStatus()), std::nullopt);
}

TEST(RandomTest, TheSystemsBytesDiffer) {
  std::array<uint8_t, 16> a{}, b{};
  SystemRandom().Fill(a);
  SystemRandom().Fill(b);
  EXPECT_NE(a, b);
}

TEST(ThreadPoolTest, RunsWhatWasQueuedBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool({.threads = 3, .queue_limit = 100});
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pool.Submit([&] { ++ran; }).ok());
  }
  EXPECT_EQ(ran, 100);
}

TEST(ThreadPoolTest, RefusesWhatExceedsTheQueue) {
  ThreadPool pool({.threads = 0, .queue_limit = 2});
  EXPECT_TRUE(pool.Submit([] {}).ok());
  EXPECT_TRUE(pool.Submit([] {}).ok());
  EXPECT_EQ(pool.Submit([] {}).code(), StatusCode::kResourceExhausted);
}

TEST(StatusTest, AnnotatePutsTheContextFirst) {
  EXPECT_EQ(Message(Annotate(NotFound("no such key"), "segment ", 7)), "segment 7: no such key");
  EXPECT_TRUE(Annotate(OkStatus(), "x").ok());
}

TEST(ClockTest, MonotonicTimeDoesNotGoBack) {
  const TimePoint before = SystemClock().Now();
  EXPECT_LE(before, SystemClock().Now());
}

}  // namespace
}  // namespace quire
