// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/host_device.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Rotary dimensions for kDisc; none fits an odd d.
int64_t SomeRotaryDim(int64_t d) { return d / 4 * 2; }
bool Fits(DigestKind kind, int64_t d) { return kind != DigestKind::kDisc || d % 2 == 0; }

struct DigestCase {
  int64_t units, p, d;
  bool has_values;
  float spread = 1;  ///< Standard deviation of the keys.
};

void CheckDigest(Workbench& bench, const DigestCase& c, DigestKind kind, DType dtype,
                 DType out_dtype) {
  TestDevice& device = bench.device();
  const int64_t stride = (c.has_values ? 2 : 1) * c.p * c.d;
  std::vector<float> keys = bench.Floats(c.units * stride, c.spread);
  // A NaN in the first row, one that numbers follow, and an infinity.
  keys[0] = kNaN;
  keys[c.p / 2 * c.d + c.d - 1] = kNaN;
  keys[c.d / 2] = -kInfinity;
  Tensor<uint8_t> units(device, FromFloats(keys, dtype), bench.Shift(ElementBytes(dtype)));
  std::vector<int32_t> rows = bench.Ints(c.units, 1, static_cast<int32_t>(c.p));
  rows[0] = static_cast<int32_t>(c.p);
  Tensor<int32_t> valid(device, rows);
  const int64_t elements = c.units * DigestElements(kind, c.d);
  Tensor<uint8_t> out(device, std::vector<uint8_t>(elements * ElementBytes(out_dtype)));
  for (const bool all_rows : {true, false}) {
    DigestArgs args;
    args.unit_stride = stride;
    args.n_units = c.units;
    args.page_tokens = c.p;
    args.head_dim = c.d;
    args.dtype = dtype;
    args.out_dtype = out_dtype;
    args.kind = kind;
    args.rotary_dim = SomeRotaryDim(c.d);
    args.interleaved = all_rows;
    DigestArgs want = args;
    args.units = units.data();
    args.valid_rows = all_rows ? nullptr : valid.data();
    args.digests = out.data();
    args.stream = device.stream();
    ASSERT_EQ(bench.table().digest(args), OpStatus::kOk);
    want.units = units.host();
    want.valid_rows = all_rows ? nullptr : valid.host();
    want.digests = out.host();
    ASSERT_EQ(CpuReference().digest(want), OpStatus::kOk);
    ExpectClose(ToFloats(out.Fetch(), out_dtype), ToFloats(out.host_array(), out_dtype), kExact);
  }
}

/// Digests of `pages` pages as [pages][n_kv][DigestElements]; of kMinMax with lo <= hi.
std::vector<uint8_t> MakeDigests(Workbench& bench, int64_t pages, const Heads& h, DigestKind kind,
                                 DType dtype) {
  std::vector<float> values = bench.Floats(pages * h.n_kv * DigestElements(kind, h.d));
  for (int64_t i = 0; kind == DigestKind::kMinMax && i < pages * h.n_kv; ++i) {
    for (int64_t c = 0; c < h.d; ++c) {
      float& lo = values[(2 * i) * h.d + c];
      float& hi = values[(2 * i + 1) * h.d + c];
      if (lo > hi) std::swap(lo, hi);
    }
  }
  return FromFloats(values, dtype);
}

struct ScoreCase {
  /// Set pages_per_block to 0 for contiguous digests.
  int64_t n_pages, first_page, pages_per_block;
  int64_t gap = 0;  ///< Columns between rows of scores.
};

