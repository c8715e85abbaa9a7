// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/write/put_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/memory/folded_copy.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/payload/engine/aligned_buffer.h"
#include "kvserver/store/testing/store_kit.h"
#include "kvserver/store/unit_digests.h"
#include "tests/kit/same_bytes.h"

namespace quire::kvserver::testing {
namespace {

using kernels::DigestKind;
using ::testing::HasSubstr;

KvSpec HugeUnitSpec() {
  KvSpec spec = SmallSpec("huge-units");
  spec.head_dim = 2048;  // 32 KiB: more than one step of an intake.
  return spec;
}

/// A put of finite numbers, `offset` bytes into its memory.
struct Arrived {
  Arrived(const KvSpec& its_spec, size_t num_tokens, size_t offset)
      : spec(its_spec), tokens(MakeTokens(num_tokens, 1)) {
    const std::vector<std::byte> payload = MakePayload(spec, num_tokens, 1);
    memory.resize(payload.size() + offset);
    std::ranges::copy(payload, memory.begin() + static_cast<std::ptrdiff_t>(offset));
    args.spec = &spec;
    args.tokens = tokens;
    args.payload = std::span(memory).subspan(offset);
  }
  Arrived(const Arrived&) = delete;

  std::vector<uint32_t> Checksums() const {
    std::vector<uint32_t> crc32c;
    const uint64_t bytes = quire::UnitBytes(spec);
    for (uint64_t at = 0; at < args.payload.size(); at += bytes) {
      crc32c.push_back(Crc32c(args.payload.subspan(at, bytes)));
    }
    return crc32c;
  }
  /// Digests computed of each layer at once.
  std::vector<std::byte> Digests(const SegmentRecord& record) const {
    const std::vector<std::byte> aligned(args.payload.begin(), args.payload.end());
    const uint64_t from = ExtentBytes(spec, record.num_pages());
    const uint64_t to = DigestBytesPerLayer(record, DigestKind::kMinMax);
    std::vector<std::byte> digests(spec.num_layers * to);
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      const std::vector<int32_t> rows = ValidRows(record);
      EXPECT_TRUE(ComputeDigests(spec, DigestKind::kMinMax,
                                 {.units = aligned.data() + layer * from, .valid_rows = rows},
                                 digests.data() + layer * to)
                      .ok());
    }
    return digests;
  }

