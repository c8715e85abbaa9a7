// SPDX-License-Identifier: Apache-2.0
//
// Conformance of the Clock, Random and Executor seams, over the real implementations and the kit's.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>

#include "common/base/random.h"
#include "common/base/threads/executor.h"
#include "quire/clock.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/manual_executor.h"
#include "tests/kit/temp_dir.h"

namespace quire::testing {
namespace {

using MakeClock = std::shared_ptr<Clock> (*)();
class ClockConformanceTest : public ::testing::TestWithParam<MakeClock> {
 protected:
  const std::shared_ptr<Clock> clock_ = GetParam()();
};

TEST_P(ClockConformanceTest, SleepMovesTimeByAtLeastTheDuration) {
  const TimePoint before = clock_->Now();
  clock_->Sleep(std::chrono::microseconds(50));
  EXPECT_GE(clock_->Now() - before, std::chrono::microseconds(50));
}

TEST_P(ClockConformanceTest, NeverGoesBack) {
  TimePoint last = clock_->Now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock_->Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST_P(ClockConformanceTest, TheWallClockIsInMicrosecondsAndOfThisCentury) {
  constexpr int64_t kYear2020 = 1'577'836'800'000'000, kYear2100 = 4'102'444'800'000'000;
  EXPECT_GT(clock_->UnixMicros(), kYear2020);
  EXPECT_LT(clock_->UnixMicros(), kYear2100);
}

TEST_P(ClockConformanceTest, ANegativeSleepReturnsAtOnce) {
  const TimePoint before = clock_->Now();
  clock_->Sleep(-std::chrono::hours(1));
  EXPECT_GE(clock_->Now(), before);
}

INSTANTIATE_TEST_SUITE_P(
    All, ClockConformanceTest,
    ::testing::Values([]() -> std::shared_ptr<Clock> { return std::make_shared<FakeClock>(); },
                      []() -> std::shared_ptr<Clock> {
                        return {std::shared_ptr<void>(), &SystemClock()};  // Not owned.
                      }));

using MakeRandom = std::shared_ptr<Random> (*)();
class RandomConformanceTest : public ::testing::TestWithParam<MakeRandom> {
 protected:
  const std::shared_ptr<Random> random_ = GetParam()();
};

TEST_P(RandomConformanceTest, ValuesDoNotRepeat) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(random_->Next()).second);
}

TEST_P(RandomConformanceTest, EveryBitIsFair) {
  constexpr int kDraws = 20000;  // Half of them ± 5 standard deviations of 71.
  std::array<int, 64> ones{};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = random_->Next();
    for (size_t bit = 0; bit < 64; ++bit) ones[bit] += static_cast<int>((value >> bit) & 1);
  }
  for (const int count : ones) EXPECT_NEAR(count, kDraws / 2, 355);
}

TEST_P(RandomConformanceTest, BelowAndUniformStayInRange) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random_->Below(3), 3u);
    const double uniform = random_->Uniform();
    EXPECT_GE(uniform, 0.0);
    EXPECT_LT(uniform, 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RandomConformanceTest,
    ::testing::Values([]() -> std::shared_ptr<Random> { return std::make_shared<SeededRandom>(1); },
                      []() -> std::shared_ptr<Random> {
                        return {std::shared_ptr<void>(), &SystemRandom()};  // Not owned.
                      }));

TEST(FakeClockTest, StandsStillUntilMoved) {
  FakeClock clock;
  const TimePoint start = clock.Now();
  const int64_t wall = clock.UnixMicros();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(std::chrono::seconds(2));
  EXPECT_EQ(clock.Now() - start, std::chrono::seconds(2));
  EXPECT_EQ(clock.UnixMicros() - wall, 2'000'000);
}

using MakeExecutor = std::function<std::unique_ptr<Executor>()>;
class ExecutorConformanceTest : public ::testing::TestWithParam<MakeExecutor> {};

TEST_P(ExecutorConformanceTest, RunsEveryAcceptedTaskOnceBeforeItIsGone) {
  std::atomic<int> ran{0};
  {
    std::unique_ptr<Executor> executor = GetParam()();
    for (int i = 0; i < 50; ++i) ASSERT_TRUE(executor->Submit([&ran] { ++ran; }).ok());
  }
  EXPECT_EQ(ran, 50);
}

INSTANTIATE_TEST_SUITE_P(
    All, ExecutorConformanceTest,
    ::testing::Values(
        []() -> std::unique_ptr<Executor> { return std::make_unique<InlineExecutor>(); },
        []() -> std::unique_ptr<Executor> {
          return std::make_unique<ThreadPool>(ThreadPool::Options{.threads = 2, .queue_limit = 64});
        },
        []() -> std::unique_ptr<Executor> { return std::make_unique<ManualExecutor>(); }));

TEST(ManualExecutorTest, RunsNothingUntilTold) {
  ManualExecutor executor;
  int ran = 0;
  ASSERT_TRUE(executor.Submit([&] { ++ran; }).ok());
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(executor.RunOne());
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(executor.RunOne());
}

TEST(TempDirTest, IsRemovedWithItsContents) {
  std::string path;
  {
    TempDir dir;
    path = dir.path();
    std::ofstream(dir / "file") << "x";
    EXPECT_TRUE(std::filesystem::exists(dir / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace quire::testing
