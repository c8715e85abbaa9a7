// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

struct Size {
  int64_t rows, dim;
};
constexpr Size kSizes[] = {{0, 8}, {1, 1}, {1, 7}, {3, 33}, {2, 128}, {5, 1000}};

void CheckRope(Workbench& bench, int64_t d, int64_t rotary_dim, bool interleaved, DType dtype,
               int64_t rotary_first = 0) {
  TestDevice& device = bench.device();
  const int64_t t = 5, heads = 3, n_positions = 40, half = rotary_dim / 2;
  std::vector<float> cos(n_positions * half), sin(n_positions * half);
  for (size_t i = 0; i < cos.size(); ++i) {
    cos[i] = std::cos(static_cast<float>(i));
    sin[i] = std::sin(static_cast<float>(i));
  }
  Tensor<float> cos_table(device, cos, 1), sin_table(device, sin, 1);
  Tensor<int32_t> positions(device, bench.Ints(t, 0, n_positions - 1));
  Tensor<uint8_t> rows(device, bench.Elements(t * heads * d, dtype),
                       bench.Shift(ElementBytes(dtype)));
  RopeArgs args{.t = t,
                .heads = heads,
                .head_dim = d,
                .rotary_first = rotary_first,
                .rotary_dim = rotary_dim,
                .n_positions = n_positions,
                .interleaved = interleaved,
                .dtype = dtype};
  RopeArgs want = args;
  args.rows = rows.data();
  args.positions = positions.data();
  args.cos_table = cos_table.data();
  args.sin_table = sin_table.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().rope(args), OpStatus::kOk);
  want.rows = rows.host();
  want.positions = positions.host();
  want.cos_table = cos_table.host();
  want.sin_table = sin_table.host();
  ASSERT_EQ(CpuReference().rope(want), OpStatus::kOk);
  EXPECT_EQ(rows.Fetch(), rows.host_array());
}

struct MatmulCase {
  int64_t rows, in, out;
  int64_t heads = 1;
};

/// Distances: kMatmulTolerance of sum_i |x * weight| + |bias|, for each output.
std::vector<double> MatmulDistances(const MatmulCase& c, Tensor<float>& x, Tensor<float>& weight,
                                    Tensor<float>* bias) {
  std::vector<double> distances;
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t o = 0; o < c.heads * c.out; ++o) {
      const float* const row = x.host() + (r * c.heads + o / c.out) * c.in;
      double size = bias != nullptr ? std::abs(bias->host()[o]) : 0;
      for (int64_t i = 0; i < c.in; ++i) {
        size += std::abs(double{row[i]} * weight.host()[o * c.in + i]);
      }
      distances.push_back(kMatmulTolerance.At(size));
    }
  }
  return distances;
}

/// `shift`: elements between aligned addresses and the inputs.
void CheckMatmul(Workbench& bench, const MatmulCase& c, bool biased, size_t shift) {
  SCOPED_TRACE(std::to_string(c.rows) + " rows, " + std::to_string(c.in) + " to " +
               std::to_string(c.out) + ", " + std::to_string(c.heads) + " heads, shift " +
               std::to_string(shift));
  TestDevice& device = bench.device();
  Tensor<float> x(device, bench.Floats(c.rows * c.heads * c.in), shift);
  Tensor<float> weight(device, bench.Floats(c.heads * c.out * c.in), shift);
  Tensor<float> bias(device, bench.Floats(c.heads * c.out), 1);
  Tensor<float> y(
      device, std::vector<float>(c.rows * c.heads * c.out, std::numeric_limits<float>::quiet_NaN()),
      1);
  MatmulArgs args{.rows = c.rows, .in = c.in, .out = c.out, .heads = c.heads};
  MatmulArgs want = args;
  args.x = x.data();
  args.weight = weight.data();
  args.bias = biased ? bias.data() : nullptr;
  args.y = y.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().matmul(args), OpStatus::kOk);
  want.x = x.host();
  want.weight = weight.host();
  want.bias = biased ? bias.host() : nullptr;
  want.y = y.host();
  ASSERT_EQ(CpuReference().matmul(want), OpStatus::kOk);
  ExpectClose(y.Fetch(), y.host_array(), MatmulDistances(c, x, weight, biased ? &bias : nullptr));
}

}  // namespace

