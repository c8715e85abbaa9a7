// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void CheckPool(Workbench& bench, const Heads& h, std::vector<float> values, Pooling pooling) {
  TestDevice& device = bench.device();
  const int64_t n_q = PoolsQuery(pooling) ? h.n_kv : h.n_q;
  values.resize(values.size() / h.n_q * n_q);
  const int64_t n = static_cast<int64_t>(values.size()) / n_q;
  Tensor<float> scores(device, std::move(values), 1);
  Tensor<float> pooled(device, std::vector<float>(h.n_kv * n), 1);
  PoolArgs args{.n_q = n_q, .n_kv = h.n_kv, .n_pages = n, .head_dim = h.d, .pooling = pooling};
  PoolArgs want = args;
  args.scores = scores.data();
  args.pooled = pooled.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().pool(args), OpStatus::kOk);
  want.scores = scores.host();
  want.pooled = pooled.host();
  ASSERT_EQ(CpuReference().pool(want), OpStatus::kOk);
  ExpectClose(pooled.Fetch(), pooled.host_array(), kExact);
}

void CheckTopK(Workbench& bench, std::vector<float> values, int64_t rows, int64_t k) {
  TestDevice& device = bench.device();
  const int64_t n = static_cast<int64_t>(values.size()) / rows;
  Tensor<float> scores(device, std::move(values), 1);
  Tensor<int32_t> indices(device, std::vector<int32_t>(rows * TopKWidth(k, n)));
  Tensor<int32_t> nans(device, std::vector<int32_t>(rows));
  TopKArgs args{.n_rows = rows, .n_pages = n, .k = k, .index_offset = 4};
  TopKArgs want = args;
  args.scores = scores.data();
  args.indices = indices.data();
  args.nan_counts = nans.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().topk(args), OpStatus::kOk);
  want.scores = scores.host();
  want.indices = indices.host();
  want.nan_counts = nans.host();
  ASSERT_EQ(CpuReference().topk(want), OpStatus::kOk);
  EXPECT_EQ(indices.Fetch(), indices.host_array());
  EXPECT_EQ(nans.Fetch(), nans.host_array());
}

void CheckPoolQuery(Workbench& bench, const Heads& h, std::vector<float> values, Pooling pooling) {
  TestDevice& device = bench.device();
  Tensor<float> q(device, std::move(values), 1);
  Tensor<float> pooled(device, std::vector<float>(h.n_kv * h.d), 1);
  PoolQueryArgs args{.n_q = h.n_q, .n_kv = h.n_kv, .head_dim = h.d, .pooling = pooling};
  PoolQueryArgs want = args;
  args.q = q.data();
  args.pooled = pooled.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().pool_query(args), OpStatus::kOk);
  want.q = q.host();
  want.pooled = pooled.host();
  ASSERT_EQ(CpuReference().pool_query(want), OpStatus::kOk);
  ExpectClose(pooled.Fetch(), pooled.host_array(), kExact);
}

/// Queries of which every other group stays close to the previous step.
void CheckCorrect(Workbench& bench, int64_t batch, const Heads& h, float tau, bool odd_queries) {
  TestDevice& device = bench.device();
  std::vector<float> before = bench.Floats(batch * h.n_q * h.d);
  std::vector<float> now = bench.Floats(batch * h.n_q * h.d);
  for (int64_t a = 0; a < batch * h.n_q; ++a) {
    const bool near = a / (h.n_q / h.n_kv) % 2 == 0;
    for (int64_t c = a * h.d; near && c < (a + 1) * h.d; ++c)
      now[c] = 2 * before[c] + 0.1f * now[c];
  }
  if (odd_queries) {
    std::fill_n(now.begin(), h.d, 0.0f);
    before.back() = kNaN;
  }
  Tensor<float> q(device, now, 1), q_before(device, before, 1);
  Tensor<float> cosines(device, std::vector<float>(batch * h.n_kv));
  Tensor<int32_t> corrected(device, std::vector<int32_t>(batch * h.n_kv, -5));
  Tensor<int32_t> n(device, {-1});
  CorrectHeadsArgs args{.batch = batch, .n_q = h.n_q, .n_kv = h.n_kv, .head_dim = h.d, .tau = tau};
  CorrectHeadsArgs want = args;
  args.q = q.data();
  args.before = q_before.data();
  args.cosines = cosines.data();
  args.corrected = corrected.data();
  args.n_corrected = n.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().correct_heads(args), OpStatus::kOk);
  want.q = q.host();
  want.before = q_before.host();
  want.cosines = cosines.host();
  want.corrected = corrected.host();
  want.n_corrected = n.host();
  ASSERT_EQ(CpuReference().correct_heads(want), OpStatus::kOk);
  const std::vector<float> got = cosines.Fetch();
  ExpectClose(got, cosines.host_array(), kCosineTolerance);
  // The list follows from its own cosines, and the rest of the array is unchanged.
  std::vector<int32_t> list(corrected.size(), -5);
  int32_t listed = 0;
  for (size_t g = 0; g < got.size(); ++g) {
    if (!(got[g] >= tau)) list[listed++] = static_cast<int32_t>(g);
  }
  EXPECT_EQ(n.Fetch()[0], listed);
  EXPECT_EQ(corrected.Fetch(), list);
}

}  // namespace

