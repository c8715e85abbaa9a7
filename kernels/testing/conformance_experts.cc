// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

struct RouterCase {
  int64_t rows, n_experts, k;
};

void CheckRouter(Workbench& bench, const RouterCase& c, std::vector<float> logits, bool normalize) {
  SCOPED_TRACE(std::to_string(c.k) + " of " + std::to_string(c.n_experts));
  TestDevice& device = bench.device();
  Tensor<float> given(device, std::move(logits), 1);
  Tensor<int32_t> experts(device, std::vector<int32_t>(c.rows * c.k, -1));
  Tensor<float> weights(device, std::vector<float>(c.rows * c.k), 1);
  ChooseExpertsArgs args{
      .rows = c.rows, .n_experts = c.n_experts, .k = c.k, .normalize = normalize};
  ChooseExpertsArgs want = args;
  args.logits = given.data();
  args.experts = experts.data();
  args.weights = weights.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().choose_experts(args), OpStatus::kOk);
  want.logits = given.host();
  want.experts = experts.host();
  want.weights = weights.host();
  ASSERT_EQ(CpuReference().choose_experts(want), OpStatus::kOk);
  EXPECT_EQ(experts.Fetch(), experts.host_array());
  ExpectClose(weights.Fetch(), weights.host_array(), kChooseExpertsTolerance);
}

struct ProductCase {
  int64_t rows, share, n_experts, in, out;
};

void CheckProduct(Workbench& bench, const ProductCase& c, size_t shift) {
  SCOPED_TRACE(std::to_string(c.rows) + " rows, " + std::to_string(c.in) + " to " +
               std::to_string(c.out));
  TestDevice& device = bench.device();
  Tensor<float> x(device, bench.Floats(c.rows / c.share * c.in), shift);
  Tensor<float> weight(device, bench.Floats(c.n_experts * c.out * c.in), shift);
  Tensor<int32_t> experts(device, bench.Ints(c.rows, 0, static_cast<int32_t>(c.n_experts - 1)));
  Tensor<float> y(device, std::vector<float>(c.rows * c.out), 1);
  ExpertMatmulArgs args{
      .rows = c.rows, .share = c.share, .n_experts = c.n_experts, .in = c.in, .out = c.out};
  ExpertMatmulArgs want = args;
  args.x = x.data();
  args.weight = weight.data();
  args.experts = experts.data();
  args.y = y.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().expert_matmul(args), OpStatus::kOk);
  want.x = x.host();
  want.weight = weight.host();
  want.experts = experts.host();
  want.y = y.host();
  ASSERT_EQ(CpuReference().expert_matmul(want), OpStatus::kOk);
  std::vector<double> distances;
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t o = 0; o < c.out; ++o) {
      double size = 0;
      for (int64_t i = 0; i < c.in; ++i) {
        size += std::abs(double{x.host()[r / c.share * c.in + i]} *
                         weight.host()[(experts.host()[r] * c.out + o) * c.in + i]);
      }
      distances.push_back(kMatmulTolerance.At(size));
    }
  }
  ExpectClose(y.Fetch(), y.host_array(), distances);
}

}  // namespace

TEST_P(OpConformance, ChosenExpertsEqualTheReferences) {
  QUIRE_REQUIRE_OP(choose_experts);
  const RouterCase cases[] = {{0, 4, 2},   {1, 1, 1},  {3, 4, 2},   {5, 8, 2},
                              {2, 128, 8}, {7, 33, 5}, {4, 60, 60}, {3, 300, 3}};
  for (const RouterCase& c : cases) {
    for (const bool normalize : {false, true}) {
      CheckRouter(bench_, c, bench_.Floats(c.rows * c.n_experts, 5.0f), normalize);
      // Few different logits: many are equal.
      std::vector<float> equal;
      for (int32_t i : bench_.Ints(c.rows * c.n_experts, -1, 1)) equal.push_back(i * 0.5f);
      CheckRouter(bench_, c, equal, normalize);
    }
  }
}

