// SPDX-License-Identifier: Apache-2.0
//
// Promises of PageStore without failures: keys, idempotence, chains, digests, tenants, limits.
#include "kvserver/store/page_store.h"

#include <algorithm>
#include <filesystem>

#include "common/base/memory/checksum.h"
#include "kvserver/store/payload/volume/location.h"
#include "kvserver/store/testing/page_store_fixture.h"
#include "kvserver/store/unit_digests.h"
#include "tests/kit/same_bytes.h"

namespace quire::kvserver::testing {
namespace {

TEST_F(PageStoreTest, ReadsBackEveryUnitWithItsChecksum) {
  for (const size_t tokens : {1, 3, 4, 5, 8}) {
    const auto segment = PutTestSegment(*store_, spec_, tokens, kRootKey, tokens);
    ASSERT_TRUE(segment.ok()) << segment.status();
    std::vector<UnitBytes> units;
    ASSERT_TRUE(store_->ReadUnits("default", AllUnits(spec_, segment->key, tokens), &units).ok());
    EXPECT_EQ(Concatenate(units), segment->payload);
    for (const UnitBytes& unit : units) EXPECT_EQ(Crc32c(unit.ToSend().slice.bytes), unit.crc32c());
    EXPECT_EQ(*store_->Tokens("default", segment->key), segment->tokens);
  }
}

// Promise 1: a sealed segment never changes; the first bytes under a key stand.
TEST_F(PageStoreTest, Promise1TheFirstBytesStandAndTheCallerIsToldOfOthers) {
  const auto tokens = MakeTokens(8, 1);
  const auto payload = MakePayload(spec_, 8, 1);
  const auto first = Put(tokens, payload);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->existed);
  const auto again = Put(tokens, payload);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->existed);
  EXPECT_FALSE(again->differs);
  EXPECT_EQ(again->key, first->key);
  std::vector<UnitBytes> units;
  ASSERT_TRUE(store_->ReadUnits("default", AllUnits(spec_, first->key, 8), &units).ok());
  std::vector<uint32_t> checksums;
  for (const UnitBytes& unit : units) checksums.push_back(unit.crc32c());
  for (const size_t at : {size_t{0}, payload.size() / 2, payload.size() - 1}) {
    auto other = payload;
    other[at] ^= std::byte{1};
    const auto taken = Put(tokens, other);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_TRUE(taken->existed && taken->differs) << "byte " << at;
    EXPECT_EQ(taken->stored_crc32c, checksums);
    EXPECT_EQ(PutStrictly(tokens, other).status().code(), StatusCode::kAlreadyExists);
  }
  EXPECT_EQ(Count("puts_differed"), 3u);
  EXPECT_EQ(*ReadSegment(*store_, spec_, {first->key, tokens, payload}), payload);
  EXPECT_EQ(Count("segments"), 1u);
  Open();
  auto other = payload;
  other[3] ^= std::byte{1};
  EXPECT_TRUE(Put(tokens, other)->differs) << "after reopening";
  EXPECT_EQ(PutStrictly(tokens, other).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(PutStrictly(tokens, payload)->existed);
  EXPECT_EQ(*ReadSegment(*store_, spec_, {first->key, tokens, payload}), payload);
}

// Promise 1: a segment lost with a volume does not hinder a later put of other bits.
TEST_F(PageStoreTest, Promise1ASegmentOfAVolumeThatWasCutIsReplacedByOtherBytes) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  store_.reset();
  for (const auto& volume : std::filesystem::directory_iterator(dir_ / "payload")) {
    std::filesystem::resize_file(volume.path(), kBlockBytes);
  }
  for (int times = 0; times < 2; ++times) {
    Open();
    EXPECT_TRUE(store_->Lookup("default", spec_, segment->tokens)->empty());
  }
  const auto other = MakePayload(spec_, 8, 2);
  const auto put = PutStrictly(segment->tokens, other);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_FALSE(put->existed);
  EXPECT_EQ(Count("segments"), 1u);
  EXPECT_EQ(Count("ssd_bytes_used"), other.size());
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(*ReadSegment(*store_, spec_, *segment), other);
    Open();
  }
}

