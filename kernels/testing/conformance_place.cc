// SPDX-License-Identifier: Apache-2.0
//
// place_units: decode, rotate and scatter in one pass. Units are encoded by the reference.
#include <cmath>
#include <optional>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr UnitCodec kAllCodecs[] = {UnitCodec::kRaw, UnitCodec::kFp8E4M3, UnitCodec::kInt8,
                                    UnitCodec::kInt4};

struct Case {
  int64_t units, p, n_kv, d;
  bool has_values;
  int64_t rotary_first, rotary_dim;  ///< Set rotary_dim to -1 for no rotations.
  bool interleaved;

  int64_t slots() const { return units + 2; }
  UnitShape Shape(DType dtype) const { return {p, d, has_values, dtype}; }
};
constexpr Case kCases[] = {
    {1, 1, 1, 1, true, 0, -1, false},      {3, 32, 2, 128, true, 0, 128, false},
    {3, 32, 2, 128, true, 0, 128, true},   {4, 16, 8, 80, true, 0, 32, false},
    {4, 31, 3, 33, true, 0, 6, true},      {2, 33, 1, 64, true, 0, 64, false},
    {2, 16, 1, 576, false, 512, 64, true}, {3, 8, 2, 7, false, 1, 6, false},
    {2, 32, 4, 256, true, 0, -1, false},   {2, 16, 2, 96, true, 16, 32, false}};

std::vector<uint8_t> Encode(const UnitShape& shape, UnitCodec codec,
                            const std::vector<uint8_t>& units, const std::vector<int32_t>& valid) {
  const auto n = static_cast<int64_t>(valid.size());
  std::vector<uint8_t> encoded(n * EncodedUnitBytes(codec, shape));
  EXPECT_EQ(CpuReference().encode_unit({.units = units.data(),
                                        .valid_rows = valid.data(),
                                        .encoded = encoded.data(),
                                        .encoded_bytes = static_cast<int64_t>(encoded.size()),
                                        .n_units = n,
                                        .shape = shape,
                                        .codec = codec}),
            OpStatus::kOk);
  return encoded;
}

/// Variants of a check: contiguous or separate units, alignment of units, fp8 pools and their
/// alignment. Alignment is random unless given.
struct Way {
  bool scattered;
  size_t shift;
  bool fp8_pools;
  std::optional<size_t> pool_shift = std::nullopt;
};

void ExpectSameBytes(Tensor<uint8_t>& tensor) { EXPECT_EQ(tensor.Fetch(), tensor.host_array()); }