void CheckScore(Workbench& bench, const ScoreCase& c, const Heads& h, DigestKind kind,
                DType dtype) {
  TestDevice& device = bench.device();
  const int64_t total = c.first_page + c.n_pages;
  Tensor<float> q(device, bench.Floats(h.n_q * h.d), 1);
  std::vector<uint8_t> bytes = MakeDigests(bench, total, h, kind, dtype);
  const int64_t elements = DigestElements(kind, h.d);
  // One poisoned digest channel: page first_page of head 0.
  const int64_t poisoned = c.first_page * h.n_kv * elements;
  StoreElement(bytes.data(), poisoned, dtype, kNaN);
  if (kind == DigestKind::kMinMax) StoreElement(bytes.data(), poisoned + h.d, dtype, kNaN);
  Tensor<uint8_t> digests(device, bytes, bench.Shift(ElementBytes(dtype)));
  Tensor<float> scores(device, std::vector<float>(h.n_q * (c.n_pages + c.gap), -7.0f));
  std::vector<const void*> there, here;
  const int64_t page_bytes = h.n_kv * elements * ElementBytes(dtype);
  for (int64_t j = 0; c.pages_per_block > 0 && j < total; j += c.pages_per_block) {
    there.push_back(digests.data() + j * page_bytes);
    here.push_back(digests.host() + j * page_bytes);
  }
  Tensor<const void*> blocks(device, there);

  ScoreArgs args{.n_blocks = static_cast<int64_t>(here.size()),
                 .pages_per_block = c.pages_per_block,
                 .first_page = c.first_page,
                 .score_stride = c.gap == 0 ? 0 : c.n_pages + c.gap,
                 .n_pages = c.n_pages,
                 .n_q = h.n_q,
                 .n_kv = h.n_kv,
                 .head_dim = h.d,
                 .scale = 0.3f,
                 .dtype = dtype,
                 .kind = kind,
                 .rotary_dim = SomeRotaryDim(h.d),
                 .interleaved = c.gap != 0};
  ScoreArgs want = args;
  args.q = q.data();
  args.digests = here.empty() ? digests.data() : nullptr;
  args.blocks = here.empty() ? nullptr : blocks.data();
  args.scores = scores.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().score(args), OpStatus::kOk);
  want.q = q.host();
  want.digests = digests.host();  // The reference reads the contiguous copy.
  want.scores = scores.host();
  ASSERT_EQ(CpuReference().score(want), OpStatus::kOk);
  ExpectClose(scores.Fetch(), scores.host_array(), kExact);
}

/// Pages from which every KV head selects `k` for its queries.
struct Selection {
  Heads h;
  int64_t n_pages, p, k;
  DigestKind kind;
  Pooling pooling;
  std::vector<uint8_t> keys;  ///< [n_pages][n_kv][p][d] f16
  std::vector<float> q;       ///< [n_q][d]
};

struct Selected {
  std::vector<float> weights;  ///< [n_kv][n_pages]
  std::vector<int32_t> pages;  ///< [n_kv][k]
};

