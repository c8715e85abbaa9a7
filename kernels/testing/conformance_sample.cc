// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

constexpr SampleDraw kCases[] = {{.temperature = 0.0f},
                                 {.temperature = 1.0f},
                                 {.temperature = 0.7f, .top_k = 5},
                                 {.temperature = 1.3f, .top_p = 0.9f},
                                 {.temperature = 0.7f, .top_p = 0.8f, .top_k = 40},
                                 {.temperature = 2.0f, .top_p = 0.01f, .top_k = 1},
                                 {.temperature = 1.0f, .top_p = 0.999f, .top_k = 100000}};

std::vector<int32_t> Reference(SampleArgs args, const float* logits, std::vector<SampleDraw> draws,
                               float shift_uniform, float shift_p) {
  std::vector<int32_t> tokens(args.rows);
  for (SampleDraw& draw : draws) {
    draw.uniform = std::clamp(draw.uniform + shift_uniform, 0.0f, 1.0f);
    if (draw.top_p < 1) draw.top_p = std::clamp(draw.top_p + shift_p, 1e-6f, 1.0f);
  }
  args.logits = logits;
  args.draws = draws.data();
  args.tokens = tokens.data();
  EXPECT_EQ(CpuReference().sample(args), OpStatus::kOk);
  return tokens;
}

/// Accepts the token of the reference, or one that it gives when u or top_p change by the
/// tolerance. There is a row for each of `draws`, which get numbers.
void CheckSample(Workbench& bench, std::vector<SampleDraw> draws, std::vector<float> values) {
  TestDevice& device = bench.device();
  const auto rows = static_cast<int64_t>(draws.size());
  for (SampleDraw& draw : draws) {
    draw.uniform = static_cast<float>(bench.Random(0, 999999)) * 1e-6f;
  }
  const SampleArgs shape{.rows = rows, .vocab = static_cast<int64_t>(values.size()) / rows};
  Tensor<float> logits(device, std::move(values), 1);
  Tensor<SampleDraw> drawn(device, draws);
  Tensor<int32_t> tokens(device, std::vector<int32_t>(rows, -7));
  SampleArgs args = shape;
  args.logits = logits.data();
  args.draws = drawn.data();
  args.tokens = tokens.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().sample(args), OpStatus::kOk);
  const std::vector<int32_t> got = tokens.Fetch();
  std::vector<std::vector<int32_t>> allowed;
  const auto slack = static_cast<float>(kSampleTolerance.absolute);
  for (const float u : {-slack, 0.0f, slack}) {
    for (const float p : {-slack, 0.0f, slack}) {
      allowed.push_back(Reference(shape, logits.host(), draws, u, p));
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_TRUE(
        std::any_of(allowed.begin(), allowed.end(),
                    [&](const auto& tokens_of_row) { return tokens_of_row[row] == got[row]; }))
        << "row " << row << " of vocab " << shape.vocab << " gives " << got[row] << ", want "
        << allowed[4][row];
  }
}

std::vector<SampleDraw> Twice(const SampleDraw& draw) { return {draw, draw}; }

}  // namespace

TEST_P(OpConformance, SampleEqualsReference) {
  QUIRE_REQUIRE_OP(sample);
  for (const SampleDraw& draw : kCases) {
    for (const int64_t vocab : {1, 31, 1500}) {
      CheckSample(bench_, Twice(draw), bench_.Floats(2 * vocab, 3.0f));
      // Few distinct logits: ties decide.
      std::vector<float> values = bench_.Floats(2 * vocab);
      const float distinct[] = {0.0f, -0.0f, 1.0f, -1.0f, kNaN, -kInfinity};
      for (float& value : values) value = distinct[bench_.Random(0, 5)];
      CheckSample(bench_, Twice(draw), values);
    }
  }
}

TEST_P(OpConformance, SampleOfRowsThatAreDrawnInOtherWays) {
  QUIRE_REQUIRE_OP(sample);
  const std::vector<SampleDraw> draws(std::begin(kCases), std::end(kCases));
  for (int round = 0; round < 8; ++round) {
    CheckSample(bench_, draws, bench_.Floats(static_cast<int64_t>(draws.size()) * 300, 3.0f));
  }
}

TEST_P(OpConformance, SampleOfRowsWithoutNumbers) {
  QUIRE_REQUIRE_OP(sample);
  for (const SampleDraw& draw : kCases) {
    CheckSample(bench_, Twice(draw), std::vector<float>(100, kNaN));
    CheckSample(bench_, Twice(draw), std::vector<float>(100, -kInfinity));
    std::vector<float> values(100, 1.0f);
    values[60] = values[70] = kInfinity;
    CheckSample(bench_, Twice(draw), values);
  }
}

TEST_P(OpConformance, SampleWithoutDrawsTakesTheFirstOfTheOrder) {
  QUIRE_REQUIRE_OP(sample);
  Tensor<float> logits(bench_.device(), std::vector<float>{1, 3, 3, -1, 0, kNaN, -2, -3}, 1);
  Tensor<int32_t> tokens(bench_.device(), std::vector<int32_t>(2, -7));
  ASSERT_EQ(table().sample({.logits = logits.data(),
                            .tokens = tokens.data(),
                            .rows = 2,
                            .vocab = 4,
                            .stream = bench_.device().stream()}),
            OpStatus::kOk);
  EXPECT_EQ(tokens.Fetch(), (std::vector<int32_t>{1, 0}));
}

TEST_P(OpConformance, SampleDrawsNothingOutOfRange) {
  QUIRE_REQUIRE_OP(sample);
  const std::vector<SampleDraw> draws = {{.temperature = -1.0f},
                                         {.temperature = kNaN},
                                         {.temperature = kInfinity},
                                         {.temperature = 1.0f, .top_p = 0.0f},
                                         {.temperature = 1.0f, .top_p = 1.5f},
                                         {.temperature = 1.0f, .top_p = kNaN},
                                         {.temperature = 1.0f, .top_k = -1},
                                         {.temperature = 1.0f}};
  const auto rows = static_cast<int64_t>(draws.size());
  Tensor<float> logits(bench_.device(), std::vector<float>(draws.size(), 1.0f), 1);
  Tensor<SampleDraw> drawn(bench_.device(), draws);
  Tensor<int32_t> tokens(bench_.device(), std::vector<int32_t>(draws.size(), -7));
  ASSERT_EQ(table().sample({.logits = logits.data(),
                            .draws = drawn.data(),
                            .tokens = tokens.data(),
                            .rows = rows,
                            .vocab = 1,
                            .stream = bench_.device().stream()}),
            OpStatus::kOk);
  std::vector<int32_t> wanted(draws.size(), -1);
  wanted.back() = 0;
  EXPECT_EQ(tokens.Fetch(), wanted);
}

TEST_P(OpConformance, SampleRefusesBadShapes) {
  QUIRE_REQUIRE_OP(sample);
  std::vector<float> memory(8);
  int32_t token = 0;
  const SampleArgs good{.logits = memory.data(), .tokens = &token, .rows = 1, .vocab = 4};
  const auto refused = [&](auto change) {
    SampleArgs args = good;
    change(args);
    return table().sample(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.vocab = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.rows = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.logits = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.tokens = nullptr; }));
  SampleArgs empty = good;
  empty.rows = 0;
  EXPECT_EQ(table().sample(empty), OpStatus::kOk);
}

}  // namespace quire::kernels::testing
