// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/rivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "bench/transport/congestion_control.h"
#include "common/base/random.h"
#include "tests/kit/temp_dir.h"

namespace quire::bench {
namespace {

using ::testing::AnyOf;

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

TEST(ProcessTest, AnEnvironmentGoesBeforeOurs) {
  quire::testing::TempDir directory;
  ASSERT_EQ(setenv("QUIRE_TEST_REPLACED", "ours", 1), 0);
  ASSERT_EQ(setenv("QUIRE_TEST_KEPT", "kept", 1), 0);
  auto process = Process::Start({"sh", "-c", "echo $QUIRE_TEST_REPLACED $QUIRE_TEST_KEPT"},
                                directory.path() + "/log", {"QUIRE_TEST_REPLACED=theirs"});
  ASSERT_TRUE(process.ok());
  ASSERT_EQ((*process)->WaitForEnd(std::chrono::seconds(20)), OkStatus());
  EXPECT_EQ((*process)->Output(), "theirs kept\n");
}

/// Units from 0 on, each to a place of its own.
std::vector<PlacedUnit> InOrder(uint64_t count, uint64_t unit_bytes, std::span<std::byte> places) {
  std::vector<PlacedUnit> units(count);
  for (uint64_t unit = 0; unit < count; ++unit) {
    units[unit] = {unit, places.subspan(unit * unit_bytes, unit_bytes).data()};
  }
  return units;
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
  std::vector<std::byte> places(kUnits * kUnitBytes);
  std::vector<PlacedUnit> units = InOrder(kUnits, kUnitBytes, places);
  SeededRandom random(1);
  for (size_t i = units.size() - 1; i > 0; --i) std::swap(units[i], units[random.Below(i + 1)]);
  for (const auto wire : {Redis::Wire::kUnix, Redis::Wire::kTcp}) {
    for (const size_t connections : {size_t{1}, Redis::kMostConnections}) {
      std::ranges::fill(places, std::byte{0});
      EXPECT_EQ((*redis)->Read(wire, connections, units), OkStatus());
      for (const PlacedUnit& read : units) {
        uint64_t number = 0;
        std::memcpy(&number, read.place, sizeof number);
        ASSERT_EQ(number, read.unit);
        ASSERT_EQ(read.place[kUnitBytes - 1], std::byte{'x'});
      }
    }
    const auto use = (*redis)->ReadWatched(wire, units);
    ASSERT_TRUE(use.ok()) << use.status();
    EXPECT_GE(use->threaded_writes_share, 0);
    EXPECT_LE(use->threaded_writes_share, 1);
  }
  const std::vector<PlacedUnit> missing = {{kUnits, places.data()}};
  EXPECT_FALSE((*redis)->Read(Redis::Wire::kUnix, 1, missing).ok());
}

TEST(RedisTest, ItsTcpConnectionsAreNotPaced) {
  quire::testing::TempDir directory;
  auto redis = Redis::Start(directory.path(), 128 << 10, 64);
  if (!redis.ok()) GTEST_SKIP() << redis.status();
  std::vector<std::byte> places(64 * (128 << 10));
  const std::vector<PlacedUnit> units = InOrder(64, 128 << 10, places);
  const TcpSenders senders((*redis)->pid());
  ASSERT_EQ((*redis)->Read(Redis::Wire::kTcp, 1, units), OkStatus());
  // A sandbox may hide other processes.
  EXPECT_THAT(senders.CongestionControls(), AnyOf("cubic", "reno", "unknown"));
}

}  // namespace
}  // namespace quire::bench