/// Runs digests, scores, pooling and selection, in the order of policies.
Selected Select(TestDevice& device, const Selection& s) {
  const KernelTable& ops = device.table();
  void* const stream = device.stream();
  const int64_t units = s.n_pages * s.h.n_kv, d = s.h.d;
  const int64_t rotary_dim = SomeRotaryDim(d);
  const int64_t n_q = PoolsQuery(s.pooling) ? s.h.n_kv : s.h.n_q;  // Scored query heads.
  Tensor<uint8_t> keys(device, s.keys);
  Tensor<uint8_t> digests(device, std::vector<uint8_t>(units * DigestElements(s.kind, d) * 2));
  Tensor<float> q(device, s.q), pooled_q(device, std::vector<float>(s.h.n_kv * d));
  Tensor<float> scores(device, std::vector<float>(n_q * s.n_pages));
  Tensor<float> weights(device, std::vector<float>(s.h.n_kv * s.n_pages));
  Tensor<int32_t> pages(device, std::vector<int32_t>(s.h.n_kv * s.k));
  EXPECT_EQ(ops.digest({.units = keys.data(),
                        .unit_stride = s.p * d,
                        .digests = digests.data(),
                        .n_units = units,
                        .page_tokens = s.p,
                        .head_dim = d,
                        .kind = s.kind,
                        .rotary_dim = rotary_dim,
                        .stream = stream}),
            OpStatus::kOk);
  if (PoolsQuery(s.pooling)) {
    EXPECT_EQ(ops.pool_query({.q = q.data(),
                              .pooled = pooled_q.data(),
                              .n_q = s.h.n_q,
                              .n_kv = s.h.n_kv,
                              .head_dim = d,
                              .pooling = s.pooling,
                              .stream = stream}),
              OpStatus::kOk);
  }
  EXPECT_EQ(ops.score({.q = PoolsQuery(s.pooling) ? pooled_q.data() : q.data(),
                       .digests = digests.data(),
                       .scores = scores.data(),
                       .n_pages = s.n_pages,
                       .n_q = n_q,
                       .n_kv = s.h.n_kv,
                       .head_dim = d,
                       .kind = s.kind,
                       .rotary_dim = rotary_dim,
                       .stream = stream}),
            OpStatus::kOk);
  EXPECT_EQ(ops.pool({.scores = scores.data(),
                      .pooled = weights.data(),
                      .n_q = n_q,
                      .n_kv = s.h.n_kv,
                      .n_pages = s.n_pages,
                      .head_dim = d,
                      .pooling = s.pooling,
                      .stream = stream}),
            OpStatus::kOk);
  EXPECT_EQ(ops.topk({.scores = weights.data(),
                      .indices = pages.data(),
                      .n_rows = s.h.n_kv,
                      .n_pages = s.n_pages,
                      .k = s.k,
                      .stream = stream}),
            OpStatus::kOk);
  return {weights.Fetch(), pages.Fetch()};
}

}  // namespace

TEST_P(OpConformance, SelectionEqualsReferenceForEveryDigestAndPooling) {
  QUIRE_REQUIRE_OP(topk);
  HostTestDevice reference(CpuReference());
  for (const DigestKind kind : kDigestKinds) {
    for (int mode = 1; mode <= 7; ++mode) {
      Selection s{{8, 2, 80}, 37, 9, 6, kind, static_cast<Pooling>(mode), {}, {}};
      SCOPED_TRACE("digest " + std::to_string(static_cast<int>(kind)) + ", pooling " +
                   std::to_string(mode));
      s.keys = bench_.Elements(s.n_pages * s.h.n_kv * s.p * s.h.d, DType::kF16);
      s.q = bench_.Floats(s.h.n_q * s.h.d);
      const Selected got = Select(bench_.device(), s), want = Select(reference, s);
      ExpectClose(got.weights, want.weights, kExact);
      EXPECT_EQ(got.pages, want.pages);
    }
  }
}

TEST_P(OpConformance, DigestEqualsReference) {
  QUIRE_REQUIRE_OP(digest);
  const DigestCase cases[] = {{1, 1, 1, true},     {3, 32, 128, true}, {2, 31, 33, false},
                              {2, 33, 80, true},   {4, 2, 7, true},    {2, 16, 256, true},
                              {1, 16, 576, false}, {2, 16, 64, true},  {2, 7, 96, false},
                              {2, 9, 576, false},  {1, 5, 1024, true}, {1, 3, 1032, false}};
  for (const DigestCase& c : cases) {
    for (const DigestKind kind : kDigestKinds) {
      if (!Fits(kind, c.d)) continue;
      for (const DType dtype : kAllDTypes) {
        CheckDigest(bench_, c, kind, dtype, dtype);
        CheckDigest(bench_, c, kind, dtype, DType::kF32);
      }
    }
  }
}

// Keys whose squares exceed the range of f32.
TEST_P(OpConformance, DigestOfLargeAndSmallKeysEqualsReference) {
  QUIRE_REQUIRE_OP(digest);
  for (const float spread : {1e-30f, 1e25f}) {
    for (const DigestKind kind : kDigestKinds) {
      CheckDigest(bench_, {3, 17, 80, true, spread}, kind, DType::kF32, DType::kF32);
      CheckDigest(bench_, {3, 17, 80, true, spread}, kind, DType::kBF16, DType::kBF16);
    }
  }
}

