// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/codec/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "common/base/memory/checksum.h"
#include "common/base/random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

constexpr CodecId kAll[] = {CodecId::kRaw, CodecId::kFp8E4M3, CodecId::kInt8, CodecId::kInt4};

KvSpec SmallSpec(DType dtype = DType::kF16) {
  KvSpec spec;
  spec.model = "codec";
  spec.dtype = dtype;
  spec.num_layers = 1;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.segment_pages = 3;
  spec.rope.rotary_dim = 64;
  return spec;
}

KvSpec LatentSpec() {
  KvSpec spec = SmallSpec();
  spec.attention = AttentionKind::kMla;
  spec.num_kv_heads = 1;
  spec.head_dim = 0;
  spec.latent_dim = 512;
  spec.latent_rope_dim = 64;
  return spec;
}

/// An extent of `tokens` tokens with zeros after the last one.
std::vector<std::byte> RandomExtent(const KvSpec& spec, uint32_t tokens, uint64_t seed) {
  SeededRandom random(seed);
  const uint32_t pages = PageCount(spec, tokens);
  std::vector<std::byte> extent(ExtentBytes(spec, pages));
  const uint64_t row = spec.key_dim();
  const uint64_t rows = extent.size() / ElementBytes(spec.dtype) / row;
  for (uint64_t r = 0; r < rows; ++r) {
    const uint64_t page = r / spec.rows_per_unit() / spec.num_kv_heads;
    if (r % spec.page_tokens >= TokensInPage(spec, tokens, static_cast<uint32_t>(page))) continue;
    for (uint64_t c = 0; c < row; ++c) {
      StoreElement(extent.data(), static_cast<int64_t>(r * row + c), spec.dtype,
                   static_cast<float>(random.Below(20001)) / 1000.0f - 10.0f);
    }
  }
  return extent;
}

struct Encoded {
  std::vector<std::byte> bytes;
  std::vector<uint32_t> crcs;
};

Encoded EncodeAll(const ExtentCodec& codec, const std::vector<std::byte>& extent, uint32_t tokens) {
  Encoded encoded{std::vector<std::byte>(codec.encoded_bytes(tokens)),
                  std::vector<uint32_t>(codec.units(tokens))};
  EXPECT_TRUE(codec.Encode(extent, tokens, encoded.bytes, encoded.crcs).ok());
  return encoded;
}