TEST_P(OpConformance, RmsNormEqualsReference) {
  QUIRE_REQUIRE_OP(rmsnorm);
  for (const Size& s : kSizes) {
    Tensor<float> x(bench_.device(), bench_.Floats(s.rows * s.dim, 3.0f), 1);
    Tensor<float> weight(bench_.device(), bench_.Floats(s.dim), 1);
    RmsNormArgs args{.rows = s.rows, .dim = s.dim, .eps = 0.5f};
    RmsNormArgs want = args;
    args.x = args.y = x.data();  // In place is permitted.
    args.weight = weight.data();
    args.stream = bench_.device().stream();
    ASSERT_EQ(table().rmsnorm(args), OpStatus::kOk);
    want.x = want.y = x.host();
    want.weight = weight.host();
    ASSERT_EQ(CpuReference().rmsnorm(want), OpStatus::kOk);
    ExpectClose(x.Fetch(), x.host_array(), kRmsNormTolerance);
  }
  EXPECT_EQ(table().rmsnorm({.rows = 1, .dim = 4}), OpStatus::kBadShape);
  EXPECT_EQ(table().rmsnorm({.rows = 0, .dim = 0}), OpStatus::kBadShape);
  EXPECT_EQ(table().rmsnorm({.rows = 0, .dim = 1, .eps = -1.0f}), OpStatus::kBadShape);
}

// A part of each row, as the latent of MLA is a part of what is cached.
TEST_P(OpConformance, RmsNormOfPartsOfRowsLeavesTheOthers) {
  QUIRE_REQUIRE_OP(rmsnorm);
  for (const Size& s : kSizes) {
    const int64_t stride = s.dim + 5;
    Tensor<float> x(bench_.device(), bench_.Floats(s.rows * stride, 3.0f), 1);
    Tensor<float> weight(bench_.device(), bench_.Floats(s.dim), 1);
    RmsNormArgs args{.rows = s.rows, .dim = s.dim, .stride = stride, .eps = 0.5f};
    RmsNormArgs want = args;
    args.x = args.y = x.data();
    args.weight = weight.data();
    args.stream = bench_.device().stream();
    ASSERT_EQ(table().rmsnorm(args), OpStatus::kOk);
    want.x = want.y = x.host();
    want.weight = weight.host();
    ASSERT_EQ(CpuReference().rmsnorm(want), OpStatus::kOk);
    ExpectClose(x.Fetch(), x.host_array(), kRmsNormTolerance);
  }
  EXPECT_EQ(table().rmsnorm({.rows = 0, .dim = 4, .stride = 3}), OpStatus::kBadShape);
}

TEST_P(OpConformance, RopeEqualsReference) {
  QUIRE_REQUIRE_OP(rope);
  for (const DType dtype : kAllDTypes) {
    for (const bool interleaved : {false, true}) {
      for (const int64_t d : {64, 80, 96, 128, 256}) CheckRope(bench_, d, d, interleaved, dtype);
      CheckRope(bench_, 80, 32, interleaved, dtype);
      CheckRope(bench_, 7, 6, interleaved, dtype);
      CheckRope(bench_, 5, 0, interleaved, dtype);
      CheckRope(bench_, 576, 64, interleaved, dtype, 512);
      CheckRope(bench_, 9, 4, interleaved, dtype, 3);
    }
  }
}

