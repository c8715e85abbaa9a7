// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/collections/collection_settings.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "common/base/memory/checksum.h"
#include "kvserver/store/metadata/checked_value.h"

namespace quire::kvserver {
namespace {

std::string Sealed(std::string body) {
  body.append(AsText(EncodeTrailer(Crc32c(AsBytes(body)))));
  return body;
}

TEST(CollectionSettingsTest, DecodesWhatItEncodesAndSeesEveryFlippedBit) {
  std::vector<CollectionSettings> all = {{}, {.codec = {}, .ttl_seconds = kMaxTtlSeconds}};
  for (const std::string& name : CodecNames()) {
    all.push_back({.codec = *CodecByName(name), .ttl_seconds = {}});
    all.push_back({.codec = *CodecByName(name), .ttl_seconds = 1});
  }
  for (const CollectionSettings& settings : all) {
    std::string encoded = EncodeCollection(settings);
    EXPECT_EQ(*DecodeCollection("c", encoded), settings);
    for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
      encoded[bit / 8] = static_cast<char>(encoded[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_EQ(DecodeCollection("c", encoded).status().code(), StatusCode::kDataLoss);
      encoded[bit / 8] = static_cast<char>(encoded[bit / 8] ^ (1 << (bit % 8)));
    }
  }
}

TEST(CollectionSettingsTest, FieldsThatCannotBeAreDamageEvenWithAGoodChecksum) {
  const std::string good = EncodeCollection({.codec = CodecParams{}, .ttl_seconds = 7});
  const std::string body = good.substr(0, good.size() - 4);
  const auto with = [&](size_t at, char value) {
    std::string changed = body;
    changed[at] = value;
    return DecodeCollection("c", Sealed(changed)).status().code();
  };
  EXPECT_EQ(with(0, 1), StatusCode::kOk);
  EXPECT_EQ(with(0, 0), StatusCode::kDataLoss);
  EXPECT_EQ(with(0, 2), StatusCode::kFailedPrecondition) << "a newer version";
  EXPECT_EQ(with(1, 8 | 5), StatusCode::kDataLoss) << "an unknown flag";
  EXPECT_EQ(with(1, 1), StatusCode::kDataLoss) << "a time to live that is not said to be there";
  EXPECT_EQ(with(1, 2 | 4), StatusCode::kDataLoss) << "an entropy coder without a codec";
  EXPECT_EQ(with(2, 99), StatusCode::kDataLoss) << "an unknown codec";
  EXPECT_EQ(with(3, 0), StatusCode::kDataLoss) << "a time to live of nothing";
  EXPECT_EQ(with(10, 1), StatusCode::kDataLoss) << "longer than any";
  EXPECT_EQ(DecodeCollection("c", Sealed(body + "x")).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCollection("c", Sealed(body.substr(0, 9))).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCollection("c", "").status().code(), StatusCode::kDataLoss);
}

TEST(CollectionSettingsTest, AChangeLeavesTheOthers) {
  const CollectionSettings before{.codec = CodecParams{.id = CodecId::kInt8}, .ttl_seconds = 5};
  EXPECT_EQ(Apply({}, before), before);
  EXPECT_EQ(Apply({.codec = {}, .ttl_seconds = std::optional<uint64_t>(9)}, before),
            (CollectionSettings{.codec = before.codec, .ttl_seconds = 9}));
  SettingsChange forget;
  forget.codec.emplace();
  EXPECT_EQ(Apply(forget, before), (CollectionSettings{.codec = {}, .ttl_seconds = 5}));
  forget.ttl_seconds.emplace();
  EXPECT_TRUE(Apply(forget, before).all_default());
}

TEST(CollectionSettingsTest, ExpiryIsCreationPlusLifeAndStopsAtTheEndOfTime) {
  EXPECT_EQ(ExpiryOf(1'000'000, {}), 0);
  EXPECT_EQ(ExpiryOf(1'000'000, 3), 4'000'000);
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ExpiryOf(kEnd - 1, kMaxTtlSeconds), kEnd);
  EXPECT_EQ(ExpiryOf(-1'000'000, 1), 1) << "0 would mean never";
}

}  // namespace
}  // namespace quire::kvserver