TEST_P(OpConformance, ALogitThatIsNotANumberShowsInTheWeights) {
  QUIRE_REQUIRE_OP(choose_experts);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool normalize : {false, true}) {
    CheckRouter(bench_, {2, 4, 2}, {1, nan, 3, 2, 0, 1, 2, 3}, normalize);
    CheckRouter(bench_, {1, 3, 2}, {nan, nan, 1}, normalize);
  }
}

TEST_P(OpConformance, ExpertMatmulEqualsReference) {
  QUIRE_REQUIRE_OP(expert_matmul);
  const ProductCase cases[] = {{0, 1, 2, 4, 4},    {1, 1, 1, 1, 1},     {6, 2, 4, 33, 7},
                               {8, 8, 16, 64, 96}, {40, 2, 3, 100, 11}, {9, 3, 2, 260, 130}};
  for (const ProductCase& c : cases) {
    for (const size_t shift : {size_t{0}, size_t{1}}) CheckProduct(bench_, c, shift);
  }
}

TEST_P(OpConformance, CombinedExpertsEqualTheReferences) {
  QUIRE_REQUIRE_OP(combine_experts);
  for (const int64_t k : {1, 2, 8}) {
    for (const int64_t dim : {1, 7, 64, 300}) {
      const int64_t rows = 5;
      Tensor<float> parts(bench_.device(), bench_.Floats(rows * k * dim), 1);
      Tensor<float> weights(bench_.device(), bench_.Floats(rows * k));
      Tensor<float> y(bench_.device(), std::vector<float>(rows * dim), 1);
      CombineExpertsArgs args{.rows = rows, .k = k, .dim = dim};
      CombineExpertsArgs want = args;
      args.parts = parts.data();
      args.weights = weights.data();
      args.y = y.data();
      args.stream = bench_.device().stream();
      ASSERT_EQ(table().combine_experts(args), OpStatus::kOk);
      want.parts = parts.host();
      want.weights = weights.host();
      want.y = y.host();
      ASSERT_EQ(CpuReference().combine_experts(want), OpStatus::kOk);
      std::vector<double> distances;
      for (int64_t i = 0; i < rows * dim; ++i) {
        double size = 0;
        for (int64_t j = 0; j < k; ++j) {
          size += std::abs(double{weights.host()[i / dim * k + j]} *
                           parts.host()[(i / dim * k + j) * dim + i % dim]);
        }
        distances.push_back(kCombineExpertsTolerance.At(size));
      }
      ExpectClose(y.Fetch(), y.host_array(), distances);
    }
  }
}

TEST_P(OpConformance, ExpertOpsRefuseBadShapes) {
  QUIRE_REQUIRE_OP(choose_experts);
  EXPECT_EQ(table().choose_experts({.rows = 1, .n_experts = 4, .k = 2}), OpStatus::kBadShape);
  EXPECT_EQ(table().choose_experts({.rows = 0, .n_experts = 4, .k = 5}), OpStatus::kBadShape);
  EXPECT_EQ(table().expert_matmul({.rows = 3, .share = 2, .n_experts = 2, .in = 1, .out = 1}),
            OpStatus::kBadShape);
  EXPECT_EQ(table().expert_matmul({.rows = 2, .n_experts = 2, .in = 1, .out = 1}),
            OpStatus::kBadShape);
  EXPECT_EQ(table().combine_experts({.rows = 1, .k = 1, .dim = 1}), OpStatus::kBadShape);
  EXPECT_EQ(table().combine_experts({.rows = 0, .k = 0, .dim = 1}), OpStatus::kBadShape);
  if (!bench_.device().checks_lists()) return;
  std::vector<float> memory(8);
  const int32_t expert = 2;
  EXPECT_EQ(table().expert_matmul({.x = memory.data(),
                                   .weight = memory.data(),
                                   .experts = &expert,
                                   .y = memory.data() + 4,
                                   .rows = 1,
                                   .n_experts = 2,
                                   .in = 1,
                                   .out = 1}),
            OpStatus::kBadShape);
}

}  // namespace quire::kernels::testing
