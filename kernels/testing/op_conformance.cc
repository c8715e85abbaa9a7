// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/op_conformance.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace quire::kernels::testing {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpConformance);

int64_t Workbench::Random(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

std::vector<float> Workbench::Floats(int64_t n, float scale) {
  // Box and Muller's pairs of normal values. std::normal_distribution takes most of the tests'
  // time.
  constexpr float kUnit = 0x1p-32f;
  std::vector<float> values(n + n % 2);
  for (int64_t i = 0; i < n; i += 2) {
    const float radius = scale * std::sqrt(-2.0f * std::log((random_() + 1.0f) * kUnit));
    const float angle = 2.0f * std::numbers::pi_v<float> * (random_() * kUnit);
    values[i] = radius * std::cos(angle);
    values[i + 1] = radius * std::sin(angle);
  }
  values.resize(n);
  return values;
}

std::vector<int32_t> Workbench::Ints(int64_t n, int32_t low, int32_t high) {
  std::vector<int32_t> values(n);
  for (int32_t& value : values) value = static_cast<int32_t>(Random(low, high));
  return values;
}

std::vector<int32_t> Workbench::Slots(int64_t n, int64_t limit) {
  std::vector<int32_t> slots(limit);
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), random_);
  slots.resize(n);
  return slots;
}

std::vector<uint8_t> Workbench::Bytes(int64_t n) {
  std::vector<uint8_t> bytes(n);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(Random(0, 255));
  return bytes;
}

std::vector<uint8_t> Workbench::Elements(int64_t n, DType dtype) {
  return FromFloats(Floats(n), dtype);
}

std::vector<float> ToFloats(const std::vector<uint8_t>& bytes, DType dtype) {
  std::vector<float> values(bytes.size() / ElementBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadElement(bytes.data(), static_cast<int64_t>(i), dtype);
  }
  return values;
}

std::vector<uint8_t> FromFloats(const std::vector<float>& values, DType dtype) {
  std::vector<uint8_t> bytes(values.size() * ElementBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(bytes.data(), static_cast<int64_t>(i), dtype, values[i]);
  }
  return bytes;
}

void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                 const Tolerance& tolerance) {
  std::vector<double> distances;
  for (const float value : want) distances.push_back(tolerance.At(std::abs(value)));
  ExpectClose(got, want, distances);
}

void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                 const std::vector<double>& distances) {
  ASSERT_EQ(got.size(), want.size());
  if (want.empty()) return;
  ASSERT_EQ(want.size() % distances.size(), 0u);
  const size_t row = want.size() / distances.size();
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) || std::isinf(want[i])) {
      ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
          << "at " << i << ": " << got[i] << ", want " << want[i];
    } else {
      ASSERT_NEAR(got[i], want[i], distances[i / row]) << "at " << i;
    }
  }
}

std::vector<Heads> ModelHeads() {
  std::vector<Heads> all;
  for (const int64_t d : {64, 80, 96, 128, 256}) {
    all.insert(all.end(), {{2, 2, d}, {4, 2, d}, {3, 1, d}});
  }
  return all;
}

std::string Text(const Heads& heads) {
  return "n_q " + std::to_string(heads.n_q) + ", n_kv " + std::to_string(heads.n_kv) + ", d " +
         std::to_string(heads.d);
}

// Reports missing ops, since tests of an op that a table lacks are skipped.
TEST_P(OpConformance, EveryOpIsThereButTheCodecs) {
  const KernelTable& ops = table();
  const auto expect = [](auto op, const char* name) { EXPECT_TRUE(op != nullptr) << name; };
  expect(ops.nhd_to_hnd, "nhd_to_hnd");
  expect(ops.hnd_to_nhd, "hnd_to_nhd");
  expect(ops.place_units, "place_units");
  expect(ops.digest, "digest");
  expect(ops.score, "score");
  expect(ops.pool_query, "pool_query");
  expect(ops.pool, "pool");
  expect(ops.topk, "topk");
  expect(ops.correct_heads, "correct_heads");
  expect(ops.paged_attention, "paged_attention");
  expect(ops.mla_attention, "mla_attention");
  expect(ops.merge_attention, "merge_attention");
  expect(ops.dense_attention, "dense_attention");
  expect(ops.rmsnorm, "rmsnorm");
  expect(ops.rope, "rope");
  expect(ops.silu_mul, "silu_mul");
  expect(ops.matmul, "matmul");
  expect(ops.add, "add");
  expect(ops.embed, "embed");
  expect(ops.choose_experts, "choose_experts");
  expect(ops.expert_matmul, "expert_matmul");
  expect(ops.combine_experts, "combine_experts");
  expect(ops.soft_cap, "soft_cap");
  expect(ops.narrow, "narrow");
  expect(ops.sample, "sample");
}

std::string DeviceName(const ::testing::TestParamInfo<MakeDevice>& info) {
  return info.param()->table().name;
}

}  // namespace quire::kernels::testing
