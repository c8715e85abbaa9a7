// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/segment_record.h"

#include <gtest/gtest.h>

#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/testing/store_kit.h"

namespace quire::kvserver::testing {
namespace {

SegmentRecord ValidRecord() {
  SegmentRecord record;
  record.tenant = "acme";
  record.spec = SmallSpec();
  record.spec.rope.scaling = RopeScaling::kYarn;
  record.spec.rope.factor = 4.0;
  record.parent.bytes[31] = 7;
  record.first_token = 3 * record.spec.segment_tokens();
  record.tokens = {1, 2, 3, 4, 5};
  record.unit_crc32c.resize(record.spec.num_layers * record.units_per_layer());
  for (size_t i = 0; i < record.unit_crc32c.size(); ++i) {
    record.unit_crc32c[i] = static_cast<uint32_t>(i * 0x01010101);
  }
  return record;
}

/// Corrects the checksum of `encoded` after a change.
std::string Reseal(std::string encoded) {
  encoded.resize(encoded.size() - 4);
  return encoded + std::string(AsText(EncodeTrailer(Crc32c(AsBytes(encoded)))));
}

TEST(SegmentRecordTest, DecodesWhatItEncodes) {
  const SegmentRecord record = ValidRecord();
  const auto decoded = DecodeSegmentRecord(EncodeSegmentRecord(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
}

TEST(SegmentRecordTest, DecodesARecordOfAnObjectAndRefusesImpossibleOnes) {
  SegmentRecord record;
  record.tenant = "acme";
  record.object = {.key = std::string("k\0y", 3), .size_bytes = 100000};
  record.incarnation = 7;
  record.unit_crc32c = {1, 2};
  const auto decoded = DecodeSegmentRecord(EncodeSegmentRecord(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
  EXPECT_EQ(decoded->stored_bytes(), 100000u);
  const auto is_refused = [](SegmentRecord changed) {
    return IsDataLoss(DecodeSegmentRecord(EncodeSegmentRecord(changed)).status());
  };
  SegmentRecord changed = record;
  changed.object->size_bytes = 0;
  EXPECT_TRUE(is_refused(changed));
  changed.object->size_bytes = kMaxObjectBytes + 1;
  EXPECT_TRUE(is_refused(changed));
  changed = record;
  changed.object->key.clear();
  EXPECT_TRUE(is_refused(changed));
  changed = record;
  changed.unit_crc32c = {1};
  EXPECT_TRUE(is_refused(changed));
  changed = record;
  changed.private_pages = true;
  EXPECT_TRUE(is_refused(changed));
}

TEST(SegmentRecordTest, DecodesTheFactorsOfLongRope) {
  SegmentRecord record = ValidRecord();
  record.spec.rope.scaling = RopeScaling::kLongRope;
  record.spec.rope.pair_factors.assign(record.spec.rope.rotary_dim / 2, 1.5);
  const auto decoded = DecodeSegmentRecord(EncodeSegmentRecord(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
  record.spec.rope.pair_factors.pop_back();
  EXPECT_EQ(DecodeSegmentRecord(EncodeSegmentRecord(record)).status().code(),
            StatusCode::kDataLoss);
}

TEST(SegmentRecordTest, TheCodecComesBackAndARawRecordStaysAsItAlwaysWas) {
  SegmentRecord record = ValidRecord();
  EXPECT_EQ(EncodeSegmentRecord(record)[4], 1);
  for (const std::string& name : CodecNames()) {
    record.codec = CodecByName(name).value();
    const auto decoded = DecodeSegmentRecord(EncodeSegmentRecord(record));
    ASSERT_TRUE(decoded.ok()) << name << ": " << decoded.status();
    EXPECT_EQ(*decoded, record);
  }
  record.codec = {.id = static_cast<CodecId>(99)};
  EXPECT_EQ(DecodeSegmentRecord(EncodeSegmentRecord(record)).status().code(),
            StatusCode::kDataLoss);
}

TEST(SegmentRecordTest, APrivateSegmentIsKnownAsSuch) {
  SegmentRecord record = ValidRecord();
  record.private_pages = true;
  const auto decoded = DecodeSegmentRecord(EncodeSegmentRecord(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
}

TEST(SegmentRecordTest, DecodesAnMlaRecordAtTheRoot) {
  SegmentRecord record = ValidRecord();
  record.spec.attention = AttentionKind::kMla;
  record.spec.num_kv_heads = 1;
  record.spec.head_dim = 0;
  record.spec.latent_dim = 16;
  record.spec.latent_rope_dim = 8;
  record.parent = kRootKey;
  record.first_token = 0;
  record.unit_crc32c.resize(record.spec.num_layers * record.units_per_layer());
  const auto decoded = DecodeSegmentRecord(EncodeSegmentRecord(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, record);
}

// Promise 2: bytes that fail their checksum are never returned.
TEST(SegmentRecordTest, Promise2EveryFlippedBitIsSeen) {
  std::string encoded = EncodeSegmentRecord(ValidRecord());
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    encoded[bit / 8] = static_cast<char>(encoded[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeSegmentRecord(encoded).status().code(), StatusCode::kDataLoss) << bit;
    encoded[bit / 8] = static_cast<char>(encoded[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST(SegmentRecordTest, EveryTruncationIsSeenEvenWithARightChecksum) {
  const std::string encoded = EncodeSegmentRecord(ValidRecord());
  for (size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_EQ(DecodeSegmentRecord(encoded.substr(0, size)).status().code(), StatusCode::kDataLoss);
    if (size < 4) continue;
    EXPECT_EQ(DecodeSegmentRecord(Reseal(encoded.substr(0, size))).status().code(),
              StatusCode::kDataLoss);
  }
  EXPECT_EQ(DecodeSegmentRecord(Reseal(encoded + "x")).status().code(), StatusCode::kDataLoss);
}

TEST(SegmentRecordTest, LyingFieldsWithARightChecksumAreRefusedOrConsistent) {
  const std::string encoded = EncodeSegmentRecord(ValidRecord());
  for (size_t at = 0; at + 4 < encoded.size(); ++at) {
    for (const char value : {'\x00', '\x01', '\x7f', '\xff'}) {
      std::string lying = encoded;
      lying[at] = value;
      const auto decoded = DecodeSegmentRecord(Reseal(lying));
      if (!decoded.ok()) continue;
      // An accepted record could have been written that way.
      EXPECT_EQ(EncodeSegmentRecord(*decoded), Reseal(lying)) << "byte " << at;
    }
  }
}

TEST(SegmentRecordTest, RefusesWhatDoesNotFitTogether) {
  const auto refused = [](auto change) {
    SegmentRecord record = ValidRecord();
    change(record);
    return DecodeSegmentRecord(EncodeSegmentRecord(record)).status().code() ==
           StatusCode::kDataLoss;
  };
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.tenant.clear(); }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.tenant.assign(65, 't'); }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.tokens.clear(); }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.tokens.resize(r.spec.segment_tokens() + 1); }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.tokens[0] = -1; }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.unit_crc32c.pop_back(); }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.first_token += 1; }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.first_token = 0; }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.parent = kRootKey; }));
  EXPECT_TRUE(refused([](SegmentRecord& r) { r.spec.num_layers = 0; }));
  EXPECT_TRUE(refused(
      [](SegmentRecord& r) { r.first_token = kMaxChainSegments * r.spec.segment_tokens(); }));
}

TEST(SegmentRecordTest, ANewerVersionIsRefusedAsSuch) {
  std::string encoded = EncodeSegmentRecord(ValidRecord());
  encoded[4] = 5;
  const Status status = DecodeSegmentRecord(Reseal(encoded)).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Message(status).find("upgrade"), std::string_view::npos);
}

}  // namespace
}  // namespace quire::kvserver::testing