TEST_P(OpConformance, RopeRefusesBadShapes) {
  QUIRE_REQUIRE_OP(rope);
  std::vector<float> memory(64);
  const std::vector<int32_t> positions = {2};
  const RopeArgs good{.rows = memory.data(),
                      .positions = positions.data(),
                      .cos_table = memory.data(),
                      .sin_table = memory.data(),
                      .t = 1,
                      .heads = 1,
                      .head_dim = 4,
                      .rotary_dim = 4,
                      .n_positions = 3};
  const auto refused = [&](auto change) {
    RopeArgs args = good;
    change(args);
    return table().rope(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.rotary_dim = 3; }));
  EXPECT_TRUE(refused([](auto& a) { a.rotary_dim = 6; }));
  EXPECT_TRUE(refused([](auto& a) { a.rotary_first = 1; }));
  EXPECT_TRUE(refused([](auto& a) { a.rotary_first = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.sin_table = nullptr; }));
  EXPECT_TRUE(!bench_.device().checks_lists() || refused([](auto& a) { a.n_positions = 2; }));
}

TEST_P(OpConformance, SiluMulEqualsReference) {
  QUIRE_REQUIRE_OP(silu_mul);
  for (const GateFunction function : {GateFunction::kSilu, GateFunction::kGeluTanh}) {
    for (const Size& s : kSizes) {
      // One fused [rows][2 * dim] product, gate first.
      Tensor<float> fused(bench_.device(), bench_.Floats(s.rows * 2 * s.dim, 20.0f), 1);
      Tensor<float> y(bench_.device(), std::vector<float>(s.rows * s.dim), 1);
      SiluMulArgs args{.rows = s.rows,
                       .dim = s.dim,
                       .gate_stride = 2 * s.dim,
                       .up_stride = 2 * s.dim,
                       .function = function};
      SiluMulArgs want = args;
      const int64_t up = s.rows > 0 ? s.dim : 0;  // Without rows there is no memory.
      args.gate = fused.data();
      args.up = fused.data() + up;
      args.y = y.data();
      args.stream = bench_.device().stream();
      ASSERT_EQ(table().silu_mul(args), OpStatus::kOk);
      want.gate = fused.host();
      want.up = fused.host() + up;
      want.y = y.host();
      ASSERT_EQ(CpuReference().silu_mul(want), OpStatus::kOk);
      ExpectClose(y.Fetch(), y.host_array(), kSiluMulTolerance);
    }
  }
  EXPECT_EQ(table().silu_mul({.rows = 0, .dim = 4, .function = static_cast<GateFunction>(9)}),
            OpStatus::kUnsupported);
  EXPECT_EQ(table().silu_mul({.rows = 1, .dim = 4}), OpStatus::kBadShape);
  EXPECT_EQ(table().silu_mul({.rows = 0, .dim = 4, .up_stride = 3}), OpStatus::kBadShape);
}

TEST_P(OpConformance, MatmulEqualsReference) {
  QUIRE_REQUIRE_OP(matmul);
  const MatmulCase cases[] = {{0, 4, 4},
                              {1, 1, 1},
                              {1, 64, 96},
                              {1, 33, 7},
                              {1, 516, 9},
                              {2, 260, 11},
                              {3, 33, 7},
                              {4, 1100, 3},
                              {5, 128, 13},
                              {7, 132, 6},
                              {8, 640, 17},
                              {9, 36, 5},
                              {17, 80, 5},
                              {64, 256, 130},
                              // Heads of latent attention.
                              {1, 192, 576, 2},
                              {2, 18, 24, 3},
                              {5, 7, 3, 4},
                              {33, 20, 70, 3}};
  for (const MatmulCase& c : cases) {
    for (const size_t shift : {size_t{0}, size_t{1}}) {
      CheckMatmul(bench_, c, false, shift);
      CheckMatmul(bench_, c, true, shift);
    }
  }
  EXPECT_EQ(table().matmul({.rows = 1, .in = 4, .out = 4}), OpStatus::kBadShape);
  EXPECT_EQ(table().matmul({.rows = 0, .in = 0, .out = 4}), OpStatus::kBadShape);
  EXPECT_EQ(table().matmul({.rows = 0, .in = 4, .out = 4, .heads = 0}), OpStatus::kBadShape);
}

