// SPDX-License-Identifier: Apache-2.0
//
// The scrub finds damage that no reader has met, lets a put repair it, and stays out of the way.
#include "kvserver/store/scrubber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <thread>

#include "kvserver/store/testing/faulty_store_fixture.h"

namespace quire::kvserver::testing {
namespace {

class ScrubberTest : public FaultyStoreTest {
 protected:
  void Damage(uint64_t offset) {
    std::fstream file(dir_ / "payload/00000000.vol",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write("damage", 6);
  }
};

TEST_F(ScrubberTest, ARoundReadsEveryUnitFromSsdThoughItIsInDram) {
  ASSERT_TRUE(PutTestChain(*store_, spec_, /*seed=*/1, /*num_segments=*/3).ok());
  const uint64_t hits = Count("dram_unit_hits");
  ASSERT_TRUE(store_->scrubber().RunRound().ok());
  EXPECT_EQ(Count("scrub_rounds"), 1u);
  EXPECT_EQ(Count("scrub_units"), 24u);
  EXPECT_EQ(Count("scrub_bytes"), 3 * SegmentBytes(spec_, spec_.segment_pages));
  EXPECT_EQ(Count("scrub_damaged"), 0u);
  EXPECT_EQ(Count("dram_unit_hits"), hits);
  EXPECT_EQ(Count("promotions"), 0u);
}

TEST_F(ScrubberTest, DamageIsFoundBeforeAReaderMeetsItAndAPutRepairsIt) {
  const auto first = PutTestSegment(*store_, spec_, 1);
  const auto second = PutTestSegment(*store_, spec_, 2);
  Damage(kBlockBytes + 100);  // of the first one
  ASSERT_TRUE(store_->scrubber().RunRound().ok());
  EXPECT_EQ(Count("scrub_damaged"), 1u);
  EXPECT_EQ(Count("segments_damaged"), 1u);
  EXPECT_FALSE(IsStored(1)) << "it counts as missing";
  EXPECT_TRUE(IsStored(2));
  ASSERT_TRUE(store_->scrubber().RunRound().ok());
  EXPECT_EQ(Count("scrub_damaged"), 1u) << "it is found once";
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(Count("segments_repaired"), 1u);
  Open();  // DRAM is empty
  ASSERT_TRUE(store_->scrubber().RunRound().ok());
  EXPECT_EQ(Count("scrub_damaged"), 0u);
  EXPECT_EQ(*ReadSegment(*store_, spec_, *first), first->payload);
}

TEST_F(ScrubberTest, ADamagedRecordIsFound) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Database::Batch batch = store_->database().NewBatch();
  batch.Put(Table::kSegments, segment->key.view(), {"nonsense"});
  ASSERT_TRUE(store_->database().Commit(batch, /*sync=*/false).ok());
  ASSERT_TRUE(store_->scrubber().RunRound().ok());
  EXPECT_EQ(Count("scrub_damaged"), 1u);
}

TEST_F(ScrubberTest, ADeviceThatFailsIsCountedAndIsNoDamage) {
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  engine_.FailEverything(EIO);
  ASSERT_TRUE(store_->scrubber().RunRound().ok());
  EXPECT_EQ(Count("scrub_errors"), 8u);
  EXPECT_EQ(Count("segments_damaged"), 0u);
  engine_.FailEverything(0);
  EXPECT_TRUE(IsStored(1));
}

TEST_F(ScrubberTest, ADeleteGoesOnBesideItAndIsNotTakenForDamage) {
  std::atomic<bool> done{false};
  std::thread scrubbing([&] {
    while (!done.load()) EXPECT_TRUE(store_->scrubber().RunRound().ok());
  });
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto segment = PutTestSegment(*store_, spec_, seed % 7);
    ASSERT_TRUE(segment.ok()) << segment.status();
    ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  }
  done.store(true);
  scrubbing.join();
  EXPECT_EQ(Count("scrub_damaged"), 0u);
  EXPECT_EQ(Count("segments_damaged"), 0u);
}

TEST_F(ScrubberTest, ItStopsInTheMiddleOfARound) {
  options_.scrub_bytes_per_second = 1;  // the first wait is longer than any test
  Open();
  ASSERT_TRUE(PutTestChain(*store_, spec_, /*seed=*/1, /*num_segments=*/3).ok());
  std::thread round([&] { EXPECT_TRUE(store_->scrubber().RunRound().ok()); });
  while (Count("scrub_units") == 0) std::this_thread::yield();
  store_->scrubber().Stop();
  round.join();
  EXPECT_EQ(Count("scrub_rounds"), 0u);
  store_.reset();  // and its own thread, which waits for its first round
}

}  // namespace
}  // namespace quire::kvserver::testing