TEST_P(OpConformance, CorrectHeadsEqualsReference) {
  QUIRE_REQUIRE_OP(correct_heads);
  for (const int64_t batch : {0, 1, 3, 700}) {
    for (const Heads& h : kHeads) {
      if (batch > 3 && h.d > 8) continue;  // Many heads, for the list alone.
      for (const float tau : {-1.01f, 0.5f, 0.8f, 1.01f}) {
        CheckCorrect(bench_, batch, h, tau, false);
        if (batch > 0) CheckCorrect(bench_, batch, h, tau, true);
      }
    }
  }
}

TEST_P(OpConformance, CorrectHeadsRefusesBadShapes) {
  QUIRE_REQUIRE_OP(correct_heads);
  std::vector<float> memory(64);
  std::vector<int32_t> list(4);
  const CorrectHeadsArgs good{.q = memory.data(),
                              .before = memory.data(),
                              .cosines = memory.data() + 32,
                              .corrected = list.data(),
                              .n_corrected = list.data() + 3,
                              .n_q = 4,
                              .n_kv = 2,
                              .head_dim = 4};
  const auto refused = [&](auto change) {
    CorrectHeadsArgs args = good;
    change(args);
    return table().correct_heads(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.n_q = 3; }));
  EXPECT_TRUE(refused([](auto& a) { a.batch = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.tau = kNaN; }));
  EXPECT_TRUE(refused([](auto& a) { a.before = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.n_corrected = nullptr; }));
}

TEST_P(OpConformance, PoolEqualsReference) {
  QUIRE_REQUIRE_OP(pool);
  for (const Heads& h : kHeads) {
    // Sizes around a warp, and around the partial sums of a softmax; small weights, and none at
    // all.
    for (const int64_t n : {0, 1, 2, 31, 32, 33, 511, 512, 513, 1300}) {
      for (int mode = 1; mode <= 7; ++mode) {
        for (const float spread : {10.0f, 60.0f}) {
          CheckPool(bench_, h, bench_.Floats(h.n_q * n, spread), static_cast<Pooling>(mode));
        }
      }
    }
  }
}

TEST_P(OpConformance, PoolKeepsNaNOutOfTheSoftmax) {
  QUIRE_REQUIRE_OP(pool);
  const Heads h = {4, 2, 8};
  for (int mode = 3; mode <= 7; ++mode) {
    std::vector<float> scores = bench_.Floats(h.n_q * 40);
    scores[3] = kNaN;
    scores[40 + 7] = kNaN;
    CheckPool(bench_, h, scores, static_cast<Pooling>(mode));
    scores[80 + 1] = scores[80 + 5] = kInfinity;
    scores[80 + 2] = -kInfinity;
    CheckPool(bench_, h, scores, static_cast<Pooling>(mode));
    std::fill(scores.begin(), scores.begin() + 40, kNaN);
    CheckPool(bench_, h, scores, static_cast<Pooling>(mode));
    std::fill(scores.begin(), scores.begin() + 40, -kInfinity);
    CheckPool(bench_, h, scores, static_cast<Pooling>(mode));
  }
}

TEST_P(OpConformance, PoolQueryEqualsReference) {
  QUIRE_REQUIRE_OP(pool_query);
  std::vector<Heads> all = ModelHeads();
  all.insert(all.end(), std::begin(kHeads), std::end(kHeads));
  for (const Heads& h : all) {
    for (const Pooling pooling : {Pooling::kMaxQ, Pooling::kAvgQ}) {
      std::vector<float> q = bench_.Floats(h.n_q * h.d, 3.0f);
      CheckPoolQuery(bench_, h, q, pooling);
      // The last channel of the first group, in its first head and its last; with one head and
      // channel they coincide.
      const int64_t last = (h.n_q / h.n_kv - 1) * h.d;
      q[0] = kNaN, q[h.d / 2] = kInfinity, q[last + h.d / 2] = -kInfinity, q[last + h.d - 1] = kNaN;
      CheckPoolQuery(bench_, h, q, pooling);
      q[last + h.d / 2] = kInfinity;
      CheckPoolQuery(bench_, h, q, pooling);
    }
  }
}

