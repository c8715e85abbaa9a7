// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gpuworker/model/checkpoint/safetensors_builder.h"

namespace quire::worker {
namespace {

using testing::AsBytes;
using ::testing::HasSubstr;
using testing::RawSafetensors;
using testing::Safetensors;

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  std::string entry = R"({"dtype":")";
  return entry.append(dtype)
      .append(R"(","shape":)")
      .append(shape)
      .append(R"(,"data_offsets":)")
      .append(offsets)
      .append("}");
}

/// {"<first name>": <entry>, ...}
std::string Header(std::initializer_list<std::pair<const char*, std::string>> entries) {
  std::string header = "{";
  for (const auto& [name, entry] : entries) {
    header.append(header.size() > 1 ? ",\"" : "\"").append(name).append("\":").append(entry);
  }
  return header.append("}");
}

Status ParseError(const std::string& bytes) {
  return ParseSafetensors(AsBytes(bytes), "m.safetensors").status();
}

TEST(ParseSafetensors, FindsTensorsByNameWithShapeAndBytes) {
  const std::string header = Header({{"__metadata__", R"({"format":"pt"})"},
                                     {"b", Entry("F32", "[2,1]", "[4,12]")},
                                     {"a", Entry("U8", "[4]", "[0,4]")},
                                     {"s", Entry("I64", "[]", "[12,20]")},
                                     {"none", Entry("F32", "[0,7]", "[4,4]")}});
  const std::string bytes = Safetensors(header + "   ", "0123456789abcdefghij");
  auto file = ParseSafetensors(AsBytes(bytes), "m.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors.size(), 4u);
  const TensorView& b = file->tensors.at("b");
  EXPECT_EQ(b.type, TensorType::kF32);
  EXPECT_EQ(b.shape, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(b.elements(), 2u);
  EXPECT_EQ(std::memcmp(b.data.data(), "456789ab", 8), 0);
  EXPECT_EQ(file->tensors.at("s").elements(), 1u);
  EXPECT_EQ(file->tensors.at("none").elements(), 0u);
}

struct BadFile {
  const char* label;
  std::string bytes;
  const char* message;  ///< Part of the error.
};

class BadSafetensors : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadSafetensors, IsRefusedNamingFileAndFault) {
  const Status status = ParseError(GetParam().bytes);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("m.safetensors"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

std::string OneTensor(const std::string& dtype, const std::string& shape,
                      const std::string& offsets, const std::string& data) {
  return Safetensors(Header({{"t", Entry(dtype, shape, offsets)}}), data);
}
std::string TwoTensors(const std::string& first_offsets, const std::string& second_offsets,
                       const std::string& data) {
  return Safetensors(
      Header({{"t", Entry("U8", "[4]", first_offsets)}, {"u", Entry("U8", "[4]", second_offsets)}}),
      data);
}

INSTANTIATE_TEST_SUITE_P(
    Corpus, BadSafetensors,
    ::testing::Values(
        BadFile{"Empty", "", "too few"}, BadFile{"SevenBytes", "1234567", "too few"},
        BadFile{"HeaderPastTheEnd", RawSafetensors(100, "{}", ""), "truncated"},
        BadFile{"HugeHeader", RawSafetensors(100'000'001, "{}", ""), "over the limit"},
        BadFile{"HeaderLengthOverflows", RawSafetensors(~uint64_t{0} - 3, "{}", ""),
                "over the limit"},
        BadFile{"EmptyHeader", RawSafetensors(0, "", ""), "not valid JSON"},
        BadFile{"HeaderCutShort", Safetensors(R"({"t":{"dtype":"F3)", ""), "not valid JSON"},
        BadFile{"HeaderOfGarbage", Safetensors("\xff\xfe\x00\x01", ""), "not valid JSON"},
        BadFile{"HeaderIsAList", Safetensors("[]", ""), "not a JSON object"},
        BadFile{"DeepNesting", Safetensors(std::string(100'000, '['), ""), "nested deeper"},
        BadFile{"DuplicateTensor",
                Safetensors(Header({{"t", Entry("U8", "[1]", "[0,1]")},
                                    {"t", Entry("U8", "[1]", "[0,1]")}}),
                            "x"),
                "given twice"},
        BadFile{"DuplicateField",
                Safetensors(R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                            "x"),
                "given twice"},
        BadFile{"EntryIsANumber", Safetensors(R"({"t":3})", ""), "tensor t"},
        BadFile{"NoDtype", Safetensors(R"({"t":{"shape":[1],"data_offsets":[0,1]}})", "x"),
                "dtype is missing"},
        BadFile{"UnknownDtype", OneTensor("Q4", "[1]", "[0,1]", "x"), "\"Q4\" is unknown"},
        BadFile{"ShapeIsANumber", OneTensor("U8", "4", "[0,4]", "xxxx"), "shape"},
        BadFile{"NegativeSize", OneTensor("U8", "[-1]", "[0,1]", "x"), "shape"},
        BadFile{"FractionalSize", OneTensor("U8", "[1.0]", "[0,1]", "x"), "shape"},
        BadFile{"ManyDimensions", OneTensor("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]", "x"),
                "dimensions"},
        BadFile{"ShapeOverflows", OneTensor("F32", "[4294967296,4294967296]", "[0,0]", ""),
                "overflows"},
        BadFile{"ShapeOverflowsToFit", OneTensor("F32", "[4611686018427387905]", "[0,4]", "xxxx"),
                "overflows"},
        BadFile{"SizeBeyondUint64", OneTensor("U8", "[99999999999999999999]", "[0,1]", "x"),
                "shape"},
        BadFile{"OneOffset", OneTensor("U8", "[1]", "[0]", "x"), "data_offsets"},
        BadFile{"ThreeOffsets", OneTensor("U8", "[1]", "[0,1,1]", "x"), "data_offsets"},
        BadFile{"NegativeOffset", OneTensor("U8", "[1]", "[-1,0]", "x"), "data_offsets"},
        BadFile{"OffsetsReversed", OneTensor("U8", "[1]", "[1,0]", "x"), "data_offsets"},
        BadFile{"OffsetsPastTheEnd", OneTensor("U8", "[4]", "[0,4]", "xxx"), "truncated"},
        BadFile{"HugeOffsets",
                OneTensor("U8", "[1]", "[18446744073709551614,18446744073709551615]", "x"),
                "truncated"},
        BadFile{"ShapeSmallerThanBytes", OneTensor("F32", "[1]", "[0,8]", "xxxxxxxx"),
                "takes 4 bytes"},
        BadFile{"ShapeLargerThanBytes", OneTensor("F32", "[3]", "[0,8]", "xxxxxxxx"),
                "takes 12 bytes"},
        BadFile{"Overlap", TwoTensors("[0,4]", "[2,6]", "xxxxxx"), "inside another"},
        BadFile{"SameBytesTwice", TwoTensors("[0,4]", "[0,4]", "xxxx"), "inside another"},
        BadFile{"Hole", TwoTensors("[0,4]", "[5,9]", "xxxxxxxxx"), "after a hole"},
        BadFile{"DoesNotBeginAtZero", OneTensor("U8", "[1]", "[1,2]", "xx"), "after a hole"},
        BadFile{"BytesLeftOver", OneTensor("U8", "[1]", "[0,1]", "xyz"), "2 bytes after"},
        BadFile{"DataWithoutTensors", Safetensors("{}", "xyz"), "3 bytes after"},
        BadFile{"MetadataOfNumbers", Safetensors(R"({"__metadata__":{"a":1}})", ""),
                "__metadata__"},
        BadFile{"MetadataIsAList", Safetensors(R"({"__metadata__":[]})", ""), "__metadata__"}),
    [](const auto& info) { return std::string(info.param.label); });

TEST(ParseSafetensors, EveryTruncationIsRefused) {
  const std::string whole = OneTensor("F32", "[3]", "[0,12]", "abcdefghijkl");
  ASSERT_TRUE(ParseError(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseError(whole.substr(0, size)).ok()) << size;
  }
}

TEST(ConvertToFloat, IsExactForTheThreeFloatTypes) {
  const float f32[] = {1.5f, -0.0f, std::numeric_limits<float>::infinity()};
  const uint16_t f16[] = {0x3e00, 0x0001, 0xfc00};   // 1.5, 2^-24, -inf
  const uint16_t bf16[] = {0x3fc0, 0x8000, 0x7f80};  // 1.5, -0, inf
  float out[3];
  TensorView view{TensorType::kF32, {3}, std::as_bytes(std::span(f32))};
  ASSERT_TRUE(ConvertToFloat(view, "t", out).ok());
  EXPECT_EQ(std::memcmp(out, f32, sizeof out), 0);
  view = {TensorType::kF16, {3}, std::as_bytes(std::span(f16))};
  ASSERT_TRUE(ConvertToFloat(view, "t", out).ok());
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], std::ldexp(1.0f, -24));
  EXPECT_EQ(out[2], -std::numeric_limits<float>::infinity());
  view = {TensorType::kBF16, {3}, std::as_bytes(std::span(bf16))};
  ASSERT_TRUE(ConvertToFloat(view, "t", out).ok());
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_TRUE(std::signbit(out[1]));
  EXPECT_EQ(out[2], std::numeric_limits<float>::infinity());
}

TEST(ConvertToFloat, ReadsUnalignedData) {
  const std::string bytes("x\x00\x00\xc0\x3f", 5);  // 1.5f from the second byte on
  float out = 0;
  const TensorView view{TensorType::kF32, {1}, AsBytes(bytes).subspan(1)};
  ASSERT_TRUE(ConvertToFloat(view, "t", &out).ok());
  EXPECT_EQ(out, 1.5f);
}

TEST(ConvertToFloat, RefusesOtherTypesByName) {
  const std::string bytes = "xxxxxxxx";
  float out = 0;
  const Status status = ConvertToFloat({TensorType::kI64, {1}, AsBytes(bytes)}, "ids", &out);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ids is I64"));
}

}  // namespace
}  // namespace quire::worker