TEST_P(OpConformance, DigestRefusesBadShapes) {
  QUIRE_REQUIRE_OP(digest);
  std::vector<float> units(64), out(64);
  const std::vector<int32_t> rows = {5};
  const DigestArgs good{.units = units.data(),
                        .unit_stride = 64,
                        .digests = out.data(),
                        .n_units = 1,
                        .page_tokens = 4,
                        .head_dim = 8,
                        .dtype = DType::kF32,
                        .out_dtype = DType::kF32};
  const auto answer = [&](auto change) {
    DigestArgs args = good;
    change(args);
    return table().digest(args);
  };
  EXPECT_EQ(answer([](auto& a) { a.unit_stride = 31; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.digests = nullptr; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.out_dtype = DType::kF16; }), OpStatus::kUnsupported);
  EXPECT_EQ(answer([](auto& a) { a.kind = static_cast<DigestKind>(8); }), OpStatus::kUnsupported);
  EXPECT_EQ(answer([](auto& a) { a.kind = DigestKind::kDisc, a.rotary_dim = 3; }),
            OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.kind = DigestKind::kDisc, a.head_dim = 7; }),
            OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.n_units = 0; }), OpStatus::kOk);
  if (bench_.device().checks_lists()) {
    EXPECT_EQ(answer([&](auto& a) { a.valid_rows = rows.data(); }), OpStatus::kBadShape);
  }
}

TEST_P(OpConformance, ScoreIsExactlyTheReference) {
  QUIRE_REQUIRE_OP(score);
  const ScoreCase cases[] = {{1, 0, 0},  {13, 3, 0}, {1, 0, 1},    {21, 4, 8},
                             {21, 4, 5}, {8, 0, 8},  {9, 15, 8, 3}};
  for (const ScoreCase& c : cases) {
    for (const Heads& h : kHeads) {
      for (const DigestKind kind : kDigestKinds) {
        if (!Fits(kind, h.d)) continue;
        for (const DType dtype : kAllDTypes) CheckScore(bench_, c, h, kind, dtype);
      }
    }
  }
}

// Whole tiles of heads, and remainders.
TEST_P(OpConformance, ScoreOfEveryGroupSizeIsExactlyTheReference) {
  QUIRE_REQUIRE_OP(score);
  for (int64_t group = 1; group <= 17; ++group) {
    SCOPED_TRACE("group of " + std::to_string(group));
    for (const DigestKind kind : kDigestKinds) {
      for (const DType dtype : kAllDTypes) {
        CheckScore(bench_, {7, 2, 0}, {2 * group, 2, 16}, kind, dtype);
      }
    }
  }
}

TEST_P(OpConformance, ScoreRefusesBadShapes) {
  QUIRE_REQUIRE_OP(score);
  std::vector<float> memory(256);
  const void* blocks[] = {memory.data()};
  const ScoreArgs good{.q = memory.data(),
                       .digests = memory.data(),
                       .scores = memory.data() + 128,
                       .n_pages = 2,
                       .n_q = 2,
                       .n_kv = 1,
                       .head_dim = 4,
                       .dtype = DType::kF32};
  const auto refused = [&](auto change) {
    ScoreArgs args = good;
    change(args);
    return table().score(args) == OpStatus::kBadShape;
  };
  EXPECT_TRUE(refused([](auto& a) { a.n_kv = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.n_q = 3, a.n_kv = 2; }));
  EXPECT_TRUE(refused([](auto& a) { a.first_page = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.digests = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.score_stride = 1; }));
  EXPECT_TRUE(refused([](auto& a) { a.kind = DigestKind::kDisc, a.rotary_dim = 6; }));
  EXPECT_TRUE(refused([&](auto& a) { a.blocks = blocks, a.n_blocks = a.pages_per_block = 1; }));
  ScoreArgs empty = good;
  empty.n_pages = 0;
  EXPECT_EQ(table().score(empty), OpStatus::kOk);
}

}  // namespace quire::kernels::testing
