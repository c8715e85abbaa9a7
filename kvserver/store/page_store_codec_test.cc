// SPDX-License-Identifier: Apache-2.0
//
// The store with encoded segments. For every codec, readers get the same bytes from DRAM, from SSD
// and after a restart, and digests bound the keys.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/store/testing/page_store_fixture.h"

namespace quire::kvserver::testing {
namespace {

class PageStoreCodecTest : public PageStoreTest, public ::testing::WithParamInterface<std::string> {
 protected:
  CodecParams codec() { return CodecByName(GetParam()).value(); }
  StatusOr<TestSegment> PutEncoded(const CodecParams& codec, size_t num_tokens = 8) {
    TestSegment segment;
    segment.tokens = MakeTokens(num_tokens, 5);
    segment.payload = MakePayload(spec_, num_tokens, 5);
    PutSegmentArgs args;
    args.spec = &spec_;
    args.tokens = segment.tokens;
    args.payload = segment.payload;
    args.codec = codec;
    QUIRE_ASSIGN_OR_RETURN(const PutSegmentResult result, store_->PutSegment("default", args));
    segment.key = result.key;
    return segment;
  }
  std::vector<std::byte> Read(const TestSegment& segment) {
    const auto bytes = ReadSegment(*store_, spec_, segment);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *bytes : std::vector<std::byte>();
  }
};

TEST_P(PageStoreCodecTest, TheSameBytesComeFromDramFromSsdAndAfterARestart) {
  const auto segment = PutEncoded(codec(), 7);  // the last page is short
  ASSERT_TRUE(segment.ok()) << segment.status();
  const std::vector<std::byte> from_dram = Read(*segment);
  EXPECT_GT(Count("dram_unit_hits"), 0u);
  Open();
  EXPECT_EQ(Read(*segment), from_dram);
  EXPECT_GT(Count("ssd_unit_reads"), 0u);
  EXPECT_EQ(Read(*segment), from_dram);  // promotes
  EXPECT_EQ(Read(*segment), from_dram);
  EXPECT_GT(Count("promotions"), 0u);
}

TEST_P(PageStoreCodecTest, WhatIsReadIsCloseToWhatWasPut) {
  const auto segment = PutEncoded(codec());
  ASSERT_TRUE(segment.ok()) << segment.status();
  const std::vector<std::byte> read = Read(*segment);
  ASSERT_EQ(read.size(), segment->payload.size());
  // Values are within 0.5; int4 has 15 steps between a row's minimum and maximum.
  const float bound = codec().id == CodecId::kRaw ? 0 : codec().id == CodecId::kInt4 ? 0.05 : 0.03;
  for (size_t i = 0; i < read.size() / 2; ++i) {
    const auto at = static_cast<int64_t>(i);
    ASSERT_NEAR(LoadElement(read.data(), at, spec_.dtype),
                LoadElement(segment->payload.data(), at, spec_.dtype), bound)
        << "element " << i;
  }
  if (codec().id == CodecId::kInt4) {
    EXPECT_LT(Count("ssd_bytes_used"), segment->payload.size());
  }
}

TEST_P(PageStoreCodecTest, DigestsBoundTheKeysThatAreRead) {
  const auto segment = PutEncoded(codec(), 6);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const std::vector<std::byte> read = Read(*segment);
  const int64_t d = spec_.head_dim;
  int64_t unit = 0;
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    const auto digests = store_->ReadDigests("default", segment->key, layer);
    ASSERT_TRUE(digests.ok()) << digests.status();
    for (int64_t in_layer = 0; in_layer < 2 * spec_.num_kv_heads; ++in_layer, ++unit) {
      const auto tokens = TokensInPage(spec_, 6, static_cast<uint32_t>(in_layer / 2));
      for (int64_t i = 0; i < tokens * d; ++i) {
        const float key =
            LoadElement(read.data(), unit * 2 * spec_.page_tokens * d + i, spec_.dtype);
        const std::byte* const bounds = digests->bytes->data();
        ASSERT_GE(key, LoadElement(bounds, in_layer * 2 * d + i % d, spec_.dtype));
        ASSERT_LE(key, LoadElement(bounds, in_layer * 2 * d + d + i % d, spec_.dtype));
      }
    }
  }
}

TEST_P(PageStoreCodecTest, EveryKindOfDigestsIsOfTheKeysThatAreReadAndIsMadeOnce) {
  constexpr size_t kTokens = 6;  // The last page is short.
  const auto segment = PutEncoded(codec(), kTokens);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const std::vector<std::byte> read = Read(*segment);
  std::vector<int32_t> rows;
  for (uint32_t page = 0; page < 2; ++page) {
    rows.insert(rows.end(), spec_.num_kv_heads,
                static_cast<int32_t>(TokensInPage(spec_, kTokens, page)));
  }
  for (int round = 0; round < 2; ++round) {
    for (const kernels::DigestKind kind : kSelectingKinds) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        std::vector<std::byte> want(2 * kernels::PageDigestBytes(spec_, kind));
        kernels::DigestArgs args = kernels::PageDigestArgs(spec_, kind);
        args.units = read.data() + layer * ExtentBytes(spec_, 2);
        args.valid_rows = rows.data();
        args.digests = want.data();
        args.n_units = static_cast<int64_t>(rows.size());
        ASSERT_EQ(kernels::CpuReference().digest(args), kernels::OpStatus::kOk);
        const auto digests = store_->ReadDigests("default", segment->key, layer, kind);
        ASSERT_TRUE(digests.ok()) << digests.status();
        EXPECT_EQ(digests->num_pages, 2u);
        EXPECT_EQ(*digests->bytes, want) << static_cast<int>(kind) << " layer " << layer;
      }
    }
    EXPECT_EQ(Count("digests_derived"), round == 0 ? 4 * spec_.num_layers : 0u);
    Open();
  }
}

