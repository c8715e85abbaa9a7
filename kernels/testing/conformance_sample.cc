// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Case {
  float temperature;
  int64_t top_k;
  float top_p;
};
constexpr Case kCases[] = {{0.0f, 0, 1.0f},       {1.0f, 0, 1.0f},  {0.7f, 5, 1.0f},
                           {1.3f, 0, 0.9f},       {0.7f, 40, 0.8f}, {2.0f, 1, 0.01f},
                           {1.0f, 100000, 0.999f}};

SampleArgs Shape(const Case& c, int64_t rows, int64_t vocab) {
  return {.rows = rows,
          .vocab = vocab,
          .temperature = c.temperature,
          .top_k = c.top_k,
          .top_p = c.top_p};
}

std::vector<int32_t> Reference(SampleArgs args, const float* logits, std::vector<float> uniform,
                               float shift_uniform, float shift_p) {
  std::vector<int32_t> tokens(args.rows);
  for (float& u : uniform) u = std::clamp(u + shift_uniform, 0.0f, 1.0f);
  if (args.top_p < 1) args.top_p = std::clamp(args.top_p + shift_p, 1e-6f, 1.0f);
  args.logits = logits;
  args.uniform = uniform.data();
  args.tokens = tokens.data();
  EXPECT_EQ(CpuReference().sample(args), OpStatus::kOk);
  return tokens;
}

/// Accepts the token of the reference, or one that it gives when u or top_p change by the
/// tolerance.
void CheckSample(Workbench& bench, const Case& c, std::vector<float> values, int64_t rows) {
  TestDevice& device = bench.device();
  const int64_t vocab = static_cast<int64_t>(values.size()) / rows;
  std::vector<float> draws(rows);
  for (float& draw : draws) draw = static_cast<float>(bench.Random(0, 999999)) * 1e-6f;
  Tensor<float> logits(device, std::move(values), 1), uniform(device, draws);
  Tensor<int32_t> tokens(device, std::vector<int32_t>(rows, -7));
  SampleArgs args = Shape(c, rows, vocab);
  const SampleArgs shape = args;
  args.logits = logits.data();
  args.uniform = uniform.data();
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
        << "row " << row << " of vocab " << vocab << " gives " << got[row] << ", want "
        << allowed[4][row];
  }
}

}  // namespace

TEST_P(OpConformance, SampleEqualsReference) {
  QUIRE_REQUIRE_OP(sample);
  for (const Case& c : kCases) {
    for (const int64_t vocab : {1, 31, 1500}) {
      CheckSample(bench_, c, bench_.Floats(2 * vocab, 3.0f), 2);
      // Few distinct logits: ties decide.
      std::vector<float> values = bench_.Floats(2 * vocab);
      const float distinct[] = {0.0f, -0.0f, 1.0f, -1.0f, kNaN, -kInfinity};
      for (float& value : values) value = distinct[bench_.Random(0, 5)];
      CheckSample(bench_, c, values, 2);
    }
  }
}

TEST_P(OpConformance, SampleOfRowsWithoutNumbers) {
  QUIRE_REQUIRE_OP(sample);
  for (const Case& c : kCases) {
    CheckSample(bench_, c, std::vector<float>(100, kNaN), 2);
    CheckSample(bench_, c, std::vector<float>(100, -kInfinity), 2);
    std::vector<float> values(100, 1.0f);
    values[60] = values[70] = kInfinity;
    CheckSample(bench_, c, values, 2);
  }
}

TEST_P(OpConformance, SampleRefusesBadShapes) {
  QUIRE_REQUIRE_OP(sample);
  std::vector<float> memory(8);
  int32_t token = 0;
  const SampleArgs good{.logits = memory.data(),
                        .uniform = memory.data(),
                        .tokens = &token,
                        .rows = 1,
                        .vocab = 4,
                        .temperature = 1.0f};
  const auto refused = [&](auto change) {
    SampleArgs args = good;
    change(args);
    return table().sample(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.vocab = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.rows = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.temperature = -1.0f; }));
  EXPECT_TRUE(refused([](auto& a) { a.temperature = kNaN; }));
  EXPECT_TRUE(refused([](auto& a) { a.top_k = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.top_p = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.top_p = 1.5f; }));
  EXPECT_TRUE(refused([](auto& a) { a.uniform = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.tokens = nullptr; }));
  SampleArgs empty = good;
  empty.rows = 0;
  EXPECT_EQ(table().sample(empty), OpStatus::kOk);
}

}  // namespace quire::kernels::testing
