// SPDX-License-Identifier: Apache-2.0
//
// Conformance of the Clock and Executor seams, over the real implementations and the kit's own.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "common/base/clock.h"
#include "common/base/executor.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/manual_executor.h"
#include "tests/kit/temp_dir.h"

namespace quire::testing {
namespace {

TEST(ClockConformanceTest, SleepMovesTimeByAtLeastTheDuration) {
  FakeClock fake;
  for (Clock* clock : {static_cast<Clock*>(&fake), &SystemClock()}) {
    const TimePoint before = clock->Now();
    clock->Sleep(std::chrono::microseconds(50));
    EXPECT_GE(clock->Now() - before, std::chrono::microseconds(50));
  }
}

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
