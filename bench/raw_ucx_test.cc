// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_ucx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace quire::bench {
namespace {

constexpr uint64_t kUnit = 16384;
constexpr uint64_t kUnits = 300;

/// Moves every unit to another place and looks for it there.
void ExpectMoved(const RawUcxLane& lane) {
  if (!UcxAvailable()) GTEST_SKIP() << "built without UCX";
  SeededRandom random(11);
  std::vector<std::byte> source(kUnits * kUnit), destination(kUnits * kUnit);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random.Next());
  std::vector<RawUcxMove> moves;
  for (uint64_t i = 0; i < kUnits; ++i) moves.push_back({i * kUnit, (i * 7 + 3) % kUnits * kUnit});
  const auto raw = RawUcx::Connect(lane, source, destination, kUnit);
  ASSERT_TRUE(raw.ok()) << raw.status();
  for (int round = 0; round < 2; ++round) {
    const auto took = (*raw)->Move(moves);
    ASSERT_TRUE(took.ok()) << took.status();
    EXPECT_GT(*took, Duration::zero());
    for (const RawUcxMove& move : moves) {
      ASSERT_TRUE(std::equal(source.begin() + move.from, source.begin() + move.from + kUnit,
                             (*raw)->Moved(move.to).begin()));
    }
    for (RawUcxMove& move : moves) move.to = (move.to + kUnit) % (kUnits * kUnit);
  }
}

RawUcxLane SharedMemory(RawUcxWay way, uint32_t threads = 1) {
  RawUcxLane lane{.options = DirectUcxOptions(), .way = way, .threads = threads};
  lane.options.transports = "posix,cma,tcp,self";
  return lane;
}

TEST(RawUcxTest, MessagesOverTcpMoveTheUnits) { ExpectMoved({}); }

TEST(RawUcxTest, PackedMessagesOverTcpMoveTheUnits) {
  ExpectMoved({.options = {}, .way = RawUcxWay::kPackedMessages});
}

TEST(RawUcxTest, MessagesOverSharedMemoryMoveTheUnits) {
  ExpectMoved(SharedMemory(RawUcxWay::kMessages));
}

TEST(RawUcxTest, EveryWayOverSharedMemoryMovesTheUnits) {
  for (const RawUcxWay way :
       {RawUcxWay::kPuts, RawUcxWay::kGets, RawUcxWay::kCopiesOut, RawUcxWay::kCopiesIn}) {
    for (const uint32_t threads : {1, 2, 7}) {
      SCOPED_TRACE(::testing::Message() << "way " << static_cast<int>(way) << ", " << threads);
      ExpectMoved(SharedMemory(way, threads));
    }
  }
}

TEST(RawUcxTest, EveryWayOverCrossMemoryAttachMovesTheUnits) {
  for (const RawUcxWay way : {RawUcxWay::kPuts, RawUcxWay::kGets, RawUcxWay::kFetchedUnits,
                              RawUcxWay::kFetchedMessages, RawUcxWay::kAttachedCopies}) {
    for (const uint32_t threads : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << "way " << static_cast<int>(way) << ", " << threads);
      RawUcxLane lane = SharedMemory(way, threads);
      lane.options.transports = "cma,tcp,self";
      ExpectMoved(lane);
    }
  }
}

TEST(RawUcxTest, BothEndsNameTheirLanes) {
  if (!UcxAvailable()) GTEST_SKIP() << "built without UCX";
  std::vector<std::byte> source(kUnit), destination(kUnit);
  const auto raw = RawUcx::Connect(SharedMemory(RawUcxWay::kPuts), source, destination, kUnit);
  ASSERT_TRUE(raw.ok()) << raw.status();
  const std::string lanes = (*raw)->Lanes();
  const size_t receiver = lanes.find("receiver: ");
  ASSERT_NE(receiver, std::string::npos) << lanes;
  EXPECT_NE(lanes.substr(0, receiver).find("posix/memory"), std::string::npos) << lanes;
  EXPECT_NE(lanes.substr(receiver).find("posix/memory"), std::string::npos) << lanes;
}

TEST(RawUcxTest, MessagesAreSentByOneThread) {
  if (!UcxAvailable()) GTEST_SKIP() << "built without UCX";
  std::vector<std::byte> source(kUnit), destination(kUnit);
  for (const RawUcxWay way : {RawUcxWay::kMessages, RawUcxWay::kPackedMessages}) {
    for (const uint32_t threads : {0, 2}) {
      const auto raw = RawUcx::Connect(SharedMemory(way, threads), source, destination, kUnit);
      EXPECT_TRUE(absl::IsInvalidArgument(raw.status())) << raw.status();
    }
  }
}

}  // namespace
}  // namespace quire::bench
