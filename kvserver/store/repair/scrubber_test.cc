// SPDX-License-Identifier: Apache-2.0
//
// The scrub finds damage before a reader does, repairs it or leaves that to a put, reports it, and
// does not disturb other work.
#include "kvserver/store/repair/scrubber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "kvserver/store/testing/faulty_store_fixture.h"
#include "kvserver/store/testing/memory_damage.h"
#include "kvserver/store/testing/volume_damage.h"
#include "tests/kit/look_again.h"

namespace quire::kvserver::testing {
namespace {

/// Keeps all reports.
class Told final : public ScrubObserver {
 public:
  void OnDamage(std::string_view kind, const std::string& what) override {
    damage.push_back(std::string(kind) + ": " + what);
  }
  void OnRound(const ScrubRound& round) override { rounds.push_back(round); }

  std::vector<std::string> damage;
  std::vector<ScrubRound> rounds;
};

class ScrubberTest : public FaultyStoreTest {
 protected:
  void SetUp() override {
    options_.scrub_observer = &told_;
    Open();
  }
  uint64_t Scrubbed(const std::string& what, const std::string& kind = "payload") {
    return Count("scrub_" + what + "{kind=\"" + kind + "\"}");
  }
  /// Overwrites a row with garbage.
  void DamageRow(Table table, std::string_view key) {
    Database::Batch batch = store_->database().NewBatch();
    batch.Put(table, key, {"nonsense"});
    ASSERT_TRUE(store_->database().Commit(batch, /*sync=*/false).ok());
  }
  void Damage(uint64_t offset) {
    std::fstream file(dir_ / "payload/00000000.vol",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write("damage", 6);
  }

  Told told_;
};

TEST_F(ScrubberTest, ARoundReadsEveryUnitFromSsdThoughItIsInDram) {
  ASSERT_TRUE(PutTestChain(*store_, spec_, /*seed=*/1, /*num_segments=*/3).ok());
  const uint64_t hits = Count("dram_unit_hits");
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_EQ(Scrubbed("rounds"), 1u);
  EXPECT_EQ(Scrubbed("checked"), 24u);
  EXPECT_EQ(Scrubbed("bytes"), 3 * SegmentBytes(spec_, spec_.segment_pages));
  EXPECT_EQ(Scrubbed("damaged"), 0u);
  EXPECT_EQ(Count("dram_unit_hits"), hits);
  EXPECT_EQ(Count("promotions"), 0u);
}

TEST_F(ScrubberTest, DamageIsFoundBeforeAReaderMeetsItAndAPutRepairsIt) {
  const auto first = PutTestSegment(*store_, spec_, 1);
  const auto second = PutTestSegment(*store_, spec_, 2);
  Damage(kBlockBytes + 100);  // damages the first one
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged"), 1u);
  EXPECT_EQ(Count("segments_damaged"), 1u);
  EXPECT_FALSE(IsStored(1)) << "it counts as missing";
  EXPECT_TRUE(IsStored(2));
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged"), 1u) << "it is found once";
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(Count("segments_repaired"), 1u);
  Open();  // DRAM is empty
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged"), 0u);
  EXPECT_EQ(*ReadSegment(*store_, spec_, *first), first->payload);
}

TEST_F(ScrubberTest, DamagedRecordsAreFoundAndTheirSegmentsCountAsMissing) {
  const auto of_segment = PutTestSegment(*store_, spec_, 1);
  const auto of_extent = PutTestSegment(*store_, spec_, 2);
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 3).ok());
  ASSERT_TRUE(store_->scrubber("records").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "records"), 0u);
  EXPECT_GT(Scrubbed("checked", "records"), 3u);
  DamageRow(Table::kSegments, of_segment->key.view());
  DamageRow(Table::kExtents, SsdTier::RecordKey({of_extent->key, 1}));
  ASSERT_TRUE(store_->scrubber("records").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "records"), 2u);
  EXPECT_FALSE(IsStored(1));
  EXPECT_FALSE(IsStored(2));
  EXPECT_TRUE(IsStored(3));
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 2).ok());
  ASSERT_TRUE(store_->scrubber("records").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "records"), 2u) << "puts have mended them";
}