TEST_F(PageStoreTest, TheKeyIsCheckedAgainstTheCallersOwn) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  PutSegmentArgs args;
  args.spec = &spec_;
  args.tokens = segment->tokens;
  args.payload = segment->payload;
  args.expected_key = segment->key;
  EXPECT_TRUE(store_->PutSegment("default", args).ok());
  args.expected_key->bytes[0] ^= 1;
  EXPECT_EQ(store_->PutSegment("default", args).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PageStoreTest, RefusesMalformedSegmentsAndStoresNothing) {
  const auto tokens = MakeTokens(8, 1);
  const auto payload = MakePayload(spec_, 8, 1);
  auto negative = tokens;
  negative[3] = -1;
  auto longer = payload;
  longer.push_back(std::byte{});
  const auto code = [](const auto& result) { return result.status().code(); };
  EXPECT_EQ(code(Put({}, {})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Put(MakeTokens(9, 1), payload)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Put(negative, payload)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Put(tokens, longer)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Put(tokens, {})), StatusCode::kInvalidArgument);
  spec_.num_layers = 0;
  EXPECT_EQ(code(Put(tokens, payload)), StatusCode::kInvalidArgument);
  EXPECT_EQ(Count("segments"), 0u);
  EXPECT_EQ(Count("ssd_bytes_used"), 0u);
}

TEST_F(PageStoreTest, DigestsAreTheMinimumAndMaximumOverRowsThatHoldTokens) {
  const auto segment = PutTestSegment(*store_, spec_, 1, kRootKey, 5);  // the last page has one row
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    const auto digests = store_->ReadDigests("default", segment->key, layer);
    ASSERT_TRUE(digests.ok()) << digests.status();
    ASSERT_EQ(digests->num_pages, 2u);
    const uint32_t d = spec_.head_dim;
    ASSERT_EQ(digests->bytes->size(), 2u * spec_.num_kv_heads * 2 * d * 2);
    for (uint32_t unit = 0; unit < 2 * spec_.num_kv_heads; ++unit) {
      const uint32_t rows = unit < spec_.num_kv_heads ? 4 : 1;
      const std::byte* keys =
          segment->payload.data() + (layer * 4 + unit) * quire::UnitBytes(spec_);
      for (uint32_t c = 0; c < d; ++c) {
        float low = LoadElement(keys, c, spec_.dtype), high = low;
        for (uint32_t r = 1; r < rows; ++r) {
          low = std::min(low, LoadElement(keys, r * d + c, spec_.dtype));
          high = std::max(high, LoadElement(keys, r * d + c, spec_.dtype));
        }
        EXPECT_EQ(LoadElement(digests->bytes->data(), unit * 2 * d + c, spec_.dtype), low);
        EXPECT_EQ(LoadElement(digests->bytes->data(), unit * 2 * d + d + c, spec_.dtype), high);
      }
    }
  }
  EXPECT_EQ(store_->ReadDigests("default", segment->key, 2).status().code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(store_->ReadDigests("default", segment->key, 0).ok());
  EXPECT_EQ(Count("digest_reads"), 2u) << "the second time from memory";
  EXPECT_EQ(Count("digest_cache_hits"), 1u);
}

