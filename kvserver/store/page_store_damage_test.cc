// SPDX-License-Identifier: Apache-2.0
//
// Promise 2 for bytes that are damaged in memory: bytes that fail their checksum are never
// returned. The server verifies the bytes that it uses, and mends damaged ones. Bytes that it
// cannot mend count as missing until they are put again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/testing/memory_damage.h"
#include "kvserver/store/testing/store_kit.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/health_lines.h"
#include "tests/kit/same_bytes.h"
#include "tests/kit/temp_dir.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class PageStoreDamageTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    auto opened = PageStoreImpl::Open(options_, {});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  uint64_t Count(const std::string& name) { return CountersOf(*store_)[name]; }
  void Flip(const TestSegment& segment, uint32_t layer, uint32_t unit) {
    FlipBit(store_->dram(), {segment.key, layer}, unit);
  }
  StatusOr<PutSegmentResult> PutAgain(const TestSegment& segment, CodecParams codec = {}) {
    PutSegmentArgs args;
    args.spec = &spec_;
    args.tokens = segment.tokens;
    args.payload = segment.payload;
    args.durability = Durability::kMemory;
    args.codec = codec;
    return store_->PutSegment("default", args);
  }
  bool IsOffered(const TestSegment& segment) {
    return !store_->Lookup("default", spec_, segment.tokens)->empty();
  }
  Status ReadOne(const TestSegment& segment, uint32_t layer, uint32_t unit,
                 std::vector<VerifiedBytes>* out) {
    const std::vector<UnitAddress> one = {{segment.key, layer, unit}};
    return store_->ReadVerified("default", one, out);
  }
  std::span<const std::byte> UnitOf(const TestSegment& segment, uint32_t layer, uint32_t unit) {
    const uint64_t bytes = quire::UnitBytes(spec_);
    const uint64_t extent = ExtentBytes(spec_, PageCount(spec_, segment.tokens.size()));
    return std::span(segment.payload).subspan(layer * extent + unit * bytes, bytes);
  }
  /// Digests of the segment's payload at layer 0, made by a kernel.
  std::vector<std::byte> DigestsOf(const TestSegment& segment, kernels::DigestKind kind) {
    return *store_->ReadDigests("default", segment.key, 0, kind)->bytes;
  }

  quire::testing::TempDir dir_;
  PageStore::Options options_{
      .ssd_path = dir_.path(), .dram_bytes = 1 << 20, .ssd_volume_bytes = kTestVolumeBytes};
  KvSpec spec_ = SmallSpec();
  std::unique_ptr<PageStoreImpl> store_;
};

TEST_F(PageStoreDamageTest, Promise2AServerThatUsesAFlippedUnitReadsItFromSsdAndPutsItBack) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  Flip(*segment, 1, 2);
  std::vector<VerifiedBytes> units;
  for (int times = 0; times < 2; ++times) {
    const Status read = ReadOne(*segment, 1, 2, &units);
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_TRUE(quire::testing::SameBytes(units[0].bytes(), UnitOf(*segment, 1, 2)));
  }
  EXPECT_EQ(Count("dram_extents_damaged"), 1u) << "mended once";
  EXPECT_EQ(Count("dram_extents_mended"), 1u);
  EXPECT_TRUE(store_->dram().Has({segment->key, 1})) << "it is back in DRAM";
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  EXPECT_TRUE(IsOffered(*segment));
  EXPECT_EQ(Count("segments_damaged"), 0u);
}

TEST_F(PageStoreDamageTest, Promise2AReportOfAFlippedUnitMendsItForEveryReader) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Flip(*segment, 0, 3);
  ASSERT_NE(*ReadSegment(*store_, spec_, *segment), segment->payload)
      << "a hand-out is verified by who receives it";
  const std::vector<ReportedUnit> seen = {{{segment->key, 0, 3}, 1}};
  ASSERT_TRUE(store_->Recheck("default", seen).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  EXPECT_EQ(Count("units_reported"), 1u);
  EXPECT_EQ(Count("units_reported_intact"), 0u);
}

TEST_F(PageStoreDamageTest, AReportEvictsNothingThatVerifiesAndTellsOfTheWay) {
  quire::testing::HealthLines health;
  options_.health = health.board();
  Open();
  const auto segment = PutTestSegment(*store_, spec_, 1);
  const ResidentPtr before = store_->dram().Get({segment->key, 0});
  const std::vector<ReportedUnit> seen = {{{segment->key, 0, 0}, 0xabcd},
                                          {{segment->key, 0, 1}, 2}};
  ASSERT_TRUE(store_->Recheck("default", seen).ok());
  EXPECT_EQ(store_->dram().Get({segment->key, 0}), before);
  EXPECT_EQ(Count("units_reported_intact"), 2u);
  EXPECT_EQ(Count("dram_extents_damaged"), 0u);
  EXPECT_EQ(Count("troubles{reason=\"memory_damaged\"}"), 0u);
  ASSERT_EQ(health.lines().size(), 1u) << "one of an extent";
  EXPECT_THAT(health.lines().front(),
              AllOf(StartsWith("damaged_on_the_way: segment " + segment->key.Hex() +
                               " layer 0 unit 0 came to a client with the checksum 0xabcd and is "
                               "intact here with 0x"),
                    HasSubstr("check the network")));
  store_.reset();
}

