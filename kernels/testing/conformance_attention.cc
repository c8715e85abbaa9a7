// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr double kTolerance = 1e-4 * 6;  // of max|v|; no normal sample here exceeds 6

struct PagedCase {
  int64_t n_slots, p;
};

/// Slots of which each head uses its own number of rows; all other rows hold NaN.
struct PagedInput {
  std::vector<int32_t> slots;
  std::vector<int32_t> valid;  ///< [n_kv][n_slots]
  std::vector<float> k, v;     ///< [n_slots + 1][p][n_kv][d]
};

PagedInput MakePaged(Workbench& bench, const PagedCase& c, const Heads& h) {
  const int64_t token = h.n_kv * h.d;
  PagedInput in;
  in.slots = bench.Slots(c.n_slots, c.n_slots + 1);
  in.valid = bench.Ints(h.n_kv * c.n_slots, 0, static_cast<int32_t>(c.p));
  in.k.assign((c.n_slots + 1) * c.p * token, std::numeric_limits<float>::quiet_NaN());
  in.v = in.k;
  for (int64_t g = 0; g < h.n_kv; ++g) {
    in.valid[g * c.n_slots + bench.Random(0, c.n_slots - 1)] = static_cast<int32_t>(c.p);
    for (int64_t s = 0; s < c.n_slots; ++s) {
      for (int64_t r = 0; r < in.valid[g * c.n_slots + s]; ++r) {
        const int64_t at = (in.slots[s] * c.p + r) * token + g * h.d;
        const std::vector<float> rows = bench.Floats(2 * h.d);
        std::copy_n(rows.data(), h.d, in.k.begin() + at);
        std::copy_n(rows.data() + h.d, h.d, in.v.begin() + at);
      }
    }
  }
  return in;
}

PagedAttentionArgs PagedShape(const PagedCase& c, const Heads& h, DType dtype) {
  return {.num_slots = c.n_slots + 1,
          .n_slots = c.n_slots,
          .page_tokens = c.p,
          .n_q = h.n_q,
          .n_kv = h.n_kv,
          .head_dim = h.d,
          .scale = 1.0f / std::sqrt(static_cast<float>(h.d)),
          .dtype = dtype};
}

void CheckPaged(Workbench& bench, const PagedCase& c, const Heads& h, DType dtype) {
  TestDevice& device = bench.device();
  const PagedInput in = MakePaged(bench, c, h);
  Tensor<float> q(device, bench.Floats(h.n_q * h.d), 1);
  Tensor<uint8_t> k(device, FromFloats(in.k, dtype), ElementBytes(dtype));
  Tensor<uint8_t> v(device, FromFloats(in.v, dtype), ElementBytes(dtype));
  Tensor<int32_t> slots(device, in.slots);
  Tensor<int32_t> valid(device, in.valid);
  Tensor<float> out(device, std::vector<float>(h.n_q * h.d), 1);
  Tensor<float> lse(device, std::vector<float>(h.n_q));

  PagedAttentionArgs args = PagedShape(c, h, dtype);
  PagedAttentionArgs want = args;
  args.q = q.data();
  args.k_pool = k.data();
  args.v_pool = v.data();
  args.slots = slots.data();
  args.valid_tokens = valid.data();
  args.out = out.data();
  args.lse = lse.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().paged_attention(args), OpStatus::kOk);
  want.q = q.host();
  want.k_pool = k.host();
  want.v_pool = v.host();
  want.slots = slots.host();
  want.valid_tokens = valid.host();
  want.out = out.host();
  want.lse = lse.host();
  ASSERT_EQ(CpuReference().paged_attention(want), OpStatus::kOk);
  ExpectClose(out.Fetch(), {out.host(), out.host() + out.size()}, kTolerance, 0);
  ExpectClose(lse.Fetch(), {lse.host(), lse.host() + lse.size()}, 1e-4, 1e-5);
}

struct DenseCase {
  int64_t t, n;
  bool listed;  ///< random last_key instead of the causal default
};

void CheckDense(Workbench& bench, const DenseCase& c, const Heads& h, DType dtype) {
  TestDevice& device = bench.device();
  Tensor<float> q(device, bench.Floats(c.t * h.n_q * h.d), 1);
  Tensor<uint8_t> k(device, bench.Elements(c.n * h.n_kv * h.d, dtype), ElementBytes(dtype));
  Tensor<uint8_t> v(device, bench.Elements(c.n * h.n_kv * h.d, dtype), ElementBytes(dtype));
  Tensor<int32_t> last(device, bench.Ints(c.t, 0, static_cast<int32_t>(c.n - 1)));
  Tensor<float> out(device, std::vector<float>(c.t * h.n_q * h.d), 1);

  DenseAttentionArgs args{.t = c.t,
                          .n = c.n,
                          .n_q = h.n_q,
                          .n_kv = h.n_kv,
                          .head_dim = h.d,
                          .scale = 1.0f / std::sqrt(static_cast<float>(h.d)),
                          .dtype = dtype};
  DenseAttentionArgs want = args;
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.last_key = c.listed ? last.data() : nullptr;
  args.out = out.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().dense_attention(args), OpStatus::kOk);
  want.q = q.host();
  want.k = k.host();
  want.v = v.host();
  want.last_key = c.listed ? last.host() : nullptr;
  want.out = out.host();
  ASSERT_EQ(CpuReference().dense_attention(want), OpStatus::kOk);
  ExpectClose(out.Fetch(), {out.host(), out.host() + out.size()}, kTolerance, 0);
}

}  // namespace