TEST_P(PageStoreCodecTest, StoredUnitsOfAnotherStoreAreTakenAsTheyAre) {
  const auto segment = PutEncoded(codec(), 7);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(store_->StoredCodec("default", segment->key).value(), codec());
  const std::vector<UnitAddress> addresses = AllUnits(spec_, segment->key, 7);
  std::vector<UnitBytes> units;
  ASSERT_TRUE(store_->ReadUnits("default", addresses, CodecSet::All(), &units).ok());
  const std::vector<std::byte> stored = Concatenate(units);
  std::vector<uint32_t> crc32c;
  for (const UnitBytes& unit : units) crc32c.push_back(unit.crc32c());
  const std::vector<std::byte> decoded = Read(*segment);
  const auto digests = store_->ReadDigests("default", segment->key, 1);
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());

  PutSegmentArgs args{.spec = &spec_,
                      .tokens = segment->tokens,
                      .payload = stored,
                      .unit_crc32c = crc32c,
                      .codec = codec(),
                      .is_encoded = true};
  ASSERT_TRUE(store_->PutSegment("default", args).ok());
  EXPECT_FALSE(store_->PutSegment("default", args)->differs);
  EXPECT_EQ(Read(*segment), decoded);
  EXPECT_EQ(*store_->ReadDigests("default", segment->key, 1)->bytes, *digests->bytes);
  ASSERT_TRUE(store_->ReadUnits("default", addresses, CodecSet::All(), &units).ok());
  EXPECT_EQ(Concatenate(units), stored);

  crc32c[3] ^= 1;
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  EXPECT_EQ(store_->PutSegment("default", args).status().code(), StatusCode::kDataLoss)
      << "a unit was damaged on the way";
  args.payload = std::span(stored).first(stored.size() - 1);
  EXPECT_EQ(store_->PutSegment("default", args).status().code(), StatusCode::kInvalidArgument);
}

// Promise 1: a sealed segment never changes, whatever the codec of a later put.
TEST_P(PageStoreCodecTest, Promise1ALaterPutKeepsTheCodecAndIsComparedByIt) {
  const auto segment = PutEncoded(codec());
  ASSERT_TRUE(segment.ok()) << segment.status();
  const std::vector<std::byte> before = Read(*segment);
  for (const std::string& other : CodecNames()) {
    ASSERT_TRUE(PutEncoded(CodecByName(other).value()).ok()) << other;
  }
  EXPECT_EQ(Count("puts_existed"), CodecNames().size());
  EXPECT_EQ(Read(*segment), before);
  std::vector<std::byte> different = segment->payload;
  StoreElement(different.data(), 0, spec_.dtype, 40.0f);
  EXPECT_TRUE(Put(segment->tokens, different)->differs);
  EXPECT_EQ(PutStrictly(segment->tokens, different).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Read(*segment), before);
}

TEST_P(PageStoreCodecTest, SpaceComesBackWhenTheSegmentIsDeleted) {
  const auto segment = PutEncoded(codec());
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_GT(Count("ssd_bytes_used"), 0u);
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  EXPECT_EQ(Count("ssd_bytes_used"), 0u);
  Open();
  EXPECT_EQ(Count("ssd_bytes_used"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Codecs, PageStoreCodecTest, ::testing::ValuesIn(CodecNames()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace quire::kvserver::testing