TEST_F(ScrubberTest, Promise2AFlippedBitOfACachedRecordIsDroppedAndReadAnew) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 2).ok());
  const auto find = [&] { return *store_->catalog().Find("default", segment->key); };
  const SegmentRecordPtr cached = find();
  const SegmentRecord right = *cached;
  ASSERT_TRUE(store_->scrubber("cached_records").RunRound().ok());
  EXPECT_EQ(Scrubbed("checked", "cached_records"), 2u);
  EXPECT_GT(Scrubbed("bytes", "cached_records"), 0u);
  FlipBit(std::as_bytes(std::span(cached->unit_crc32c)));
  ASSERT_NE(*find(), right);
  ASSERT_TRUE(store_->scrubber("cached_records").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "cached_records"), 1u);
  EXPECT_EQ(Scrubbed("mended", "cached_records"), 1u);
  EXPECT_EQ(*find(), right);
  ASSERT_EQ(told_.damage.size(), 1u);
  EXPECT_EQ(told_.damage[0].find("cached_records: 1 records in memory"), 0u) << told_.damage[0];
  ASSERT_TRUE(store_->scrubber("cached_records").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "cached_records"), 1u);
  EXPECT_EQ(Count("segments_damaged"), 0u);
}

TEST_F(ScrubberTest, Promise2AFlippedBitOfACachedChainIsDroppedAndWalkedAnew) {
  const auto chain = PutTestChain(*store_, spec_, /*seed=*/1, /*num_segments=*/3);
  ASSERT_TRUE(chain.ok());
  const auto resolve = [&] { return *store_->ResolveChain("default", chain->back().key); };
  const ChainPtr cached = resolve();
  const std::vector<SegmentKey> right = cached->keys;
  FlipBit(std::as_bytes(std::span(cached->keys)));
  ASSERT_NE(resolve()->keys, right);
  ASSERT_TRUE(store_->scrubber("cached_records").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "cached_records"), 1u);
  EXPECT_EQ(resolve()->keys, right);
}

TEST_F(ScrubberTest, RecordsOfExtentsThatWereReadAreVerifiedInMemory) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Open();  // No cache has anything.
  ASSERT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  ASSERT_TRUE(store_->scrubber("cached_records").RunRound().ok());
  EXPECT_EQ(Scrubbed("checked", "cached_records"), 1u + spec_.num_layers)
      << "that of the segment, and those of its extents";
}

TEST_F(ScrubberTest, RowsOfOthersAreCheckedByWhoKnowsThem) {
  options_.check_metadata = [](std::string_view, std::string_view value) {
    return value == "nonsense" ? DataLoss("no such row was written") : OkStatus();
  };
  Open();
  DamageRow(Table::kMetadata, "a");
  DamageRow(Table::kTenants, "b");
  ASSERT_TRUE(store_->scrubber("records").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "records"), 2u);
  EXPECT_EQ(told_.damage.size(), 2u);
  EXPECT_EQ(Count("troubles{reason=\"records_damaged\"}"), 2u);
  EXPECT_EQ(Count("degraded{reason=\"records_damaged\"}"), 1u);
  Database::Batch batch = store_->database().NewBatch();
  batch.Delete(Table::kMetadata, "a");
  batch.Delete(Table::kTenants, "b");
  ASSERT_TRUE(store_->database().Commit(batch, /*sync=*/false).ok());
  ASSERT_TRUE(store_->scrubber("records").RunRound().ok());
  EXPECT_EQ(Count("degraded{reason=\"records_damaged\"}"), 0u);
}

TEST_F(ScrubberTest, Promise2AFlippedBitInDramIsMendedBeforeAReaderMeetsIt) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(store_->scrubber("dram").RunRound().ok());
  EXPECT_EQ(Scrubbed("checked", "dram"), 8u);
  EXPECT_EQ(Scrubbed("bytes", "dram"), segment->payload.size());
  FlipBit(store_->dram(), {segment->key, 1}, 2);
  const uint64_t misses = Count("dram_unit_misses");
  ASSERT_TRUE(store_->scrubber("dram").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "dram"), 1u);
  EXPECT_EQ(Scrubbed("mended", "dram"), 1u);
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  EXPECT_EQ(Count("dram_unit_misses"), misses) << "it is in DRAM again";
  ASSERT_EQ(told_.damage.size(), 1u);
  EXPECT_NE(told_.damage[0].find("dram: segment " + segment->key.Hex() + " layer 1"),
            std::string::npos)
      << told_.damage[0];
  ASSERT_EQ(told_.rounds.size(), 2u);
  EXPECT_EQ(told_.rounds[1].kind, "dram");
  EXPECT_EQ(told_.rounds[1].counts.damaged, 1u);
}

TEST_F(ScrubberTest, Promise2AFlippedBitInDramOnlyMakesTheSegmentMissingUntilItIsPutAgain) {
  options_.ssd_write_bytes_per_second = 1;
  options_.ssd_write_burst_bytes = 1;
  Open();
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_EQ(Count("puts_dram_only"), 1u);
  FlipBit(store_->dram(), {segment->key, 0}, 0);
  ASSERT_TRUE(store_->scrubber("dram").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "dram"), 1u);
  EXPECT_EQ(Scrubbed("mended", "dram"), 0u);
  EXPECT_FALSE(IsStored(1));
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
}

