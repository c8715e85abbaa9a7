// SPDX-License-Identifier: Apache-2.0
//
// Unit codecs: equal bytes to the reference, on real numbers, on any bit pattern and on damaged
// encoded units. The error bounds of kernels/api/codec.h are computed here from the stored
// parameters.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr UnitCodec kAllCodecs[] = {UnitCodec::kRaw, UnitCodec::kFp8E4M3, UnitCodec::kInt8,
                                    UnitCodec::kInt4};

std::string Text(UnitCodec codec, const UnitShape& shape) {
  return "codec " + std::to_string(static_cast<int>(codec)) + ", p " +
         std::to_string(shape.page_tokens) + ", d " + std::to_string(shape.head_dim) +
         (shape.has_values ? ", " : ", no values, ") + Name(shape.dtype);
}

/// Runs the codec ops of a table on host arrays through the device.
struct Coder {
  TestDevice& device;
  const KernelTable& ops;
  UnitCodec codec;
  UnitShape shape;
  size_t shift = 0;  ///< Bytes by which encoded units are off alignment.

  int64_t Units(const std::vector<uint8_t>& units) const {
    return static_cast<int64_t>(units.size()) / shape.raw_bytes();
  }
  std::vector<uint8_t> Encode(const std::vector<uint8_t>& units,
                              const std::vector<int32_t>& valid = {}) const {
    const int64_t n = Units(units);
    Tensor<uint8_t> in(device, units, ElementBytes(shape.dtype));
    Tensor<int32_t> rows(device, valid);
    Tensor<uint8_t> out(device, std::vector<uint8_t>(n * EncodedUnitBytes(codec, shape), 0xa5),
                        shift);
    EXPECT_EQ(ops.encode_unit({.units = in.data(),
                               .valid_rows = valid.empty() ? nullptr : rows.data(),
                               .encoded = out.data(),
                               .encoded_bytes = static_cast<int64_t>(out.size()),
                               .n_units = n,
                               .shape = shape,
                               .codec = codec,
                               .stream = device.stream()}),
              OpStatus::kOk);
    return out.Fetch();
  }
  std::vector<uint8_t> Decode(const std::vector<uint8_t>& encoded,
                              const std::vector<int32_t>& valid = {}) const {
    const int64_t n = static_cast<int64_t>(encoded.size()) / EncodedUnitBytes(codec, shape);
    Tensor<uint8_t> in(device, encoded, shift);
    Tensor<int32_t> rows(device, valid);
    Tensor<uint8_t> out(device, std::vector<uint8_t>(n * shape.raw_bytes(), 0xa5),
                        ElementBytes(shape.dtype));
    EXPECT_EQ(ops.decode_unit({.encoded = in.data(),
                               .encoded_bytes = static_cast<int64_t>(in.size()),
                               .valid_rows = valid.empty() ? nullptr : rows.data(),
                               .units = out.data(),
                               .n_units = n,
                               .shape = shape,
                               .codec = codec,
                               .stream = device.stream()}),
              OpStatus::kOk);
    return out.Fetch();
  }
};

std::vector<uint8_t> ReferenceEncode(UnitCodec codec, const UnitShape& shape,
                                     const std::vector<uint8_t>& units,
                                     const std::vector<int32_t>& valid = {}) {
  const int64_t n = static_cast<int64_t>(units.size()) / shape.raw_bytes();
  std::vector<uint8_t> out(n * EncodedUnitBytes(codec, shape));
  EXPECT_EQ(CpuReference().encode_unit({.units = units.data(),
                                        .valid_rows = valid.empty() ? nullptr : valid.data(),
                                        .encoded = out.data(),
                                        .encoded_bytes = static_cast<int64_t>(out.size()),
                                        .n_units = n,
                                        .shape = shape,
                                        .codec = codec}),
            OpStatus::kOk);
  return out;
}

std::vector<uint8_t> ReferenceDecode(UnitCodec codec, const UnitShape& shape,
                                     const std::vector<uint8_t>& encoded,
                                     const std::vector<int32_t>& valid = {}) {
  const int64_t n = static_cast<int64_t>(encoded.size()) / EncodedUnitBytes(codec, shape);
  std::vector<uint8_t> out(n * shape.raw_bytes());
  EXPECT_EQ(CpuReference().decode_unit({.encoded = encoded.data(),
                                        .encoded_bytes = static_cast<int64_t>(encoded.size()),
                                        .valid_rows = valid.empty() ? nullptr : valid.data(),
                                        .units = out.data(),
                                        .n_units = n,
                                        .shape = shape,
                                        .codec = codec}),
            OpStatus::kOk);
  return out;
}