TEST_F(PageStoreTest, DerivedDigestsGoWithTheirSegmentAndKindsThatCannotBeAreRefused) {
  using kernels::DigestKind;
  const auto segment = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(store_->ReadDigests("default", segment->key, 1, DigestKind::kMean).ok());
  ASSERT_TRUE(store_->ReadDigests("default", segment->key, 1, DigestKind::kMean).ok());
  EXPECT_EQ(Count("digests_derived"), 1u);
  EXPECT_EQ(Count("digest_cache_hits"), 1u);
  EXPECT_EQ(store_->ReadDigests("other", segment->key, 1, DigestKind::kMean).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(store_->ReadDigests("default", segment->key, 2, DigestKind::kMean).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      store_->ReadDigests("default", segment->key, 1, static_cast<DigestKind>(8)).status().code(),
      StatusCode::kInvalidArgument);
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  EXPECT_EQ(store_->ReadDigests("default", segment->key, 1, DigestKind::kMean).status().code(),
            StatusCode::kNotFound);
  spec_.head_dim = 5;
  spec_.rope.rotary_dim = 4;
  const auto odd = PutTestSegment(*store_, spec_, 1);
  ASSERT_TRUE(odd.ok()) << odd.status();
  EXPECT_EQ(store_->ReadDigests("default", odd->key, 0, DigestKind::kDisc).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(store_->ReadDigests("default", odd->key, 0, DigestKind::kCentreRadius).ok());
}

TEST_F(PageStoreTest, ContentIsDerivedAtTheSegmentsPlaceInItsChain) {
  using kernels::DigestKind;
  const auto chain = PutTestChain(*store_, spec_, 1, 2, Durability::kPersisted);
  ASSERT_TRUE(chain.ok()) << chain.status();
  const TestSegment& second = (*chain)[1];
  const std::vector<int32_t> rows(spec_.segment_pages * spec_.num_kv_heads,
                                  static_cast<int32_t>(spec_.page_tokens));
  const auto computed = [&](uint64_t first_token) {
    std::vector<std::byte> digests(spec_.segment_pages *
                                   kernels::PageDigestBytes(spec_, DigestKind::kContent));
    EXPECT_EQ(
        ComputeDigests(spec_, DigestKind::kContent,
                       {.units = second.payload.data() + ExtentBytes(spec_, spec_.segment_pages),
                        .valid_rows = rows,
                        .first_token = first_token},
                       digests.data()),
        OkStatus());
    return digests;
  };
  for (const bool reopened : {false, true}) {
    if (reopened) Open();
    const auto read = store_->ReadDigests("default", second.key, 1, DigestKind::kContent);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read->bytes, computed(spec_.segment_tokens()));
    EXPECT_NE(*read->bytes, computed(0));
    EXPECT_EQ(Count("digests_derived"), reopened ? 0u : 1u);
  }
}

TEST_F(PageStoreTest, RepresentativesThatNobodyGaveAreMeansAndTheFirstGivenStay) {
  using kernels::DigestKind;
  const auto segment = PutTestSegment(*store_, spec_, 1);
  const auto read = [&](DigestKind kind, uint32_t layer) {
    const auto digests = store_->ReadDigests("default", segment->key, layer, kind);
    EXPECT_TRUE(digests.ok()) << digests.status();
    return *digests->bytes;
  };
  EXPECT_EQ(read(DigestKind::kRepresentatives, 1), read(DigestKind::kMean, 1));
  EXPECT_EQ(Count("digests_derived"), 1u) << "one of both";
  const size_t bytes = read(DigestKind::kMean, 0).size();
  std::vector<std::byte> given(spec_.num_layers * bytes);
  for (size_t i = 0; i < given.size(); ++i) given[i] = static_cast<std::byte>(i % 61);
  const auto put = [&](std::string_view tenant, std::span<const std::byte> digests) {
    return store_->PutRepresentatives(tenant, segment->key, digests);
  };
  EXPECT_EQ(put("default", std::span(given).first(bytes)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(put("other", given).status().code(), StatusCode::kNotFound);
  const auto first = put("default", given);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(*first);
  const auto second = put("default", std::vector<std::byte>(given.size()));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(*second) << "there are some";
  for (const bool reopened : {false, true}) {
    if (reopened) Open();
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      EXPECT_EQ(read(DigestKind::kRepresentatives, layer),
                std::vector(given.begin() + layer * bytes, given.begin() + (layer + 1) * bytes));
    }
  }
  EXPECT_NE(read(DigestKind::kMean, 1), read(DigestKind::kRepresentatives, 1));
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  EXPECT_EQ(put("default", given).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(PutTestSegment(*store_, spec_, 1).ok());
  EXPECT_EQ(read(DigestKind::kRepresentatives, 1), read(DigestKind::kMean, 1))
      << "they have gone with the segment";
}

TEST_F(PageStoreTest, APayloadMayStartAtAnyByte) {
  const auto payload = MakePayload(spec_, 8, 1);
  std::vector<std::byte> shifted(payload.size() + 1);
  std::ranges::copy(payload, shifted.begin() + 1);
  PutSegmentArgs args;
  args.spec = &spec_;
  const auto tokens = MakeTokens(8, 1);
  args.tokens = tokens;
  args.payload = std::span(shifted).subspan(1);
  const auto put = store_->PutSegment("default", args);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(*ReadSegment(*store_, spec_, {put->key, tokens, {}}), payload);
}

TEST_F(PageStoreTest, ReadsOfUnitsThatDoNotExistAreRefusedWhole) {
  const auto segment = PutTestSegment(*store_, spec_, 1, kRootKey, 4);  // one page: two units
  std::vector<UnitBytes> units;
  const auto read = [&](const UnitAddress& bad) {
    const std::vector<UnitAddress> addresses = {{segment->key, 0, 0}, bad};
    return store_->ReadUnits("default", addresses, &units).code();
  };
  EXPECT_EQ(read({segment->key, 2, 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(read({segment->key, 0, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(read({SegmentKey{{1}}, 0, 0}), StatusCode::kNotFound);
  EXPECT_TRUE(units.empty()) << "set only when all succeed";
  EXPECT_TRUE(store_->ReadUnits("default", {}, &units).ok());
}

TEST_F(PageStoreTest, UnitsComeInTheOrderAsked) {
  const auto chain = PutTestChain(*store_, spec_, 1, 2);
  const std::vector<UnitAddress> addresses = {{(*chain)[1].key, 1, 3},
                                              {(*chain)[0].key, 0, 2},
                                              {(*chain)[1].key, 0, 0},
                                              {(*chain)[0].key, 0, 2}};
  std::vector<UnitBytes> units;
  ASSERT_TRUE(store_->ReadUnits("default", addresses, &units).ok());
  const uint64_t bytes = quire::UnitBytes(spec_);
  const auto expected = [&](size_t segment, size_t unit) {
    return std::span((*chain)[segment].payload).subspan(unit * bytes, bytes);
  };
  EXPECT_TRUE(quire::testing::SameBytes(units[0].ToSend().slice.bytes, expected(1, 7)));
  EXPECT_TRUE(quire::testing::SameBytes(units[1].ToSend().slice.bytes, expected(0, 2)));
  EXPECT_TRUE(quire::testing::SameBytes(units[2].ToSend().slice.bytes, expected(1, 0)));
  EXPECT_TRUE(quire::testing::SameBytes(units[3].ToSend().slice.bytes, expected(0, 2)));
}

TEST_F(PageStoreTest, DeleteRemovesASegmentFromEveryTier) {
  const auto segment = PutTestSegment(*store_, spec_, 1);
  std::vector<UnitBytes> held;
  ASSERT_TRUE(store_->ReadUnits("default", AllUnits(spec_, segment->key, 8), &held).ok());
  ASSERT_TRUE(store_->ReadDigests("default", segment->key, 0).ok());
  ASSERT_TRUE(store_->DeleteSegment("default", segment->key).ok());
  EXPECT_EQ(ReadSegment(*store_, spec_, *segment).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->ReadDigests("default", segment->key, 0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->DeleteSegment("default", segment->key).code(), StatusCode::kNotFound);
  EXPECT_EQ(Count("segments"), 0u);
  EXPECT_EQ(Count("ssd_bytes_used"), 0u);
  EXPECT_EQ(Concatenate(held), segment->payload) << "readers keep what they hold";
  held.clear();
  EXPECT_EQ(Count("dram_bytes_used"), 0u);
  Open();
  EXPECT_EQ(ReadSegment(*store_, spec_, *segment).status().code(), StatusCode::kNotFound);
}

TEST_F(PageStoreTest, RefusesOptionsThatMakeNoSense) {
  store_.reset();
  const auto error = [&](auto change) {
    PageStore::Options options = options_;
    change(options);
    return PageStore::Open(options).status().code();
  };
  using Options = PageStore::Options;
  EXPECT_EQ(error([](Options& o) { o.ssd_path.clear(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(error([](Options& o) { o.dram_bytes = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(error([](Options& o) { o.tenants.clear(); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(error([](Options& o) { o.tenants = {"a/b"}; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(error([](Options& o) { o.promote_after_touches = 0; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(error([](Options& o) { o.eviction_policy = "belady"; }), StatusCode::kInvalidArgument);
  EXPECT_EQ(error([](Options& o) { o.eviction_policy = "pgdsf"; }), StatusCode::kOk);
  EXPECT_EQ(error([](Options&) {}), StatusCode::kOk);
}

}  // namespace
}  // namespace quire::kvserver::testing