TEST_P(OpConformance, AddEqualsReference) {
  QUIRE_REQUIRE_OP(add);
  for (const int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 64, 1000}) {
    Tensor<float> a(bench_.device(), bench_.Floats(n), 1), b(bench_.device(), bench_.Floats(n));
    Tensor<float> y(bench_.device(), std::vector<float>(n), 3);
    std::vector<float> want = a.host_array();
    for (int64_t i = 0; i < n; ++i) want[i] += b.host()[i];
    for (Tensor<float>* sum : {&y, &a}) {  // The last in place.
      ASSERT_EQ(table().add({.a = a.data(),
                             .b = b.data(),
                             .y = sum->data(),
                             .n = n,
                             .stream = bench_.device().stream()}),
                OpStatus::kOk);
      ExpectClose(sum->Fetch(), want, kExact);
    }
  }
  EXPECT_EQ(table().add({.n = -1}), OpStatus::kBadShape);
  EXPECT_EQ(table().add({.n = 1}), OpStatus::kBadShape);
}

TEST_P(OpConformance, SoftCapEqualsReference) {
  QUIRE_REQUIRE_OP(soft_cap);
  for (const int64_t n : {0, 1, 17, 1000}) {
    for (const float cap : {0.5f, 30.0f}) {
      Tensor<float> x(bench_.device(), bench_.Floats(n, 40.0f), 1);
      SoftCapArgs args{.n = n, .cap = cap};
      SoftCapArgs want = args;
      args.x = args.y = x.data();  // In place is permitted.
      args.stream = bench_.device().stream();
      ASSERT_EQ(table().soft_cap(args), OpStatus::kOk);
      want.x = want.y = x.host();
      ASSERT_EQ(CpuReference().soft_cap(want), OpStatus::kOk);
      ExpectClose(x.Fetch(), x.host_array(), kSoftCapTolerance);
    }
  }
  EXPECT_EQ(table().soft_cap({.n = 1, .cap = 1}), OpStatus::kBadShape);
  EXPECT_EQ(table().soft_cap({.n = 0, .cap = 0}), OpStatus::kBadShape);
}

TEST_P(OpConformance, EmbedEqualsReference) {
  QUIRE_REQUIRE_OP(embed);
  const int64_t vocab = 11;
  for (const Size& s : kSizes) {
    Tensor<float> rows(bench_.device(), bench_.Floats(vocab * s.dim), 1);
    Tensor<int32_t> ids(bench_.device(), bench_.Ints(s.rows, 0, vocab - 1));
    Tensor<float> y(bench_.device(), std::vector<float>(s.rows * s.dim), 1);
    EmbedArgs args{.rows = s.rows, .vocab = vocab, .dim = s.dim, .scale = s.rows == 1 ? 1 : 1.7f};
    EmbedArgs want = args;
    args.table = rows.data();
    args.ids = ids.data();
    args.y = y.data();
    args.stream = bench_.device().stream();
    ASSERT_EQ(table().embed(args), OpStatus::kOk);
    want.table = rows.host();
    want.ids = ids.host();
    want.y = y.host();
    ASSERT_EQ(CpuReference().embed(want), OpStatus::kOk);
    ExpectClose(y.Fetch(), y.host_array(), kExact);
  }
  EXPECT_EQ(table().embed({.rows = 1, .vocab = 4, .dim = 4}), OpStatus::kBadShape);
  if (bench_.device().checks_lists()) {
    std::vector<float> memory(8);
    const int32_t id = 4;
    EXPECT_EQ(table().embed({.table = memory.data(),
                             .ids = &id,
                             .y = memory.data() + 4,
                             .rows = 1,
                             .vocab = 4,
                             .dim = 1}),
              OpStatus::kBadShape);
  }
}

}  // namespace quire::kernels::testing
