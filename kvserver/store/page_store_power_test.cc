// SPDX-License-Identifier: Apache-2.0
//
// Promise 3 against single power failures, on a simulated disk that forgets unsynced writes. `quire
// torture power` does the same at random.
#include <gtest/gtest.h>

#include <memory>

#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/testing/power_disk.h"
#include "kvserver/store/testing/disk_file_system.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/effort.h"

namespace quire::kvserver::testing {
namespace {

constexpr uint64_t kSeeds = 24;

class PageStorePowerTest : public ::testing::Test {
 protected:
  void StartWithAnEmptyDisk() {
    store_.reset();
    env_.reset();
    disk_ = std::make_unique<PowerDisk>();
    engine_ = std::make_unique<DiskEngine>(disk_.get());
    env_ = MakeDiskEnv(disk_.get());
    ASSERT_EQ(MakeDurableDirectory(*disk_, "/disk"), 0);
  }
  void StartAfresh() {
    StartWithAnEmptyDisk();
    Open();
  }
  StatusOr<std::unique_ptr<PageStoreImpl>> TryOpen() {
    return PageStoreImpl::Open(
        {.ssd_path = "/disk/store", .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes},
        {.env = env_.get(), .engine = engine_.get(), .disk = disk_.get()});
  }
  void Open() {
    auto opened = TryOpen();
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  /// Cuts the power and restores it.
  void FailPower(uint64_t seed) {
    disk_->CutAfter(0);
    store_.reset();
    disk_->Restart(seed);
    Open();
  }
  StatusOr<TestSegment> Put(uint64_t seed, Durability durability) {
    return PutTestSegment(*store_, spec_, seed, kRootKey, /*num_tokens=*/0, durability);
  }
  bool IsOffered(uint64_t seed) {
    return !store_->Lookup("default", spec_, MakeTokens(spec_.segment_tokens(), seed))->empty();
  }
  uint64_t Count(const std::string& name) { return CountersOf(*store_)[name]; }

  const KvSpec spec_ = LargeUnitSpec();
  std::unique_ptr<PowerDisk> disk_;
  std::unique_ptr<DiskEngine> engine_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<PageStoreImpl> store_;
};

TEST_F(PageStorePowerTest, Promise3AStoreThatWasJustMadeOpensWhereverThePowerFailed) {
  constexpr uint64_t kStep = quire::testing::Effort(1, 4);
  for (uint64_t operation = 0; operation < 150; operation += kStep) {
    SCOPED_TRACE(operation);
    StartWithAnEmptyDisk();
    disk_->CutAfter(operation);
    (void)TryOpen();
    disk_->Restart(operation);
    Open();
  }
}

// A record may reach the device before its payload. It is then never served, and a put stores it
// again.
TEST_F(PageStorePowerTest, Promise3APutOverOneThatWasTornIsStoredAnew) {
  uint64_t torn = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    StartAfresh();
    ASSERT_TRUE(Put(1, Durability::kMemory).ok());
    FailPower(seed);
    torn += Count("segments_torn");
    if (IsOffered(1)) {
      EXPECT_EQ(Count("segments_torn"), 0u);
      const auto tokens = MakeTokens(spec_.segment_tokens(), 1);
      const SegmentKey key = store_->Lookup("default", spec_, tokens)->front();
      EXPECT_TRUE(ReadSegment(*store_, spec_, {key, tokens, {}}).ok());
    }
    const auto segment = Put(1, Durability::kPersisted);
    ASSERT_TRUE(segment.ok()) << segment.status();
    FailPower(seed);
    EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  }
  EXPECT_GT(torn, 0u) << "no record ever came before its payload: the test shows nothing";
}

// A power failure may undo a delete: its space has not been rewritten since.
TEST_F(PageStorePowerTest, Promise3ADeleteThatIsUndoneLeavesTheSegmentWhole) {
  uint64_t undone = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    StartAfresh();
    const auto segment = Put(1, Durability::kPersisted);
    ASSERT_TRUE(segment.ok()) << segment.status();
    ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
    for (uint64_t other = 2; other < 6; ++other) ASSERT_TRUE(Put(other, Durability::kMemory).ok());
    FailPower(seed);
    if (!IsOffered(1)) continue;
    ++undone;
    EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  }
  EXPECT_GT(undone, 0u) << "no delete was ever undone: the test shows nothing";
}

TEST_F(PageStorePowerTest, SpaceOfADeleteIsUsedAgainAfterTheNextPersistedPut) {
  StartAfresh();
  const auto segment = Put(1, Durability::kPersisted);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const uint64_t used = Count("payload_used_bytes");
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  EXPECT_EQ(Count("payload_used_bytes"), used) << "the delete may still be undone";
  ASSERT_TRUE(Put(2, Durability::kPersisted).ok());
  EXPECT_EQ(Count("payload_used_bytes"), used);
}

TEST_F(PageStorePowerTest, AnOrderlyEndMakesEverythingDurable) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    StartAfresh();
    const auto segment = Put(1, Durability::kMemory);
    ASSERT_TRUE(segment.ok()) << segment.status();
    store_.reset();
    disk_->Restart(seed);
    Open();
    EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  }
}

TEST_F(PageStorePowerTest, Promise3AFormatThatWasLostIsWrittenAnew) {
  StartAfresh();
  const auto segment = Put(1, Durability::kPersisted);
  ASSERT_TRUE(segment.ok()) << segment.status();
  store_.reset();
  ASSERT_EQ(disk_->Remove("/disk/store/FORMAT"), 0);
  Open();
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
}

}  // namespace
}  // namespace quire::kvserver::testing