/// Encodes and decodes `units` with both, off alignment and not; the bytes must be equal.
void ExpectSameBytes(Workbench& bench, UnitCodec codec, const UnitShape& shape,
                     const std::vector<uint8_t>& units, const std::vector<int32_t>& valid = {}) {
  SCOPED_TRACE(Text(codec, shape));
  const std::vector<uint8_t> want = ReferenceEncode(codec, shape, units, valid);
  const std::vector<uint8_t> back = ReferenceDecode(codec, shape, want, valid);
  for (const size_t shift : {0u, 1u}) {
    const Coder coder{bench.device(), bench.table(), codec, shape, shift};
    ASSERT_EQ(coder.Encode(units, valid), want);
    ASSERT_EQ(coder.Decode(want, valid), back);
  }
}

UnitShape RandomShape(Workbench& bench, DType dtype) {
  return {.page_tokens = bench.Random(1, 40),
          .head_dim = bench.Random(1, 150),
          .has_values = bench.Random(0, 3) != 0,
          .dtype = dtype};
}

int64_t ElementCount(const UnitShape& shape, int64_t units) {
  return units * shape.raw_bytes() / ElementBytes(shape.dtype);
}

/// Numbers of many magnitudes, including all that are special to some codec or dtype.
std::vector<uint8_t> ExtremeElements(Workbench& bench, int64_t n, DType dtype, bool with_nan) {
  const float special[] = {0.0f,
                           -0.0f,
                           1e-45f,
                           -6e-8f,
                           65504.0f,
                           -65504.0f,
                           1e30f,
                           std::numeric_limits<float>::max(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::infinity(),
                           with_nan ? std::numeric_limits<float>::quiet_NaN() : 1.0f};
  std::vector<float> values = bench.Floats(n);
  for (float& value : values) {
    value = std::ldexp(value, static_cast<int>(bench.Random(-40, 20)));
    if (bench.Random(0, 15) == 0) value = special[bench.Random(0, std::size(special) - 1)];
  }
  return FromFloats(values, dtype);
}

/// The largest permitted error of each element of a unit, from the unit's own parameters.
std::vector<double> AllowedErrors(UnitCodec codec, const UnitShape& shape,
                                  const std::vector<float>& x, const uint8_t* encoded) {
  const EncodedLayout layout = LayoutOf(codec, shape);
  const auto f16 = [&](int64_t at, int64_t index) {
    uint16_t half;
    memcpy(&half, encoded + at + 2 * index, sizeof half);
    return double{F16ToFloat(half)};
  };
  const int64_t p = shape.page_tokens, d = shape.head_dim;
  std::vector<double> allowed(x.size());
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const bool keys = i < p * d;
    const int64_t t = i / d % p, c = i % d;
    const int64_t params = keys ? layout.key_params : layout.value_params;
    if (codec == UnitCodec::kFp8E4M3) {
      float scale;
      memcpy(&scale, encoded + params, sizeof scale);
      allowed[i] = std::max(std::abs(double{x[i]}) / 16, double{scale} / 1024);
    } else if (codec == UnitCodec::kInt8) {
      allowed[i] = f16(params, t) / 2;
    } else if (codec == UnitCodec::kInt4) {
      const int64_t groups = Int4Groups(d);
      allowed[i] = (keys ? f16(params, d + c) : f16(params, (p + t) * groups + c / kInt4Group)) / 2;
    }
    if (codec == UnitCodec::kRaw) continue;
    const double size = std::abs(double{x[i]}) + allowed[i];
    allowed[i] += kCodecSlack.At(allowed[i]) + RoundingStep(shape.dtype).At(size) / 2;
  }
  return allowed;
}

void ExpectErrorsAllowed(Workbench& bench, UnitCodec codec, const UnitShape& shape, float scale) {
  SCOPED_TRACE(Text(codec, shape));
  const std::vector<uint8_t> units =
      FromFloats(bench.Floats(ElementCount(shape, 1), scale), shape.dtype);
  const Coder coder{bench.device(), bench.table(), codec, shape};
  const std::vector<uint8_t> encoded = coder.Encode(units);
  const std::vector<float> x = ToFloats(units, shape.dtype);
  const std::vector<float> y = ToFloats(coder.Decode(encoded), shape.dtype);
  const std::vector<double> allowed = AllowedErrors(codec, shape, x, encoded.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(std::abs(double{y[i]} - double{x[i]}), allowed[i]) << x[i] << " at " << i;
  }
}

}  // namespace