  const KvSpec spec;
  const std::vector<TokenId> tokens;
  std::vector<std::byte> memory;
  PutSegmentArgs args;
};

/// Directs every second extent to its own memory, and compares everything.
void ExpectTakenIn(const Arrived& arrived) {
  auto intake = SegmentIntake::Make("default", arrived.args, {});
  ASSERT_TRUE(intake.ok()) << intake.status();
  const uint64_t bytes = intake->record().stored_extent_bytes();
  AlignedBufferPool pool({});
  const AlignedBuffer place = *pool.Take(bytes);
  intake->Place(1, place.bytes());
  ASSERT_EQ(intake->TakeAll(), OkStatus());
  EXPECT_EQ(intake->record().unit_crc32c, arrived.Checksums());
  EXPECT_TRUE(quire::testing::SameBytes(intake->digests(), arrived.Digests(intake->record())));
  EXPECT_EQ(intake->extent(0).data(), arrived.args.payload.data()) << "stays where it is";
  EXPECT_EQ(intake->extent(1).data(), place.bytes().data());
  EXPECT_TRUE(
      quire::testing::SameBytes(intake->extent(1), arrived.args.payload.subspan(bytes, bytes)));
  auto known = SegmentIntake::Make("default", arrived.args, {});
  ASSERT_EQ(known->TakeChecksums(), OkStatus());
  EXPECT_EQ(known->record().unit_crc32c, arrived.Checksums());
}

TEST(SegmentIntakeTest, OnePassTakesBytesChecksumsAndDigestsIn) {
  for (const bool hide : {false, true}) {
    HideFoldedCopyForTesting(hide);
    for (const KvSpec& spec : {SmallSpec(), LargeUnitSpec(), HugeUnitSpec()}) {
      for (const size_t tokens : {size_t{1}, size_t{5}, size_t{spec.segment_tokens()}}) {
        for (const size_t offset : {0, 1, 2}) {
          SCOPED_TRACE(spec.model + ", " + std::to_string(tokens) + " tokens at " +
                       std::to_string(offset));
          ExpectTakenIn({spec, tokens, offset});
        }
      }
    }
  }
  HideFoldedCopyForTesting(false);
}

TEST(SegmentIntakeTest, EncodedExtentsComeToTheirPlaceToo) {
  const Arrived arrived(LargeUnitSpec(), 7, 1);
  const CodecParams codec = *CodecByName("int8");
  auto home = SegmentIntake::Make("default", arrived.args, codec);
  auto placed = SegmentIntake::Make("default", arrived.args, codec);
  const uint64_t bytes = home->record().stored_extent_bytes();
  std::vector<std::byte> place(bytes);
  placed->Place(0, place);
  ASSERT_EQ(home->TakeAll(), OkStatus());
  ASSERT_EQ(placed->TakeAll(), OkStatus());
  EXPECT_EQ(placed->extent(0).data(), place.data());
  for (uint32_t layer = 0; layer < 2; ++layer) {
    EXPECT_TRUE(quire::testing::SameBytes(placed->extent(layer), home->extent(layer)));
  }
  EXPECT_EQ(placed->record(), home->record());
  EXPECT_TRUE(quire::testing::SameBytes(placed->digests(), home->digests()));
  EXPECT_EQ(home->record().unit_crc32c[0],
            Crc32c(home->extent(0).first(home->record().stored_unit_bytes())));
  auto known = SegmentIntake::Make("default", arrived.args, codec);
  ASSERT_EQ(known->TakeChecksums(), OkStatus());
  EXPECT_EQ(known->record(), home->record());
}

TEST(SegmentIntakeTest, RowsThatLieAnywhereAreTheSameSegment) {
  const Arrived arrived(LargeUnitSpec(), 8, 0);
  const uint64_t row_bytes = ExtentBytes(arrived.spec, 1);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<const std::byte>> rows;
  for (uint64_t at = 0; at < arrived.args.payload.size(); at += row_bytes) {
    const auto row = arrived.args.payload.subspan(at, row_bytes);
    memory.emplace_back(row.begin(), row.end());
  }
  for (const auto& row : memory) rows.emplace_back(row);
  PutSegmentArgs args = arrived.args;
  args.payload_rows = rows;
  EXPECT_EQ(CheckPutArguments(args).code(), StatusCode::kInvalidArgument) << "both";
  args.payload = {};
  EXPECT_EQ(CheckPutArguments(args), OkStatus());
  for (const std::string codec : {"raw", "int8"}) {
    auto whole = SegmentIntake::Make("default", arrived.args, *CodecByName(codec));
    auto in_rows = SegmentIntake::Make("default", args, *CodecByName(codec));
    ASSERT_EQ(whole->TakeAll(), OkStatus());
    ASSERT_EQ(in_rows->TakeAll(), OkStatus());
    EXPECT_EQ(in_rows->record(), whole->record());
    EXPECT_TRUE(quire::testing::SameBytes(in_rows->digests(), whole->digests()));
    EXPECT_TRUE(quire::testing::SameBytes(in_rows->extent(1), whole->extent(1)));
    auto known = SegmentIntake::Make("default", args, *CodecByName(codec));
    ASSERT_EQ(known->TakeChecksums(), OkStatus());
    EXPECT_EQ(known->record(), whole->record());
  }
  rows.back() = rows.back().first(row_bytes - 1);
  EXPECT_EQ(CheckPutArguments(args).code(), StatusCode::kInvalidArgument);
}

TEST(SegmentIntakeTest, UnitsThatCameWithChecksumsAreComparedWithThem) {
  for (const std::string codec : {"raw", "int8"}) {
    Arrived arrived(SmallSpec(), 8, 0);
    std::vector<uint32_t> crc32c = arrived.Checksums();
    arrived.args.unit_crc32c = crc32c;
    const auto take = [&](bool checksums_only) {
      auto intake = SegmentIntake::Make("default", arrived.args, *CodecByName(codec));
      return checksums_only ? intake->TakeChecksums() : intake->TakeAll();
    };
    for (const bool checksums_only : {false, true}) EXPECT_EQ(take(checksums_only), OkStatus());
    crc32c[6] ^= 1;
    for (const bool checksums_only : {false, true}) {
      const Status damaged = take(checksums_only);
      EXPECT_EQ(damaged.code(), StatusCode::kDataLoss) << codec;
      EXPECT_THAT(Message(damaged), HasSubstr("unit 6 of 8"));
    }
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
