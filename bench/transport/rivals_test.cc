// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/rivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "common/base/random.h"
#include "tests/kit/temp_dir.h"

namespace quire::bench {
namespace {

constexpr uint64_t kUnitBytes = 4096;
constexpr uint64_t kUnits = 300;

TEST(ProcessTest, SaysWhatAProgramSaidThatFailed) {
  quire::testing::TempDir directory;
  auto process = Process::Start({"sh", "-c", "echo no luck; exit 3"}, directory.path() + "/log");
  ASSERT_TRUE(process.ok());
  const Status status = (*process)->WaitForEnd(std::chrono::seconds(20));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(status).find("no luck"), std::string_view::npos) << status;
}

TEST(ProcessTest, AProgramThatIsNotThereCannotBeStarted) {
  quire::testing::TempDir directory;
  EXPECT_EQ(Process::Start({"/no/such/program"}, directory.path() + "/log").status().code(),
            StatusCode::kUnavailable);
}

TEST(RedisTest, WithoutTheProgramSaysWhatIsMissing) {
  quire::testing::TempDir directory;
  const char* const set = std::getenv("PATH");
  const std::string path = set == nullptr ? "" : set;
  ASSERT_EQ(setenv("PATH", "/nowhere", 1), 0);
  const auto redis = Redis::Start(directory.path(), kUnitBytes, kUnits);
  ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
  EXPECT_EQ(redis.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(redis.status()).find("redis"), std::string_view::npos) << redis.status();
}

TEST(RedisTest, ReadsEveryUnitOverBothWires) {
  quire::testing::TempDir directory;
  auto redis = Redis::Start(directory.path(), kUnitBytes, kUnits);
  if (!redis.ok()) GTEST_SKIP() << redis.status();
  std::vector<uint64_t> units(kUnits);
  std::iota(units.begin(), units.end(), 0u);
  SeededRandom random(1);
  for (size_t i = units.size() - 1; i > 0; --i) std::swap(units[i], units[random.Below(i + 1)]);
  EXPECT_EQ((*redis)->Read(Redis::Wire::kUnix, units), OkStatus());
  EXPECT_EQ((*redis)->Read(Redis::Wire::kTcp, units), OkStatus());
  const std::vector<uint64_t> missing = {kUnits};
  EXPECT_FALSE((*redis)->Read(Redis::Wire::kUnix, missing).ok());
}

}  // namespace
}  // namespace quire::bench