TEST_F(PageStoreDamageTest, Promise7AReportOfAnotherTenantsUnitIsNotFound) {
  options_.tenants = {"default", "other"};
  Open();
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Flip(*segment, 0, 0);
  const std::vector<ReportedUnit> seen = {{{segment->key, 0, 0}, 1}};
  EXPECT_EQ(store_->Recheck("other", seen).code(), StatusCode::kNotFound);
  EXPECT_EQ(Count("dram_extents_damaged"), 0u);
}

TEST_F(PageStoreDamageTest, Promise2AFlippedUnitThatIsEncodedIsReadFromSsd) {
  TestSegment segment{.key = {}, .tokens = MakeTokens(8, 5), .payload = MakePayload(spec_, 8, 5)};
  const auto put = PutAgain(segment, {.id = CodecId::kInt8});
  ASSERT_TRUE(put.ok()) << put.status();
  segment.key = put->key;
  const std::vector<std::byte> before = *ReadSegment(*store_, spec_, segment);
  Flip(segment, 0, 1);
  for (int times = 0; times < 2; ++times) {
    const auto after = ReadSegment(*store_, spec_, segment);
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(*after, before);
  }
  EXPECT_EQ(Count("dram_extents_damaged"), 1u);
  EXPECT_EQ(Count("dram_extents_mended"), 1u);
}

TEST_F(PageStoreDamageTest, Promise2APinnedExtentIsMendedAndStaysPinned) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  const std::vector<SegmentKey> keys = {segment->key};
  ASSERT_TRUE(store_->PinSegments("default", keys).ok());
  Flip(*segment, 0, 0);
  std::vector<VerifiedBytes> units;
  ASSERT_TRUE(ReadOne(*segment, 0, 0, &units).ok());
  EXPECT_TRUE(quire::testing::SameBytes(units[0].bytes(), UnitOf(*segment, 0, 0)));
  EXPECT_GT(Count("dram_bytes_pinned"), 0u);
  ASSERT_TRUE(PutTestChain(*store_, spec_, 100, 400).ok());  // More than fits in the arena.
  EXPECT_GT(Count("dram_evictions"), 0u);
  EXPECT_TRUE(store_->dram().Has({segment->key, 0}));
  EXPECT_TRUE(store_->UnpinSegments("default", keys).ok());
}

TEST_F(PageStoreDamageTest, Promise2DamageInDramAndOnSsdIsDataLossAndAPutRepairsBoth) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Flip(*segment, 0, 0);
  Database::Batch batch = store_->database().NewBatch();
  batch.Put(Table::kExtents, SsdTier::RecordKey({segment->key, 0}), {"damaged"});
  ASSERT_TRUE(store_->database().Commit(batch, /*sync=*/false).ok());
  std::vector<VerifiedBytes> units;
  EXPECT_EQ(ReadOne(*segment, 0, 0, &units).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(units.empty());
  EXPECT_FALSE(IsOffered(*segment));
  ASSERT_TRUE(PutAgain(*segment).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), segment->payload);
  EXPECT_TRUE(IsOffered(*segment));
}

TEST_F(PageStoreDamageTest, Promise2DigestsAreNotDerivedFromAFlippedUnit) {
  constexpr auto kKind = kernels::DigestKind::kCentreRadius;
  const auto segment = PutTestSegment(*store_, spec_, 1);
  Flip(*segment, 0, 0);
  const std::vector<std::byte> derived = DigestsOf(*segment, kKind);
  EXPECT_EQ(Count("dram_extents_mended"), 1u);
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  ASSERT_TRUE(PutAgain(*segment).ok());
  EXPECT_EQ(derived, DigestsOf(*segment, kKind));
}

TEST_F(PageStoreDamageTest, Promise2DigestsDamagedInMemoryAreReadAgain) {
  for (const auto kind : {kernels::DigestKind::kMinMax, kernels::DigestKind::kMean}) {
    const auto segment = PutTestSegment(*store_, spec_, 1);
    const std::vector<std::byte> right = DigestsOf(*segment, kind);
    const auto held = store_->ReadDigests("default", segment->key, 0, kind)->bytes;
    FlipBit(std::span(*held));
    EXPECT_EQ(DigestsOf(*segment, kind), right);
  }
  EXPECT_EQ(Count("digests_damaged"), 2u);
}

