// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/ssd/extent_record.h"

#include <gtest/gtest.h>

#include "kvserver/store/metadata/checked_value.h"
#include "kvserver/store/ssd/extent_lookup.h"

namespace quire::kvserver {
namespace {

ExtentRecord Example() {
  return {.location = {.runs = {{0, 4096, 8192}, {3, 65536, 4096}}, .bytes = 10240},
          .unit_crc32c = {0x11111111, 0x22222222, 0x33333333, 0x44444444, 0x55555555},
          .packed = {}};
}

/// Three units of 2000 bytes that compress well.
ExtentRecord PackedExample() {
  const EntropyShape shape{.units = 3, .unit_bytes = 2000};
  const auto container = EncodeEntropy(std::vector<std::byte>(6000), shape).value();
  ExtentRecord record;
  record.unit_crc32c = {1, 2, 3};
  record.location.bytes = container.size() - shape.table_bytes();
  record.location.runs = {{0, 0, 4096}};
  const auto table = std::span(container).first(shape.table_bytes());
  record.packed = {.unit_bytes = 2000, .table = {table.begin(), table.end()}};
  return record;
}

/// Encodes `record` with a valid checksum, whatever its contents.
StatusCode CodeOf(const ExtentRecord& record) {
  return DecodeExtentRecord(EncodeExtentRecord(record)).status().code();
}

TEST(ExtentRecordTest, ComesBackAsItWas) {
  const auto back = DecodeExtentRecord(EncodeExtentRecord(Example()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, Example());
  EXPECT_EQ(back->unit_bytes(), 2048u);
}

TEST(ExtentRecordTest, APackedOneComesBackAsItWas) {
  const auto back = DecodeExtentRecord(EncodeExtentRecord(PackedExample()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, PackedExample());
  EXPECT_EQ(back->unit_bytes(), 2000u);
  EXPECT_EQ(back->Table()->offset(0), back->Table()->shape().table_bytes());
}

TEST(ExtentRecordTest, APackedOneWithoutATableThatFitsIsDataLoss) {
  ExtentRecord record = PackedExample();
  record.packed->table.pop_back();
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "a table cut short";
  record = PackedExample();
  record.packed->unit_bytes = 1999;
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "a table of other units";
  record = PackedExample();
  record.location.bytes = 10;
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "units past the end";
}

TEST(ExtentRecordTest, EveryTruncationAndEveryFlippedBitIsDataLoss) {
  const std::string encoded = EncodeExtentRecord(Example());
  for (size_t size = 0; size < encoded.size(); ++size) {
    EXPECT_EQ(DecodeExtentRecord(encoded.substr(0, size)).status().code(), StatusCode::kDataLoss);
  }
  for (size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
    std::string flipped = encoded;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeExtentRecord(flipped).status().code(), StatusCode::kDataLoss) << bit;
  }
}

TEST(ExtentRecordTest, PartsThatDoNotFitEachOtherAreDataLoss) {
  ExtentRecord record = Example();
  record.unit_crc32c.pop_back();
  record.unit_crc32c.pop_back();
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "10240 bytes are not 3 units";
  record = Example();
  record.unit_crc32c.clear();
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "no unit";
  record = Example();
  record.location.runs.pop_back();
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "runs shorter than the bytes";
  record = Example();
  record.location.runs[0].offset = 100;
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "not at a block";
  record = Example();
  record.location.runs[0].length = ~uint64_t{4095};
  EXPECT_EQ(CodeOf(record), StatusCode::kDataLoss) << "a run of nearly all of 64 bits";
}

TEST(ExtentRecordTest, ANewerVersionIsRefusedNotTakenForDamage) {
  std::string encoded = EncodeExtentRecord(Example());
  encoded[0] = 9;
  const std::string body = encoded.substr(0, encoded.size() - 4);
  encoded = body + std::string(AsText(EncodeTrailer(Crc32c(AsBytes(body)))));
  EXPECT_EQ(DecodeExtentRecord(encoded).status().code(), StatusCode::kFailedPrecondition);
}

TEST(ExtentLookupTest, ItsChecksumIsOfEverythingThatItSays) {
  const ExtentLookup plain = *ExtentLookup::Of(Example());
  EXPECT_EQ(plain.Checksum(), ExtentLookup::Of(Example())->Checksum());
  ExtentLookup other = plain;
  other.record.unit_crc32c[3] ^= 1;
  EXPECT_NE(other.Checksum(), plain.Checksum());
  other = plain;
  other.record.location.runs[1].offset ^= uint64_t{1} << 40;
  EXPECT_NE(other.Checksum(), plain.Checksum());

  const ExtentLookup packed = *ExtentLookup::Of(PackedExample());
  other = packed;
  other.record.packed->unit_bytes ^= 1;
  EXPECT_NE(other.Checksum(), packed.Checksum());
  other = packed;
  other.table.reset();
  EXPECT_NE(other.Checksum(), packed.Checksum()) << "where its units are";
}

}  // namespace
}  // namespace quire::kvserver