TEST_P(OpConformance, PoolQueryRefusesBadShapes) {
  QUIRE_REQUIRE_OP(pool_query);
  std::vector<float> memory(16);
  const PoolQueryArgs good{
      .q = memory.data(), .pooled = memory.data() + 8, .n_q = 4, .n_kv = 2, .head_dim = 2};
  const auto answer = [&](auto change) {
    PoolQueryArgs args = good;
    change(args);
    return table().pool_query(args);
  };
  EXPECT_EQ(answer([](auto& a) { a.n_q = 3; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.head_dim = 0; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.q = nullptr; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.pooling = Pooling::kAvgS; }), OpStatus::kUnsupported);
}

TEST_P(OpConformance, PoolRefusesBadShapes) {
  QUIRE_REQUIRE_OP(pool);
  std::vector<float> memory(16);
  const PoolArgs good{
      .scores = memory.data(), .pooled = memory.data() + 8, .n_q = 4, .n_kv = 2, .n_pages = 2};
  const auto answer = [&](auto change) {
    PoolArgs args = good;
    change(args);
    return table().pool(args);
  };
  EXPECT_EQ(answer([](auto& a) { a.n_q = 3; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.pooling = Pooling::kAvgQ; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.pooling = Pooling::kAvgSdM; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.pooled = nullptr; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.pooling = static_cast<Pooling>(0); }), OpStatus::kUnsupported);
}

TEST_P(OpConformance, TopKEqualsReference) {
  QUIRE_REQUIRE_OP(topk);
  for (const int64_t n : {0, 1, 2, 31, 32, 33, 1000}) {
    for (const int64_t k : {int64_t{0}, int64_t{1}, int64_t{5}, n - 1, n, n + 1}) {
      if (k < 0) continue;
      CheckTopK(bench_, bench_.Floats(3 * n), 3, k);
      // Few distinct values, so that ties decide; with NaN, infinities and both zeros.
      std::vector<float> values = bench_.Floats(3 * n);
      const float distinct[] = {0.0f, -0.0f, 1.0f, -1.0f, kNaN, kInfinity, -kInfinity, 1e-42f};
      for (float& value : values) value = distinct[bench_.Random(0, 7)];
      CheckTopK(bench_, values, 3, k);
    }
  }
}

TEST_P(OpConformance, TopKTreatsBothZerosAsEqual) {
  QUIRE_REQUIRE_OP(topk);
  std::vector<float> zeros(100);
  for (size_t i = 0; i < zeros.size(); i += 2) zeros[i] = -0.0f;
  CheckTopK(bench_, zeros, 2, 20);
}

// Ties go to the lower index and NaN sorts last, over more scores than a block of a device reads at
// once.
TEST_P(OpConformance, TopKGivesTiesToTheLowerIndexAndPutsNaNLast) {
  QUIRE_REQUIRE_OP(topk);
  std::vector<float> values(2500, 1.0f);
  std::fill_n(values.begin(), 10, kNaN);
  values[1200] = 2, values[2400] = 3;
  const auto best = [&](int64_t k) {
    Tensor<float> scores(bench_.device(), values);
    Tensor<int32_t> indices(bench_.device(), std::vector<int32_t>(k));
    Tensor<int32_t> nans(bench_.device(), {-1});
    EXPECT_EQ(table().topk({.scores = scores.data(),
                            .indices = indices.data(),
                            .nan_counts = nans.data(),
                            .n_rows = 1,
                            .n_pages = static_cast<int64_t>(values.size()),
                            .k = k,
                            .stream = bench_.device().stream()}),
              OpStatus::kOk);
    EXPECT_EQ(nans.Fetch()[0], 10);
    return indices.Fetch();
  };
  EXPECT_EQ(best(1), (std::vector<int32_t>{2400}));
  EXPECT_EQ(best(5), (std::vector<int32_t>{10, 11, 12, 1200, 2400}));
  std::vector<int32_t> all_but_four(2496);
  std::iota(all_but_four.begin(), all_but_four.begin() + 6, 0);
  std::iota(all_but_four.begin() + 6, all_but_four.end(), 10);
  EXPECT_EQ(best(2496), all_but_four);
}

TEST_P(OpConformance, TopKRefusesBadShapes) {
  QUIRE_REQUIRE_OP(topk);
  std::vector<float> scores(4);
  std::vector<int32_t> out(4);
  const TopKArgs good{
      .scores = scores.data(), .indices = out.data(), .n_rows = 1, .n_pages = 4, .k = 2};
  const auto refused = [&](auto change) {
    TopKArgs args = good;
    change(args);
    return table().topk(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.k = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.n_rows = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.n_pages = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.indices = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.index_offset = INT32_MAX - 2; }));
}

}  // namespace quire::kernels::testing