TEST_F(PageStoreDamageTest, Promise2APayloadThatChangedSinceItArrivedIsNotStored) {
  std::vector<std::byte> payload = MakePayload(spec_, 8, 5);
  std::vector<uint32_t> arrived;
  const uint64_t unit_bytes = quire::UnitBytes(spec_);
  for (uint64_t at = 0; at < payload.size(); at += unit_bytes) {
    arrived.push_back(Crc32c(std::span(payload).subspan(at, unit_bytes)));
  }
  const std::vector<TokenId> tokens = MakeTokens(8, 5);
  PutSegmentArgs args;
  args.spec = &spec_;
  args.tokens = tokens;
  args.payload = payload;
  args.unit_crc32c = arrived;
  payload[3 * unit_bytes + 7] ^= std::byte{1};
  for (const CodecId codec : {CodecId::kRaw, CodecId::kInt8}) {
    args.codec = {.id = codec};
    const Status refused = store_->PutSegment("default", args).status();
    EXPECT_EQ(refused.code(), StatusCode::kDataLoss) << refused;
  }
  payload[3 * unit_bytes + 7] ^= std::byte{1};
  EXPECT_TRUE(store_->PutSegment("default", args).ok());
  args.unit_crc32c = std::span(arrived).first(1);
  EXPECT_EQ(store_->PutSegment("default", args).status().code(), StatusCode::kInvalidArgument);
}

/// Segments that the write budget keeps only in DRAM.
class DramOnlyDamageTest : public PageStoreDamageTest {
 protected:
  void SetUp() override {
    options_.ssd_write_bytes_per_second = 1;
    options_.ssd_write_burst_bytes = 1;
    options_.clock = &clock_;
    Open();
    segment_ = *PutTestSegment(*store_, spec_, 1);
    ASSERT_EQ(Count("puts_dram_only"), 1u);
  }
  quire::testing::FakeClock clock_;
  TestSegment segment_;
};

TEST_F(DramOnlyDamageTest, Promise2IsDataLossOnceAndIsThenMissingUntilItIsPutAgain) {
  Flip(segment_, 0, 1);
  std::vector<VerifiedBytes> units;
  const Status lost = ReadOne(segment_, 0, 1, &units);
  EXPECT_EQ(lost.code(), StatusCode::kDataLoss) << lost;
  EXPECT_EQ(ReadOne(segment_, 0, 1, &units).code(), StatusCode::kNotFound);
  EXPECT_EQ(Count("dram_extents_lost"), 1u);
  EXPECT_EQ(Count("segments_damaged"), 1u);
  EXPECT_FALSE(IsOffered(segment_)) << "so that it is sent again";
  const auto put = PutAgain(segment_);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->existed) << "it was sent";
  EXPECT_EQ(Count("segments_damaged"), 0u);
  EXPECT_TRUE(IsOffered(segment_));
  EXPECT_EQ(*ReadSegment(*store_, spec_, segment_), segment_.payload);
}

TEST_F(DramOnlyDamageTest, Promise2IsNotOfferedThoughNobodyHasReadItSince) {
  ASSERT_TRUE(IsOffered(segment_));
  Flip(segment_, 1, 2);
  EXPECT_FALSE(IsOffered(segment_));
  EXPECT_EQ(Count("dram_extents_lost"), 1u);
  ASSERT_TRUE(PutAgain(segment_).ok());
  EXPECT_EQ(*ReadSegment(*store_, spec_, segment_), segment_.payload);
}

TEST_F(DramOnlyDamageTest, Promise2APutMendsItThoughNobodyHasReadItSince) {
  Flip(segment_, 0, 3);
  const auto put = PutAgain(segment_);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->existed);
  EXPECT_EQ(*ReadSegment(*store_, spec_, segment_), segment_.payload);
  EXPECT_TRUE(PutAgain(segment_)->existed) << "it is whole now";
}

TEST_F(DramOnlyDamageTest, Promise2AReportOfItIsDataLoss) {
  Flip(segment_, 1, 0);
  const std::vector<ReportedUnit> seen = {{{segment_.key, 1, 0}, 1}};
  EXPECT_EQ(store_->Recheck("default", seen).code(), StatusCode::kDataLoss);
  EXPECT_FALSE(IsOffered(segment_));
}

TEST_F(DramOnlyDamageTest, Promise2WhatIsWrittenOutIsVerifiedFirst) {
  Flip(segment_, 1, 3);
  const auto child = [&] {
    return PutTestSegment(*store_, spec_, 2, segment_.key, /*num_tokens=*/0,
                          Durability::kPersisted);
  };
  const Status refused = child().status();
  EXPECT_EQ(refused.code(), StatusCode::kDataLoss) << refused;
  EXPECT_EQ(Count("dram_extents_lost"), 1u);
  EXPECT_FALSE(IsOffered(segment_));
  EXPECT_EQ(Count("ssd_bytes_used"), 0u) << "nothing of it was written";
  const auto put = PutAgain(segment_);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->existed);
  const auto tip = child();
  ASSERT_TRUE(tip.ok()) << tip.status();
  Open();
  EXPECT_EQ(*ReadSegment(*store_, spec_, segment_), segment_.payload);
}

}  // namespace
}  // namespace quire::kvserver::testing