TEST_F(ScrubberTest, DamagedDigestsAreMadeAnew) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  for (const auto kind : {kernels::DigestKind::kMinMax, kernels::DigestKind::kMean}) {
    const std::vector<std::byte> right =
        *store_->ReadDigests("default", segment->key, 1, kind)->bytes;
    const std::string key = DigestStore::KeyOf({{segment->key, 1}, kind});
    if (kind == kernels::DigestKind::kMinMax) {
      OverwriteOnSsd(store_->database(), dir_.path(), {segment->key, kDigestsLayer}, 1, "nonsense");
    } else {
      DamageRow(Table::kDigests, key);
    }
    ASSERT_TRUE(store_->scrubber("digests").RunRound().ok());
    const StatusOr<std::string> row = store_->database().Get(Table::kDigests, key);
    ASSERT_TRUE(row.ok()) << row.status();
    EXPECT_EQ(
        row->compare(0, right.size(), reinterpret_cast<const char*>(right.data()), right.size()),
        0);
  }
  EXPECT_EQ(Scrubbed("damaged", "digests"), 2u);
  EXPECT_EQ(Scrubbed("mended", "digests"), 2u);
  EXPECT_EQ(Scrubbed("damaged"), 0u) << "the units are whole";
  DamageRow(Table::kDigests, DigestStore::KeyOf({{segment->key, 1}}));
  ASSERT_TRUE(store_->scrubber("digests").RunRound().ok());
  EXPECT_EQ(Scrubbed("mended", "digests"), 3u) << "the row that stands for the extent";
}

TEST_F(ScrubberTest, DamagedRepresentativesAreTheMeansUntilAClientGivesThemAgain) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  constexpr auto kKind = kernels::DigestKind::kRepresentatives;
  const std::vector<std::byte> given(
      spec_.num_layers *
      store_->ReadDigests("default", segment->key, 0, kernels::DigestKind::kMean)->bytes->size());
  ASSERT_EQ(*store_->PutRepresentatives("default", segment->key, given), false);
  std::string key(SsdTier::RecordKey({segment->key, 0}));
  key.push_back(static_cast<char>(kKind));
  DamageRow(Table::kDigests, key);
  ASSERT_TRUE(store_->scrubber("digests").RunRound().ok());
  EXPECT_EQ(Scrubbed("damaged", "digests"), 1u);
  EXPECT_EQ(*store_->ReadDigests("default", segment->key, 0, kKind)->bytes,
            *store_->ReadDigests("default", segment->key, 0, kernels::DigestKind::kMean)->bytes);
  EXPECT_EQ(*store_->PutRepresentatives("default", segment->key, given), false) << "taken again";
}

TEST_F(ScrubberTest, ADeviceThatFailsIsCountedAndIsNoDamage) {
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  engine_.FailEverything(EIO);
  ASSERT_TRUE(store_->scrubber("payload").RunRound().ok());
  EXPECT_EQ(Scrubbed("errors"), 8u);
  EXPECT_EQ(Count("segments_damaged"), 0u);
  engine_.FailEverything(0);
  EXPECT_TRUE(IsStored(1));
}

TEST_F(ScrubberTest, ADeleteGoesOnBesideItAndIsNotTakenForDamage) {
  std::atomic<bool> done{false};
  std::thread scrubbing([&] {
    while (!done.load()) EXPECT_TRUE(store_->scrubber("payload").RunRound().ok());
  });
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto segment = PutTestSegment(*store_, spec_, seed % 7);
    ASSERT_TRUE(segment.ok()) << segment.status();
    ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  }
  done.store(true);
  scrubbing.join();
  EXPECT_EQ(Scrubbed("damaged"), 0u);
  EXPECT_EQ(Count("segments_damaged"), 0u);
}

TEST_F(ScrubberTest, ItStopsInTheMiddleOfARound) {
  options_.scrub_bytes_per_second = {.payload = 1};  // the first wait is longer than any test
  Open();
  ASSERT_TRUE(PutTestChain(*store_, spec_, /*seed=*/1, /*num_segments=*/3).ok());
  std::thread round([&] { EXPECT_TRUE(store_->scrubber("payload").RunRound().ok()); });
  while (Scrubbed("checked") == 0) quire::testing::WaitToLookAgain();
  store_->scrubber("payload").Stop();
  round.join();
  EXPECT_EQ(Scrubbed("rounds"), 0u);
  store_.reset();  // and its own thread, which waits for its first round
}

}  // namespace
}  // namespace quire::kvserver::testing