TEST_P(OpConformance, CodecBytesEqualTheReference) {
  QUIRE_REQUIRE_OP(encode_unit);
  for (const UnitCodec codec : kAllCodecs) {
    for (const DType dtype : kAllDTypes) {
      for (int round = 0; round < 12; ++round) {
        const UnitShape shape = RandomShape(bench_, dtype);
        ExpectSameBytes(bench_, codec, shape, bench_.Elements(ElementCount(shape, 3), dtype));
        ExpectSameBytes(bench_, codec, shape,
                        ExtremeElements(bench_, ElementCount(shape, 3), dtype, round % 2 == 0));
        ExpectSameBytes(bench_, codec, shape, bench_.Bytes(2 * shape.raw_bytes()));
      }
    }
  }
}

// Every pattern of f16 and bf16, one channel or token each, so that all scales occur.
TEST_P(OpConformance, CodecsTakeEveryPattern) {
  QUIRE_REQUIRE_OP(encode_unit);
  for (const UnitCodec codec : kAllCodecs) {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      std::vector<uint8_t> units(2 * 65536);
      for (size_t i = 0; i < units.size(); i += 2) {
        units[i] = static_cast<uint8_t>(i / 2);
        units[i + 1] = static_cast<uint8_t>(i / 512);
      }
      ExpectSameBytes(bench_, codec, {1, 32, false, dtype}, units);
      ExpectSameBytes(bench_, codec, {32, 64, true, dtype}, units);
    }
  }
}

TEST_P(OpConformance, CodecErrorsStayWithinTheirBounds) {
  QUIRE_REQUIRE_OP(encode_unit);
  for (const UnitCodec codec : kAllCodecs) {
    for (const DType dtype : kAllDTypes) {
      for (const float scale : {1e-4f, 1.0f, 3000.0f}) {
        ExpectErrorsAllowed(bench_, codec, {32, 128, true, dtype}, scale);
        ExpectErrorsAllowed(bench_, codec, {16, 576, false, dtype}, scale);
        ExpectErrorsAllowed(bench_, codec, {7, 33, true, dtype}, scale);
        ExpectErrorsAllowed(bench_, codec, {1, 1, true, dtype}, scale);
      }
    }
  }
}

// Rows past the last token leave no trace, whatever they hold, and are decoded as zeros.
TEST_P(OpConformance, CodecsLeaveOutRowsThatAreNotValid) {
  QUIRE_REQUIRE_OP(encode_unit);
  for (const UnitCodec codec : kAllCodecs) {
    const UnitShape shape = {9, 37, true, DType::kBF16};
    const std::vector<int32_t> valid = {1, 9, 4};
    const std::vector<uint8_t> units = bench_.Elements(ElementCount(shape, 3), shape.dtype);
    std::vector<uint8_t> other = units;
    std::vector<uint8_t> zeros = units;
    const int64_t row = shape.head_dim * 2;
    for (int64_t r = 0; r < 3 * 2 * shape.page_tokens; ++r) {
      if (r % 9 < valid[r / 18]) continue;
      std::fill_n(other.begin() + r * row, row, uint8_t{0x7f});
      std::fill_n(zeros.begin() + r * row, row, uint8_t{0});
    }
    ExpectSameBytes(bench_, codec, shape, units, valid);
    const Coder coder{bench_.device(), table(), codec, shape};
    const std::vector<uint8_t> encoded = coder.Encode(units, valid);
    EXPECT_EQ(coder.Encode(other, valid), encoded);
    const std::vector<float> want = ToFloats(zeros, shape.dtype);
    const std::vector<float> got = ToFloats(coder.Decode(encoded, valid), shape.dtype);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(want[i] != 0 || got[i] == 0) << i;
    }
  }
}

TEST_P(OpConformance, CodecsKeepZerosAndConstants) {
  QUIRE_REQUIRE_OP(encode_unit);
  for (const UnitCodec codec : kAllCodecs) {
    for (const float value : {0.0f, -1.5f, 448.0f}) {
      const UnitShape shape = {4, 20, true, DType::kF16};
      const std::vector<uint8_t> units =
          FromFloats(std::vector<float>(ElementCount(shape, 1), value), shape.dtype);
      const Coder coder{bench_.device(), table(), codec, shape};
      ExpectClose(ToFloats(coder.Decode(coder.Encode(units)), shape.dtype),
                  ToFloats(units, shape.dtype), Tolerance{.relative = 1e-3});
    }
  }
}

