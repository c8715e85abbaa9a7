// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/volume/space_map.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/base/random.h"

namespace quire::kvserver {
namespace {

constexpr uint64_t kB = kBlockBytes;

/// One bit per block: the model of a SpaceMap.
class Bitmap {
 public:
  void AddVolume(uint32_t volume, uint64_t begin, uint64_t end) {
    used_[volume] = std::vector<bool>(end / kB, true);
    for (uint64_t block = begin / kB; block < end / kB; ++block) used_[volume][block] = false;
  }
  /// Returns false when a block of the run is not `!used`; the map is unspecified then.
  bool Set(const BlockRun& run, bool used) {
    if (run.length == 0 || run.offset % kB != 0 || run.length % kB != 0) return false;
    std::vector<bool>& blocks = used_.at(run.volume);
    for (uint64_t block = run.offset / kB; block < (run.offset + run.length) / kB; ++block) {
      if (block >= blocks.size() || blocks[block] == used) return false;
      blocks[block] = used;
    }
    return true;
  }
  /// Lengths of the free runs in bytes.
  std::multiset<uint64_t> FreeRuns() const {
    std::multiset<uint64_t> runs;
    for (const auto& [volume, blocks] : used_) {
      uint64_t length = 0;
      for (size_t i = 0; i <= blocks.size(); ++i) {
        if (i < blocks.size() && !blocks[i]) {
          length += kB;
        } else if (length > 0) {
          runs.insert(length);
          length = 0;
        }
      }
    }
    return runs;
  }

 private:
  std::map<uint32_t, std::vector<bool>> used_;
};

class SpaceMapTest : public ::testing::Test {
 protected:
  void AddVolume(uint32_t volume, uint64_t blocks) {
    ASSERT_TRUE(map_.AddVolume(volume, kB, (blocks + 1) * kB).ok());
    bitmap_.AddVolume(volume, kB, (blocks + 1) * kB);
  }
  void ExpectAgreement() {
    const auto runs = bitmap_.FreeRuns();
    uint64_t free = 0;
    for (const uint64_t length : runs) free += length;
    ASSERT_EQ(map_.free_bytes(), free);
    ASSERT_EQ(map_.free_runs(), runs.size()) << "neighbours are joined";
    ASSERT_EQ(map_.largest_free_run(), runs.empty() ? 0 : *runs.rbegin());
  }