void CheckPlace(Workbench& bench, const Case& c, UnitCodec codec, DType dtype, const Way& way) {
  TestDevice& device = bench.device();
  const UnitShape shape = c.Shape(dtype);
  const auto p = static_cast<int32_t>(c.p);
  const std::vector<int32_t> valid_rows = bench.Ints(c.units, way.scattered ? p : 1, p);
  const int64_t unit_bytes = EncodedUnitBytes(codec, shape);
  const int64_t element = way.fp8_pools ? 1 : ElementBytes(dtype);
  const int64_t pool_bytes = c.slots() * c.p * c.n_kv * c.d * element;
  Tensor<uint8_t> encoded(
      device,
      Encode(shape, codec, bench.Elements(c.units * shape.raw_bytes() / ElementBytes(dtype), dtype),
             valid_rows),
      way.shift);
  std::vector<const void*> there, here;
  for (int64_t i = 0; i < c.units; ++i) {
    there.push_back(encoded.data() + i * unit_bytes);
    here.push_back(encoded.host() + i * unit_bytes);
  }
  Tensor<const void*> pointers(device, there);
  std::vector<UnitPlacement> where;
  for (const int32_t slot : bench.Slots(c.units, c.slots())) {
    where.push_back({slot, static_cast<int32_t>(bench.Random(0, c.n_kv - 1))});
  }
  Tensor<UnitPlacement> places(device, where);
  Tensor<int32_t> valid(device, valid_rows);
  const bool rotates = c.rotary_dim >= 0 && !way.fp8_pools;
  const int64_t n_rotations = 3, half = rotates ? c.rotary_dim / 2 : 0;
  std::vector<float> cos, sin;
  for (int64_t i = 0; i < n_rotations * half; ++i) {
    cos.push_back(std::cos(static_cast<float>(i + 1)));
    sin.push_back(std::sin(static_cast<float>(i + 1)));
  }
  Tensor<float> cos_table(device, cos, 1), sin_table(device, sin, 1);
  Tensor<int32_t> rotations(device, bench.Ints(c.units, -1, n_rotations - 1));
  const size_t shift = way.pool_shift ? *way.pool_shift : bench.Shift(element);
  Tensor<uint8_t> k(device, std::vector<uint8_t>(pool_bytes, 0x11), shift);
  Tensor<uint8_t> v(device, std::vector<uint8_t>(pool_bytes, 0x11), shift);
  Tensor<float> k_scales(device, std::vector<float>(c.slots() * c.n_kv, -3.0f));
  Tensor<float> v_scales(device, std::vector<float>(c.slots() * c.n_kv, -3.0f));

  PlaceUnitsArgs args{.num_slots = c.slots(),
                      .n_units = c.units,
                      .n_kv = c.n_kv,
                      .n_rotations = n_rotations,
                      .rotary_first = c.rotary_first,
                      .rotary_dim = rotates ? c.rotary_dim : 0,
                      .interleaved = c.interleaved,
                      .fp8_pools = way.fp8_pools,
                      .shape = shape,
                      .codec = codec};
  PlaceUnitsArgs want = args;
  args.encoded = way.scattered ? nullptr : encoded.data();
  args.unit_ptrs = way.scattered ? pointers.data() : nullptr;
  args.placements = places.data();
  args.valid_rows = way.scattered ? nullptr : valid.data();
  args.rotations = rotates ? rotations.data() : nullptr;
  args.cos_table = cos_table.data();
  args.sin_table = sin_table.data();
  args.k_pool = k.data();
  args.v_pool = c.has_values ? v.data() : nullptr;
  args.k_scales = k_scales.data();
  args.v_scales = v_scales.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().place_units(args), OpStatus::kOk);
  want.encoded = encoded.host();
  want.placements = places.host();
  want.valid_rows = valid.host();
  want.rotations = rotates ? rotations.host() : nullptr;
  want.cos_table = cos_table.host();
  want.sin_table = sin_table.host();
  want.k_pool = k.host();
  want.v_pool = v.host();
  want.k_scales = k_scales.host();
  want.v_scales = v_scales.host();
  ASSERT_EQ(CpuReference().place_units(want), OpStatus::kOk);
  ExpectSameBytes(k);
  ExpectSameBytes(v);
  ExpectClose(k_scales.Fetch(), k_scales.host_array(), kExact);
  ExpectClose(v_scales.Fetch(), v_scales.host_array(), kExact);
}

}  // namespace

TEST_P(OpConformance, PlaceUnitsEqualsReference) {
  QUIRE_REQUIRE_OP(place_units);
  for (const Case& c : kCases) {
    for (const UnitCodec codec : kAllCodecs) {
      for (const DType dtype : kAllDTypes) {
        const size_t raw = codec == UnitCodec::kRaw ? ElementBytes(dtype) : 1;
        CheckPlace(bench_, c, codec, dtype, {false, 0, false});
        CheckPlace(bench_, c, codec, dtype, {true, raw, false});
      }
    }
  }
}

TEST_P(OpConformance, PlaceUnitsKeepsFp8Codes) {
  QUIRE_REQUIRE_OP(place_units);
  for (const Case& c : kCases) {
    CheckPlace(bench_, c, UnitCodec::kFp8E4M3, DType::kBF16, {false, 0, true});
    CheckPlace(bench_, c, UnitCodec::kFp8E4M3, DType::kBF16, {true, 1, true});
  }
}

// Codes move in vectors as wide as source and destination permit. Every other one of consecutive
// units lies 8 bytes off the alignment of the others.
TEST_P(OpConformance, PlaceUnitsKeepsFp8CodesOfEveryAlignment) {
  QUIRE_REQUIRE_OP(place_units);
  constexpr Case kCase = {4, 32, 2, 128, true, 0, -1, false};
  ASSERT_EQ(EncodedUnitBytes(UnitCodec::kFp8E4M3, kCase.Shape(DType::kBF16)) % 16, 8);
  for (const size_t units_at : {0, 1, 2, 4, 8, 12}) {
    for (const size_t pools_at : {0, 1, 2, 4, 8}) {
      for (const bool scattered : {false, true}) {
        CheckPlace(bench_, kCase, UnitCodec::kFp8E4M3, DType::kBF16,
                   {scattered, units_at, true, pools_at});
      }
    }
  }
}