TEST_P(OpConformance, CodecsNeverTurnNaNIntoANumberOrANumberIntoInfinity) {
  QUIRE_REQUIRE_OP(encode_unit);
  for (const UnitCodec codec : {UnitCodec::kFp8E4M3, UnitCodec::kInt8, UnitCodec::kInt4}) {
    for (const DType dtype : kAllDTypes) {
      const UnitShape shape = {8, 48, true, dtype};
      SCOPED_TRACE(Text(codec, shape));
      const std::vector<uint8_t> units =
          ExtremeElements(bench_, ElementCount(shape, 4), dtype, true);
      const Coder coder{bench_.device(), table(), codec, shape};
      const std::vector<float> x = ToFloats(units, dtype);
      const std::vector<float> y = ToFloats(coder.Decode(coder.Encode(units)), dtype);
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_FALSE(std::isinf(y[i])) << i;
        EXPECT_TRUE(std::isnan(y[i]) || !std::isnan(x[i])) << i;
        EXPECT_TRUE(codec != UnitCodec::kFp8E4M3 || std::isnan(x[i]) == std::isnan(y[i])) << i;
      }
    }
  }
}

TEST_P(OpConformance, CodecsDecodeAnyBytes) {
  QUIRE_REQUIRE_OP(decode_unit);
  for (const UnitCodec codec : kAllCodecs) {
    for (const DType dtype : kAllDTypes) {
      for (int round = 0; round < 12; ++round) {
        const UnitShape shape = RandomShape(bench_, dtype);
        SCOPED_TRACE(Text(codec, shape));
        const std::vector<uint8_t> damaged = bench_.Bytes(2 * EncodedUnitBytes(codec, shape));
        const Coder coder{bench_.device(), table(), codec, shape, 1};
        ASSERT_EQ(coder.Decode(damaged), ReferenceDecode(codec, shape, damaged));
      }
    }
  }
}

TEST_P(OpConformance, CodecsRefuseBadShapes) {
  QUIRE_REQUIRE_OP(encode_unit);
  const UnitShape shape = {4, 8, true, DType::kF32};
  std::vector<uint8_t> units(2 * shape.raw_bytes());
  std::vector<uint8_t> encoded(2 * EncodedUnitBytes(UnitCodec::kInt8, shape));
  const std::vector<int32_t> valid = {4, 5};
  const EncodeUnitArgs encode = {.units = units.data(),
                                 .encoded = encoded.data(),
                                 .encoded_bytes = static_cast<int64_t>(encoded.size()),
                                 .n_units = 2,
                                 .shape = shape,
                                 .codec = UnitCodec::kInt8};
  const DecodeUnitArgs decode = {.encoded = encoded.data(),
                                 .encoded_bytes = static_cast<int64_t>(encoded.size()),
                                 .units = units.data(),
                                 .n_units = 2,
                                 .shape = shape,
                                 .codec = UnitCodec::kInt8};
  const auto expect = [&](OpStatus want, auto change) {
    EncodeUnitArgs e = encode;
    change(e);
    EXPECT_EQ(table().encode_unit(e), want);
    DecodeUnitArgs d = decode;
    change(d);
    EXPECT_EQ(table().decode_unit(d), want);
  };
  expect(OpStatus::kBadShape, [](auto& a) { a.n_units = -1; });
  expect(OpStatus::kBadShape, [](auto& a) { a.shape.page_tokens = 0; });
  expect(OpStatus::kBadShape, [](auto& a) { a.shape.head_dim = 0; });
  expect(OpStatus::kBadShape, [](auto& a) { a.encoded_bytes -= 1; });
  expect(OpStatus::kBadShape, [](auto& a) { a.encoded_bytes += 1; });
  expect(OpStatus::kBadShape, [](auto& a) { a.units = nullptr; });
  expect(OpStatus::kBadShape, [](auto& a) { a.encoded = nullptr; });
  if (bench_.device().checks_lists()) {
    expect(OpStatus::kBadShape, [&](auto& a) { a.valid_rows = valid.data(); });
  }
  expect(OpStatus::kUnsupported, [](auto& a) { a.codec = static_cast<UnitCodec>(0); });
  expect(OpStatus::kUnsupported, [](auto& a) { a.codec = static_cast<UnitCodec>(5); });
  expect(OpStatus::kUnsupported, [](auto& a) { a.shape.dtype = static_cast<DType>(99); });
  expect(OpStatus::kOk, [](auto& a) {
    a.n_units = 0;
    a.encoded_bytes = 0;
    a.units = nullptr;
    a.encoded = nullptr;
  });
}

}  // namespace quire::kernels::testing