TEST(Codec, NamesLeadToParamsAndBack) {
  for (const std::string& name : CodecNames()) {
    const auto params = CodecByName(name);
    ASSERT_TRUE(params.ok()) << name;
    EXPECT_EQ(Name(*params), name);
  }
  EXPECT_EQ(CodecByName("int4+zstd").value(), (CodecParams{CodecId::kInt4, true}));
  const Status unknown = CodecByName("int5").status();
  EXPECT_TRUE(IsInvalidArgument(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("'int5'; use one of raw, fp8, int8, int4"));
}

TEST(Codec, NumbersArePersistent) {
  EXPECT_EQ(CodecFromNumber(1).value(), CodecId::kRaw);
  EXPECT_EQ(CodecFromNumber(2).value(), CodecId::kFp8E4M3);
  EXPECT_EQ(CodecFromNumber(3).value(), CodecId::kInt8);
  EXPECT_EQ(CodecFromNumber(4).value(), CodecId::kInt4);
  EXPECT_TRUE(IsDataLoss(CodecFromNumber(0).status()));
  EXPECT_TRUE(IsDataLoss(CodecFromNumber(5).status()));
}

// Sizes relative to 16-bit elements, at the default page size.
TEST(Codec, SizesAreThoseOfTheFormat) {
  for (const uint32_t d : {64u, 128u}) {
    KvSpec spec = SmallSpec();
    spec.head_dim = d;
    const double raw = static_cast<double>(quire::UnitBytes(spec));
    EXPECT_EQ(quire::UnitBytes(spec, CodecId::kRaw), quire::UnitBytes(spec));
    EXPECT_EQ(quire::UnitBytes(spec, CodecId::kFp8E4M3), quire::UnitBytes(spec) / 2 + 8);
    EXPECT_EQ(quire::UnitBytes(spec, CodecId::kInt8), quire::UnitBytes(spec) / 2 + 2 * 32 * 2);
    EXPECT_EQ(quire::UnitBytes(spec, CodecId::kInt4),
              quire::UnitBytes(spec) / 4 + d * 4 + d / 32 * 128);
    EXPECT_LE(static_cast<double>(quire::UnitBytes(spec, CodecId::kInt8)), 0.52 * raw);
    EXPECT_LE(static_cast<double>(quire::UnitBytes(spec, CodecId::kInt4)), 0.32 * raw);
  }
  EXPECT_EQ(quire::UnitBytes(LatentSpec(), CodecId::kInt4), 32u * 288 + 576 * 4);
}

TEST(Codec, ExtentsComeBackWithinTheCodecsError) {
  for (const KvSpec& spec : {SmallSpec(DType::kF16), SmallSpec(DType::kF32), LatentSpec()}) {
    for (const CodecId id : kAll) {
      for (const uint32_t tokens : {1u, 32u, 50u, 96u}) {
        const ExtentCodec codec = ExtentCodec::Make(spec, id).value();
        const std::vector<std::byte> extent = RandomExtent(spec, tokens, tokens);
        const Encoded encoded = EncodeAll(codec, extent, tokens);
        std::vector<std::byte> back(extent.size(), std::byte{0xff});
        ASSERT_TRUE(codec.Decode(encoded.bytes, encoded.crcs, tokens, back).ok());
        const float allowed = id == CodecId::kInt4 ? 0.7f : id == CodecId::kInt8 ? 0.05f : 0.64f;
        for (int64_t i = 0; i < std::ssize(extent) / ElementBytes(spec.dtype); ++i) {
          ASSERT_NEAR(LoadElement(back.data(), i, spec.dtype),
                      LoadElement(extent.data(), i, spec.dtype), allowed)
              << Name(id) << " at " << i;
        }
        EXPECT_TRUE(id != CodecId::kRaw || back == extent);
      }
    }
  }
}

TEST(Codec, EachUnitDecodesAlone) {
  const KvSpec spec = SmallSpec();
  constexpr uint32_t kTokens = 50;
  for (const CodecId id : kAll) {
    const ExtentCodec codec = ExtentCodec::Make(spec, id).value();
    const std::vector<std::byte> extent = RandomExtent(spec, kTokens, 3);
    const Encoded encoded = EncodeAll(codec, extent, kTokens);
    std::vector<std::byte> whole(extent.size());
    ASSERT_TRUE(codec.Decode(encoded.bytes, encoded.crcs, kTokens, whole).ok());
    std::vector<std::byte> unit(codec.unit_bytes());
    for (uint32_t i = 0; i < codec.units(kTokens); ++i) {
      const auto bytes = std::span(encoded.bytes)
                             .subspan(i * codec.encoded_unit_bytes(), codec.encoded_unit_bytes());
      const uint32_t rows = TokensInPage(spec, kTokens, i / spec.num_kv_heads);
      ASSERT_TRUE(codec.DecodeUnit({Slice{bytes, nullptr}, encoded.crcs[i]}, rows, unit).ok());
      EXPECT_EQ(0, std::memcmp(unit.data(), whole.data() + i * unit.size(), unit.size())) << i;
      EXPECT_EQ(Crc32c(bytes), encoded.crcs[i]);
    }
  }
}

TEST(Codec, DamageIsFoundBeforeAnythingIsWritten) {
  const KvSpec spec = SmallSpec();
  const ExtentCodec codec = ExtentCodec::Make(spec, CodecId::kInt8).value();
  const std::vector<std::byte> extent = RandomExtent(spec, 96, 5);
  Encoded encoded = EncodeAll(codec, extent, 96);
  encoded.bytes[3 * codec.encoded_unit_bytes() + 17] ^= std::byte{4};
  std::vector<std::byte> back(extent.size(), std::byte{0x11});
  const Status damaged = codec.Decode(encoded.bytes, encoded.crcs, 96, back);
  EXPECT_TRUE(IsDataLoss(damaged));
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("unit 3"));
  EXPECT_EQ(back, std::vector<std::byte>(extent.size(), std::byte{0x11}));
}

TEST(Codec, RefusesSizesThatDoNotFit) {
  const KvSpec spec = SmallSpec();
  const ExtentCodec codec = ExtentCodec::Make(spec, CodecId::kInt4).value();
  const std::vector<std::byte> extent = RandomExtent(spec, 40, 6);
  Encoded encoded = EncodeAll(codec, extent, 40);
  const std::span<std::byte> bytes = encoded.bytes;
  const std::span<uint32_t> crcs = encoded.crcs;
  const auto refused = [](const Status& status) { return IsInvalidArgument(status); };
  EXPECT_TRUE(refused(codec.Encode(extent, 0, {}, {})));
  EXPECT_TRUE(refused(codec.Encode(extent, 97, bytes, crcs)));
  EXPECT_TRUE(refused(codec.Encode(std::span(extent).first(8), 40, bytes, crcs)));
  EXPECT_TRUE(refused(codec.Encode(extent, 40, bytes.first(bytes.size() - 1), crcs)));
  EXPECT_TRUE(refused(codec.Encode(extent, 40, bytes, crcs.first(1))));
  std::vector<std::byte> back(extent.size());
  EXPECT_TRUE(refused(codec.Decode(bytes.first(bytes.size() - 1), crcs, 40, back)));
  const UnitBytes first(Slice{bytes.first(codec.encoded_unit_bytes()), nullptr}, crcs[0]);
  EXPECT_TRUE(refused(codec.DecodeUnit(first, 33, std::span(back).first(codec.unit_bytes()))));
  KvSpec broken = spec;
  broken.page_tokens = 0;
  EXPECT_TRUE(refused(ExtentCodec::Make(broken, CodecId::kRaw).status()));
  EXPECT_TRUE(refused(ExtentCodec::Make(spec, static_cast<CodecId>(9)).status()));
}

}  // namespace
}  // namespace quire::kvserver