// Rotated keys stay numbers; keys without rotation keep every bit.
TEST_P(OpConformance, PlaceUnitsBoundsWhatItRotates) {
  QUIRE_REQUIRE_OP(place_units);
  TestDevice& device = bench_.device();
  const UnitShape shape{1, 6, false, DType::kF16};
  Tensor<uint8_t> unit(device, FromFloats({65504, 65504, INFINITY, -1, NAN, 2}, DType::kF16));
  Tensor<UnitPlacement> place(device, {{0, 0}});
  Tensor<int32_t> rotations(device, {0});
  const float root = std::sqrt(0.5f);
  Tensor<float> cos(device, {root}), sin(device, {-root});
  Tensor<uint8_t> pool(device, std::vector<uint8_t>(12));
  ASSERT_EQ(table().place_units({.encoded = unit.data(),
                                 .placements = place.data(),
                                 .rotations = rotations.data(),
                                 .cos_table = cos.data(),
                                 .sin_table = sin.data(),
                                 .k_pool = pool.data(),
                                 .num_slots = 1,
                                 .n_units = 1,
                                 .n_kv = 1,
                                 .n_rotations = 1,
                                 .rotary_dim = 2,
                                 .shape = shape,
                                 .stream = device.stream()}),
            OpStatus::kOk);
  const std::vector<float> got = ToFloats(pool.Fetch(), DType::kF16);
  EXPECT_EQ(got[0], 65504);
  EXPECT_EQ(got[1], 0);
  const std::vector<uint8_t> bytes = pool.Fetch();
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin() + 4, bytes.end()),
            std::vector<uint8_t>(unit.host() + 4, unit.host() + 12));
}

TEST_P(OpConformance, PlaceUnitsRefusesBadShapes) {
  QUIRE_REQUIRE_OP(place_units);
  const UnitShape shape = {4, 8, true, DType::kF32};
  std::vector<uint8_t> unit(shape.raw_bytes()), pool(2 * 2 * shape.raw_bytes());
  std::vector<float> table_row(4);
  const UnitPlacement place = {1, 1};
  std::vector<int32_t> list = {1};
  const PlaceUnitsArgs good{.encoded = unit.data(),
                            .placements = &place,
                            .cos_table = table_row.data(),
                            .sin_table = table_row.data(),
                            .k_pool = pool.data(),
                            .v_pool = pool.data(),
                            .num_slots = 2,
                            .n_units = 1,
                            .n_kv = 2,
                            .n_rotations = 1,
                            .rotary_dim = 8,
                            .shape = shape};
  const auto answer = [&](auto change) {
    PlaceUnitsArgs args = good;
    change(args);
    return table().place_units(args);
  };
  const auto rotate = [&](auto& a) { a.rotations = list.data(); };
  EXPECT_EQ(answer([](auto& a) { a.n_units = -1; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.shape.head_dim = 0; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.encoded = nullptr; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.v_pool = nullptr; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([&](auto& a) { rotate(a), a.rotary_dim = 7; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([&](auto& a) { rotate(a), a.rotary_first = 2; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([&](auto& a) { rotate(a), a.sin_table = nullptr; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.codec = static_cast<UnitCodec>(0); }), OpStatus::kUnsupported);
  EXPECT_EQ(answer([](auto& a) { a.fp8_pools = true; }), OpStatus::kUnsupported);
  EXPECT_EQ(answer([](auto& a) { a.fp8_pools = true, a.codec = UnitCodec::kFp8E4M3; }),
            OpStatus::kBadShape);  // Without scales.
  if (bench_.device().checks_lists()) {
    EXPECT_EQ(answer([&](auto& a) { rotate(a); }), OpStatus::kBadShape);  // Row 1 of 1.
    EXPECT_EQ(answer([](auto& a) { a.num_slots = 1; }), OpStatus::kBadShape);
    EXPECT_EQ(answer([](auto& a) { a.n_kv = 1; }), OpStatus::kBadShape);
    list = {5};
    EXPECT_EQ(answer([&](auto& a) { a.valid_rows = list.data(); }), OpStatus::kBadShape);
  }
  EXPECT_EQ(answer([](auto& a) { a.n_units = 0, a.placements = nullptr; }), OpStatus::kOk);
}

}  // namespace quire::kernels::testing