TEST_P(OpConformance, PagedAttentionEqualsReference) {
  QUIRE_REQUIRE_OP(paged_attention);
  const PagedCase cases[] = {{1, 1}, {1, 32}, {5, 31}, {3, 33}, {20, 16}};
  for (const PagedCase& c : cases) {
    for (const Heads& h : kHeads) {
      for (const DType dtype : kAllDTypes) CheckPaged(bench_, c, h, dtype);
    }
  }
}

TEST_P(OpConformance, DenseAttentionEqualsReference) {
  QUIRE_REQUIRE_OP(dense_attention);
  const DenseCase cases[] = {{1, 1, false},   {2, 2, false},     {1, 33, false},   {31, 31, false},
                             {65, 65, false}, {129, 129, false}, {40, 300, false}, {50, 300, true}};
  for (const DenseCase& c : cases) {
    for (const Heads& h : kHeads) CheckDense(bench_, c, h, DType::kF32);
  }
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    CheckDense(bench_, {33, 160, false}, {8, 2, 64}, dtype);
    CheckDense(bench_, {33, 160, true}, {7, 1, 33}, dtype);
  }
}

// A large score range: without the running maximum exp overflows or everything underflows.
TEST_P(OpConformance, AttentionSurvivesLargeScores) {
  QUIRE_REQUIRE_OP(dense_attention);
  const int64_t n = 200;
  const int64_t d = 4;
  std::vector<float> q(n * d, 30.0f), k = bench_.Floats(n * d, 30.0f), v = bench_.Floats(n * d);
  std::vector<float> want(n * d);
  Tensor<float> q_there(bench_.device(), q), k_there(bench_.device(), k),
      v_there(bench_.device(), v), out(bench_.device(), want);
  DenseAttentionArgs args{.t = n, .n = n, .n_q = 1, .n_kv = 1, .head_dim = d, .scale = 1.0f};
  DenseAttentionArgs host = args;
  args.q = q_there.data(), args.k = k_there.data(), args.v = v_there.data();
  args.out = out.data();
  args.stream = bench_.device().stream();
  host.q = q.data(), host.k = k.data(), host.v = v.data(), host.out = want.data();
  ASSERT_EQ(table().dense_attention(args), OpStatus::kOk);
  ASSERT_EQ(CpuReference().dense_attention(host), OpStatus::kOk);
  // Scores reach 10^4, where one f32 step is 1e-3: weights agree to about that.
  ExpectClose(out.Fetch(), want, 0.02, 0);
}

TEST_P(OpConformance, PagedAttentionRefusesBadShapes) {
  QUIRE_REQUIRE_OP(paged_attention);
  std::vector<float> memory(256);
  const std::vector<int32_t> slots = {0, 1};
  std::vector<int32_t> valid = {1, 0, 2, 2};
  PagedAttentionArgs good{.q = memory.data(),
                          .k_pool = memory.data(),
                          .v_pool = memory.data(),
                          .slots = slots.data(),
                          .valid_tokens = valid.data(),
                          .out = memory.data() + 128,
                          .num_slots = 2,
                          .n_slots = 2,
                          .page_tokens = 2,
                          .n_q = 4,
                          .n_kv = 2,
                          .head_dim = 4,
                          .scale = 1.0f,
                          .dtype = DType::kF32};
  if (!bench_.device().checks_lists()) GTEST_SKIP() << "lists are on the device";
  EXPECT_EQ(table().paged_attention(good), OpStatus::kOk);
  const auto refused = [&](auto change) {
    PagedAttentionArgs args = good;
    change(args);
    return table().paged_attention(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.n_slots = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.num_slots = 1; }));
  EXPECT_TRUE(refused([](auto& a) { a.n_q = 3; }));
  EXPECT_TRUE(refused([](auto& a) { a.scale = NAN; }));
  EXPECT_TRUE(refused([](auto& a) { a.out = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.page_tokens = 1; }));  // valid_tokens says 2
  valid = {0, 0, 2, 2};                                      // head 0 has nothing to attend to
  EXPECT_TRUE(refused([](auto&) {}));
}

TEST_P(OpConformance, DenseAttentionRefusesBadShapes) {
  QUIRE_REQUIRE_OP(dense_attention);
  std::vector<float> memory(256);
  const std::vector<int32_t> last = {0, 2};
  const DenseAttentionArgs good{.q = memory.data(),
                                .k = memory.data(),
                                .v = memory.data(),
                                .out = memory.data() + 128,
                                .t = 2,
                                .n = 2,
                                .n_q = 2,
                                .n_kv = 1,
                                .head_dim = 4,
                                .scale = 1.0f};
  const auto refused = [&](auto change) {
    DenseAttentionArgs args = good;
    change(args);
    return table().dense_attention(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.t = 3; }));
  EXPECT_TRUE(refused([](auto& a) { a.n = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.v = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.scale = INFINITY; }));
  if (bench_.device().checks_lists()) {
    EXPECT_TRUE(refused([&](auto& a) { a.last_key = last.data(); }));
  }
  DenseAttentionArgs empty = good;
  empty.t = 0;
  empty.q = nullptr;
  EXPECT_EQ(table().dense_attention(empty), OpStatus::kOk);
}

}  // namespace quire::kernels::testing