  SpaceMap map_;
  Bitmap bitmap_;
};

TEST_F(SpaceMapTest, AgreesWithABitmapUnderRandomOperations) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  SeededRandom random(kSeed);
  for (const uint32_t volume : {0u, 1u, 5u}) AddVolume(volume, 200);
  std::vector<std::vector<BlockRun>> held;
  for (int step = 0; step < 20000; ++step) {
    if (random.Below(2) == 0 || held.empty()) {
      const uint64_t bytes = 1 + random.Below(random.Below(4) == 0 ? 60 * kB : 6 * kB);
      const uint64_t largest = map_.largest_free_run(), free = map_.free_bytes();
      const auto runs = map_.Allocate(bytes);
      const uint64_t rounded = RoundUp(bytes, kB);
      ASSERT_TRUE(runs || rounded > largest) << "what fits in one run is not refused";
      ASSERT_TRUE(runs || rounded > free || map_.free_runs() > SpaceMap::kMaxRuns);
      if (!runs) {
        ASSERT_EQ(map_.free_bytes(), free) << "a failure takes nothing";
        continue;
      }
      ASSERT_EQ(TotalBytes(*runs), rounded);
      ASSERT_LE(runs->size(), rounded <= largest ? 1 : SpaceMap::kMaxRuns);
      for (const BlockRun& run : *runs) ASSERT_TRUE(bitmap_.Set(run, true)) << run;
      held.push_back(*runs);
    } else {
      std::swap(held[random.Below(held.size())], held.back());
      ASSERT_TRUE(map_.Free(held.back()).ok());
      for (const BlockRun& run : held.back()) ASSERT_TRUE(bitmap_.Set(run, false));
      held.pop_back();
    }
    if (step % 50 == 0) ExpectAgreement();
  }
  for (const auto& runs : held) ASSERT_TRUE(map_.Free(runs).ok());
  EXPECT_EQ(map_.used_bytes(), 0u);
  EXPECT_EQ(map_.free_runs(), 3u);
}

TEST_F(SpaceMapTest, RandomReservationsAreTakenWhenTheyAreFreeAndRefusedWhole) {
  constexpr uint64_t kSeed = 8;
  SCOPED_TRACE(kSeed);
  SeededRandom random(kSeed);
  AddVolume(0, 300);
  AddVolume(1, 300);
  for (int step = 0; step < 3000; ++step) {
    std::vector<BlockRun> runs(1 + random.Below(3));
    for (BlockRun& run : runs) {
      run = {static_cast<uint32_t>(random.Below(2)), random.Below(310) * kB,
             random.Below(4) * kB + (random.Below(40) == 0 ? 1 : 0)};
    }
    const bool give_back = random.Below(2) == 0;
    Bitmap after = bitmap_;
    bool possible = true;
    for (const BlockRun& run : runs) {
      possible = possible && run.offset > 0 && after.Set(run, !give_back);
    }
    const Status status = give_back ? map_.Free(runs) : map_.Reserve(runs);
    ASSERT_EQ(status.ok(), possible) << status;
    if (possible) bitmap_ = after;
    ExpectAgreement();
  }
}

TEST_F(SpaceMapTest, TakesTheShortestRunThatFits) {
  AddVolume(0, 10);
  const std::vector<BlockRun> used = {{0, 3 * kB, kB}, {0, 6 * kB, kB}};
  ASSERT_TRUE(map_.Reserve(used).ok());  // Free: blocks 1-2, 4-5, 7-10.
  EXPECT_EQ((*map_.Allocate(2 * kB))[0], (BlockRun{0, kB, 2 * kB}));
  EXPECT_EQ((*map_.Allocate(3 * kB))[0], (BlockRun{0, 7 * kB, 3 * kB}));
  EXPECT_EQ(map_.Allocate(3 * kB)->size(), 2u) << "split when nothing is long enough";
  EXPECT_EQ(map_.free_bytes(), 0u);
  EXPECT_FALSE(map_.Allocate(1));
}

TEST_F(SpaceMapTest, AnAllocationHasAtMostSoManyRuns) {
  AddVolume(0, 40);
  for (uint64_t block = 2; block <= 40; block += 2) {
    const BlockRun run = {0, block * kB, kB};
    ASSERT_TRUE(map_.Reserve({&run, 1}).ok());
  }
  EXPECT_FALSE(map_.Allocate((SpaceMap::kMaxRuns + 1) * kB));
  EXPECT_EQ(map_.Allocate(SpaceMap::kMaxRuns * kB)->size(), SpaceMap::kMaxRuns);
}

TEST_F(SpaceMapTest, RefusalsNameTheRun) {
  AddVolume(3, 10);
  const std::vector<BlockRun> good = {{3, kB, 2 * kB}};
  ASSERT_TRUE(map_.Reserve(good).ok());
  for (const BlockRun& bad :
       {BlockRun{3, 2 * kB, kB}, BlockRun{3, 0, kB}, BlockRun{3, 10 * kB, 2 * kB},
        BlockRun{4, kB, kB}, BlockRun{3, kB + 1, kB}, BlockRun{3, 5 * kB, 0},
        BlockRun{3, 4 * kB, UINT64_MAX - kB + 1}}) {
    const Status status = map_.Reserve({&bad, 1});
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << bad;
    EXPECT_NE(Message(status).find("offset " + std::to_string(bad.offset)), std::string::npos);
    EXPECT_EQ(map_.used_bytes(), 2 * kB);
  }
  const BlockRun twice = {3, 2 * kB, 2 * kB};
  EXPECT_EQ(map_.Free({&twice, 1}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(map_.used_bytes(), 2 * kB);
}

TEST_F(SpaceMapTest, BadVolumesAreRefused) {
  AddVolume(0, 10);
  EXPECT_EQ(map_.AddVolume(0, kB, 2 * kB).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(map_.AddVolume(1, 2 * kB, kB).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(map_.AddVolume(1, 1, kB).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(map_.AddVolume(1, kB, kB).ok()) << "a volume of which nothing is left";
  EXPECT_EQ(map_.capacity_bytes(), 10 * kB);
}

}  // namespace
}  // namespace quire::kvserver
