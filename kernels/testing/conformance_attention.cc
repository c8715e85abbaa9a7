// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/codec_scalar.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

/// The distances that kAttentionTolerance permits for query heads.
struct Distances {
  std::vector<double> out, lse;

  void Add(double score, double value) {
    lse.push_back(kAttentionTolerance.At(score));
    out.push_back(lse.back() * value);
  }
};

/// For every row of `width` numbers: its length, and the largest magnitude of its first `n`.
std::vector<double> Lengths(const std::vector<float>& rows, int64_t width) {
  std::vector<double> lengths(rows.size() / static_cast<size_t>(width));
  for (size_t i = 0; i < rows.size(); ++i) lengths[i / width] += double{rows[i]} * rows[i];
  for (double& length : lengths) length = std::sqrt(length);
  return lengths;
}
std::vector<double> Largest(const std::vector<float>& rows, int64_t width, int64_t n) {
  std::vector<double> largest(rows.size() / static_cast<size_t>(width));
  for (int64_t i = 0; i < static_cast<int64_t>(rows.size()); ++i) {
    if (i % width < n) largest[i / width] = std::max(largest[i / width], std::abs(double{rows[i]}));
  }
  return largest;
}

struct PagedCase {
  int64_t n_slots, p, batch;
  int64_t splits;  ///< Splits that the workspace has room for; 0 for no workspace.
  bool fp8;
  float spread = 1;     ///< Standard deviation of queries and keys.
  bool hidden = false;  ///< The first rows of slots are hidden.
  float soft_cap = 0;
};

std::string Text(const PagedCase& c) {
  return std::to_string(c.n_slots) + " slots of " + std::to_string(c.p) + (c.fp8 ? ", fp8" : "");
}

/// A pool of rows, [slots][p][n_kv][d], in `dtype` or as fp8 codes with a scale per slot and head.
struct Pool {
  std::vector<uint8_t> bytes;
  std::vector<float> scales;  ///< [slots][n_kv]
  std::vector<float> values;  ///< The values of the bytes.
};

Pool MakePool(Workbench& bench, const std::vector<float>& values, int64_t p, int64_t n_kv,
              int64_t d, bool fp8, DType dtype) {
  const auto page = static_cast<size_t>(p * n_kv * d);
  Pool pool;
  for (size_t i = 0; i < values.size() / page * static_cast<size_t>(n_kv); ++i) {
    pool.scales.push_back(static_cast<float>(bench.Random(5, 20)) * 0.001f);
  }
  if (!fp8) {
    pool.bytes = FromFloats(values, dtype);
    pool.values = ToFloats(pool.bytes, dtype);
    return pool;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t head = i / static_cast<size_t>(d) % static_cast<size_t>(n_kv);
    const float scale = pool.scales[i / page * static_cast<size_t>(n_kv) + head];
    pool.bytes.push_back(codec::ToFp8(values[i] / scale));
    pool.values.push_back(codec::FromFp8(pool.bytes.back()) * scale);
  }
  return pool;
}

/// Slots of which each head of each sequence uses its own number of rows; unused rows hold NaN.
struct PagedInput {
  std::vector<int32_t> slots;       ///< [batch][n_slots]
  std::vector<int32_t> valid;       ///< [batch][n_kv][n_slots]
  std::vector<float> k, v;          ///< [slots][p][n_kv][d]
  std::vector<int32_t> first = {};  ///< [batch][n_slots]
};

/// The factor of scores.
float ScaleOf(const Heads& h) { return 1.0f / std::sqrt(static_cast<float>(h.d)); }

int64_t PoolSlots(const PagedCase& c) { return c.batch * c.n_slots + 1; }

PagedInput MakePaged(Workbench& bench, const PagedCase& c, const Heads& h) {
  const int64_t token = h.n_kv * h.d;
  PagedInput in;
  in.slots = bench.Slots(c.batch * c.n_slots, PoolSlots(c));
  in.valid = bench.Ints(c.batch * h.n_kv * c.n_slots, 0, static_cast<int32_t>(c.p));
  in.first = bench.Ints(c.batch * c.n_slots, 0, c.hidden ? static_cast<int32_t>(c.p - 1) : 0);
  in.k.assign(PoolSlots(c) * c.p * token, std::numeric_limits<float>::quiet_NaN());
  in.v = in.k;
  for (int64_t i = 0; i < c.batch * h.n_kv; ++i) {
    in.valid[i * c.n_slots + bench.Random(0, c.n_slots - 1)] = static_cast<int32_t>(c.p);
    for (int64_t s = 0; s < c.n_slots; ++s) {
      const int64_t slot = in.slots[i / h.n_kv * c.n_slots + s];
      const int64_t first = in.first[i / h.n_kv * c.n_slots + s];
      for (int64_t r = first; r < in.valid[i * c.n_slots + s]; ++r) {
        const int64_t at = (slot * c.p + r) * token + i % h.n_kv * h.d;
        const std::vector<float> k = bench.Floats(h.d, c.spread), v = bench.Floats(h.d);
        std::copy_n(k.data(), h.d, in.k.begin() + at);
        std::copy_n(v.data(), h.d, in.v.begin() + at);
      }
    }
  }
  return in;
}

/// The first `value_dim` channels of the rows of `v` are values.
Distances PagedDistances(const PagedCase& c, const Heads& h, const PagedInput& in,
                         const std::vector<float>& q, const std::vector<float>& k,
                         const std::vector<float>& v, int64_t value_dim) {
  const std::vector<double> queries = Lengths(q, h.d), keys = Lengths(k, h.d);
  const std::vector<double> values = Largest(v, h.d, value_dim);
  Distances distances;
  for (int64_t i = 0; i < c.batch * h.n_q; ++i) {
    const int64_t sequence = i / h.n_q, g = i % h.n_q / (h.n_q / h.n_kv);
    double key = 0, value = 0;
    for (int64_t s = 0; s < c.n_slots; ++s) {
      const int64_t slot = in.slots[sequence * c.n_slots + s];
      const int64_t first = in.first.empty() ? 0 : in.first[sequence * c.n_slots + s];
      for (int64_t r = first; r < in.valid[(sequence * h.n_kv + g) * c.n_slots + s]; ++r) {
        const int64_t row = (slot * c.p + r) * h.n_kv + g;
        key = std::max(key, keys[row]);
        value = std::max(value, values[row]);
      }
    }
    distances.Add(ScaleOf(h) * queries[i] * key, value);
  }
  return distances;
}

PagedAttentionArgs PagedShape(const PagedCase& c, const Heads& h, DType dtype) {
  return {.batch = c.batch,
          .num_slots = PoolSlots(c),
          .n_slots = c.n_slots,
          .page_tokens = c.p,
          .n_q = h.n_q,
          .n_kv = h.n_kv,
          .head_dim = h.d,
          .scale = ScaleOf(h),
          .soft_cap = c.soft_cap,
          .fp8_pools = c.fp8,
          .dtype = dtype};
}

void CheckPaged(Workbench& bench, const PagedCase& c, const Heads& h, DType dtype) {
  SCOPED_TRACE(Text(h) + ", " + Text(c) + ", " + Name(dtype));
  TestDevice& device = bench.device();
  const PagedInput in = MakePaged(bench, c, h);
  const Pool k_pool = MakePool(bench, in.k, c.p, h.n_kv, h.d, c.fp8, dtype);
  const Pool v_pool = MakePool(bench, in.v, c.p, h.n_kv, h.d, c.fp8, dtype);
  const int64_t rows = c.batch * h.n_q;
  const size_t shift = bench.Shift(c.fp8 ? 1 : ElementBytes(dtype));
  Tensor<float> q(device, bench.Floats(rows * h.d, c.spread), 1);
  Tensor<uint8_t> k(device, k_pool.bytes, shift);
  Tensor<uint8_t> v(device, v_pool.bytes, shift);
  Tensor<float> k_scales(device, k_pool.scales), v_scales(device, v_pool.scales);
  Tensor<int32_t> slots(device, in.slots);
  Tensor<int32_t> valid(device, in.valid);
  Tensor<int32_t> first(device, in.first);
  Tensor<float> out(device, std::vector<float>(rows * h.d), 1);
  Tensor<float> lse(device, std::vector<float>(rows));
  Tensor<uint8_t> workspace(device,
                            std::vector<uint8_t>(c.splits * AttentionSplitBytes(rows, h.d)));

  PagedAttentionArgs args = PagedShape(c, h, dtype);
  PagedAttentionArgs want = args;
  args.q = q.data();
  args.k_pool = k.data();
  args.v_pool = v.data();
  args.k_scales = k_scales.data();
  args.v_scales = v_scales.data();
  args.slots = slots.data();
  args.valid_tokens = valid.data();
  args.first_tokens = c.hidden ? first.data() : nullptr;
  args.out = out.data();
  args.lse = lse.data();
  args.workspace = workspace.data();
  args.workspace_bytes = static_cast<int64_t>(workspace.size());
  args.stream = device.stream();
  ASSERT_EQ(bench.table().paged_attention(args), OpStatus::kOk);
  want.q = q.host();
  want.k_pool = k.host();
  want.v_pool = v.host();
  want.k_scales = k_scales.host();
  want.v_scales = v_scales.host();
  want.slots = slots.host();
  want.valid_tokens = valid.host();
  want.first_tokens = c.hidden ? first.host() : nullptr;
  want.out = out.host();
  want.lse = lse.host();
  ASSERT_EQ(CpuReference().paged_attention(want), OpStatus::kOk);
  const Distances distances =
      PagedDistances(c, h, in, q.host_array(), k_pool.values, v_pool.values, h.d);
  ExpectClose(out.Fetch(), out.host_array(), distances.out);
  ExpectClose(lse.Fetch(), lse.host_array(), distances.lse);
}

struct MlaCase {
  PagedCase paged;
  int64_t n_q, latent_dim, rope_dim;
};

void CheckMla(Workbench& bench, const MlaCase& c, DType dtype) {
  const int64_t width = c.latent_dim + c.rope_dim;
  const Heads h = {c.n_q, 1, width};
  SCOPED_TRACE(Text(h) + ", " + Text(c.paged) + ", " + Name(dtype));
  TestDevice& device = bench.device();
  const PagedInput in = MakePaged(bench, c.paged, h);
  const Pool made = MakePool(bench, in.k, c.paged.p, 1, width, c.paged.fp8, dtype);
  const int64_t rows = c.paged.batch * c.n_q;
  Tensor<float> q(device, bench.Floats(rows * width), 1);
  Tensor<uint8_t> pool(device, made.bytes, bench.Shift(c.paged.fp8 ? 1 : ElementBytes(dtype)));
  Tensor<float> scales(device, made.scales);
  Tensor<int32_t> slots(device, in.slots), valid(device, in.valid);
  Tensor<float> out(device, std::vector<float>(rows * c.latent_dim), 1);
  Tensor<float> lse(device, std::vector<float>(rows));
  Tensor<uint8_t> workspace(
      device, std::vector<uint8_t>(c.paged.splits * AttentionSplitBytes(rows, c.latent_dim)));

  MlaAttentionArgs args{.batch = c.paged.batch,
                        .num_slots = PoolSlots(c.paged),
                        .n_slots = c.paged.n_slots,
                        .page_tokens = c.paged.p,
                        .n_q = c.n_q,
                        .latent_dim = c.latent_dim,
                        .rope_dim = c.rope_dim,
                        .scale = ScaleOf(h),
                        .fp8_pool = c.paged.fp8,
                        .dtype = dtype};
  MlaAttentionArgs want = args;
  args.q = q.data();
  args.pool = pool.data();
  args.scales = scales.data();
  args.slots = slots.data();
  args.valid_tokens = valid.data();
  args.out = out.data();
  args.lse = lse.data();
  args.workspace = workspace.data();
  args.workspace_bytes = static_cast<int64_t>(workspace.size());
  args.stream = device.stream();
  ASSERT_EQ(bench.table().mla_attention(args), OpStatus::kOk);
  want.q = q.host();
  want.pool = pool.host();
  want.scales = scales.host();
  want.slots = slots.host();
  want.valid_tokens = valid.host();
  want.out = out.host();
  want.lse = lse.host();
  ASSERT_EQ(CpuReference().mla_attention(want), OpStatus::kOk);
  const Distances distances =
      PagedDistances(c.paged, h, in, q.host_array(), made.values, made.values, c.latent_dim);
  ExpectClose(out.Fetch(), out.host_array(), distances.out);
  ExpectClose(lse.Fetch(), lse.host_array(), distances.lse);
}

/// Distances: kMergeTolerance of the largest |out_i| of each row.
std::vector<double> MergeDistances(const std::vector<float>& parts,
                                   const std::vector<float>& part_lse, int64_t rows, int64_t d) {
  std::vector<double> largest(rows);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto part_row = static_cast<int64_t>(i) / d;
    if (part_lse[part_row] == -std::numeric_limits<float>::infinity()) continue;
    double& row = largest[part_row % rows];
    row = std::max(row, std::abs(double{parts[i]}));
  }
  for (double& row : largest) row = kMergeTolerance.At(row);
  return largest;
}

void CheckMerge(Workbench& bench, int64_t n_parts, int64_t rows, int64_t d,
                std::vector<float> part_lse) {
  TestDevice& device = bench.device();
  std::vector<float> values = bench.Floats(n_parts * rows * d);
  for (int64_t i = 0; i < n_parts * rows; ++i) {  // Unused elements may be anything.
    if (part_lse[i] == -std::numeric_limits<float>::infinity()) {
      std::fill_n(values.begin() + i * d, d, std::numeric_limits<float>::quiet_NaN());
    }
  }
  Tensor<float> parts(device, std::move(values), 1);
  Tensor<float> lses(device, std::move(part_lse));
  Tensor<float> out(device, std::vector<float>(rows * d), 1), lse(device, std::vector<float>(rows));
  MergeAttentionArgs args{.n_parts = n_parts, .rows = rows, .dim = d};
  MergeAttentionArgs want = args;
  args.parts = parts.data();
  args.part_lse = lses.data();
  args.out = out.data();
  args.lse = lse.data();
  args.stream = device.stream();
  ASSERT_EQ(bench.table().merge_attention(args), OpStatus::kOk);
  want.parts = parts.host();
  want.part_lse = lses.host();
  want.out = out.host();
  want.lse = lse.host();
  ASSERT_EQ(CpuReference().merge_attention(want), OpStatus::kOk);
  ExpectClose(out.Fetch(), out.host_array(),
              MergeDistances(parts.host_array(), lses.host_array(), rows, d));
  ExpectClose(lse.Fetch(), lse.host_array(), kMergeLseTolerance);
}

struct DenseCase {
  int64_t t, n;
  bool listed = false;    ///< Random last_key instead of the causal default.
  float spread = 1;       ///< Standard deviation of queries and keys.
  int64_t splits = 0;     ///< Splits that the workspace has room for; 0 for no workspace.
  int64_t value_dim = 0;  ///< Values are as many first channels of the keys; 0: they are others.
  int64_t window = 0;
  float soft_cap = 0;
};

Distances DenseDistances(const DenseCase& c, const Heads& h, const int32_t* last,
                         const std::vector<float>& q, const std::vector<float>& k,
                         const std::vector<float>& v) {
  const std::vector<double> queries = Lengths(q, h.d), keys = Lengths(k, h.d);
  const std::vector<double> values =
      c.value_dim > 0 ? Largest(k, h.d, c.value_dim) : Largest(v, h.d, h.d);
  Distances distances;
  for (int64_t i = 0; i < c.t * h.n_q; ++i) {
    const int64_t token = i / h.n_q, g = i % h.n_q / (h.n_q / h.n_kv);
    double key = 0, value = 0;
    for (int64_t j = 0; j <= (c.listed ? last[token] : c.n - c.t + token); ++j) {
      key = std::max(key, keys[j * h.n_kv + g]);
      value = std::max(value, values[j * h.n_kv + g]);
    }
    distances.Add(ScaleOf(h) * queries[i] * key, value);
  }
  return distances;
}

/// `limited`: rows may exceed the table's limit.
void CheckDense(Workbench& bench, const DenseCase& c, const Heads& h, DType dtype,
                bool limited = false) {
  SCOPED_TRACE(Text(h) + ", " + std::to_string(c.t) + " of " + std::to_string(c.n) + ", " +
               Name(dtype));
  TestDevice& device = bench.device();
  Tensor<float> q(device, bench.Floats(c.t * h.n_q * h.d, c.spread), 1);
  const size_t shift = bench.Shift(ElementBytes(dtype));
  Tensor<uint8_t> k(device, FromFloats(bench.Floats(c.n * h.n_kv * h.d, c.spread), dtype), shift);
  Tensor<uint8_t> v(device, bench.Elements(c.n * h.n_kv * h.d, dtype), shift);
  Tensor<int32_t> last(device, bench.Ints(c.t, 0, static_cast<int32_t>(c.n - 1)));
  const int64_t value_dim = c.value_dim > 0 ? c.value_dim : h.d;
  Tensor<float> out(device, std::vector<float>(c.t * h.n_q * value_dim), 1);
  Tensor<uint8_t> workspace(
      device, std::vector<uint8_t>(c.splits * AttentionSplitBytes(c.t * h.n_q, value_dim)));

  DenseAttentionArgs args{.t = c.t,
                          .n = c.n,
                          .n_q = h.n_q,
                          .n_kv = h.n_kv,
                          .head_dim = h.d,
                          .value_dim = c.value_dim,
                          .scale = ScaleOf(h),
                          .soft_cap = c.soft_cap,
                          .window = c.window,
                          .dtype = dtype};
  DenseAttentionArgs want = args;
  args.q = q.data();
  args.k = k.data();
  args.v = c.value_dim > 0 ? nullptr : v.data();
  args.last_key = c.listed ? last.data() : nullptr;
  args.out = out.data();
  args.workspace = c.splits > 0 ? workspace.data() : nullptr;
  args.workspace_bytes = static_cast<int64_t>(workspace.size());
  args.stream = device.stream();
  const OpStatus status = bench.table().dense_attention(args);
  if (limited && status == OpStatus::kUnsupported) return;
  ASSERT_EQ(status, OpStatus::kOk);
  want.q = q.host();
  want.k = k.host();
  want.v = c.value_dim > 0 ? nullptr : v.host();
  want.last_key = c.listed ? last.host() : nullptr;
  want.out = out.host();
  ASSERT_EQ(CpuReference().dense_attention(want), OpStatus::kOk);
  const Distances distances =
      DenseDistances(c, h, last.host(), q.host_array(), ToFloats(k.host_array(), dtype),
                     ToFloats(v.host_array(), dtype));
  ExpectClose(out.Fetch(), out.host_array(), distances.out);
}

}  // namespace

TEST_P(OpConformance, PagedAttentionEqualsReference) {
  QUIRE_REQUIRE_OP(paged_attention);
  const PagedCase cases[] = {{1, 1, 1, 0, false},
                             {1, 32, 1, 2, false},
                             {5, 31, 2, 0, false},
                             {3, 33, 1, 2, false},
                             {20, 16, 1, 4, false}};
  for (const PagedCase& c : cases) {
    for (const Heads& h : kHeads) {
      for (const DType dtype : kAllDTypes) CheckPaged(bench_, c, h, dtype);
    }
  }
}

TEST_P(OpConformance, PagedAttentionOverFp8EqualsReference) {
  QUIRE_REQUIRE_OP(paged_attention);
  for (const Heads& h : kHeads) {
    CheckPaged(bench_, {3, 31, 2, 0, true}, h, DType::kF16);
    CheckPaged(bench_, {9, 16, 1, 3, true}, h, DType::kF16);
  }
}

// Pages with boundaries inside tiles, or that end inside tiles: one token, a power of two and one
// more, longer than a tile. Counts: one tile and a token, and many tiles.
TEST_P(OpConformance, PagedAttentionOfAnyPageSizeEqualsReference) {
  QUIRE_REQUIRE_OP(paged_attention);
  const PagedCase cases[] = {{70, 1, 1, 2, false},  {43, 3, 1, 3, false}, {9, 7, 2, 0, false},
                             {1, 65, 1, 2, false},  {2, 64, 1, 2, false}, {3, 100, 1, 3, false},
                             {2, 129, 2, 0, false}, {13, 24, 1, 5, false}};
  for (const PagedCase& c : cases) {
    for (const Heads& h : {Heads{4, 2, 64}, Heads{3, 1, 80}, Heads{9, 1, 33}}) {
      CheckPaged(bench_, c, h, DType::kBF16);
      PagedCase fp8 = c;
      fp8.fp8 = true;
      CheckPaged(bench_, fp8, h, DType::kF16);
    }
  }
}

// Shapes of models, over more tokens than a tile of a device holds, in two splits.
TEST_P(OpConformance, PagedAttentionOfModelHeadsEqualsReference) {
  QUIRE_REQUIRE_OP(paged_attention);
  for (const Heads& h : ModelHeads()) {
    for (const DType dtype : kAllDTypes) CheckPaged(bench_, {5, 16, 1, 2, false}, h, dtype);
    CheckPaged(bench_, {5, 16, 1, 2, true}, h, DType::kF16);
  }
}

// More query heads on one KV head than a block of any table takes at once (MQA).
TEST_P(OpConformance, PagedAttentionOfManyQueryHeads) {
  QUIRE_REQUIRE_OP(paged_attention);
  CheckPaged(bench_, {4, 32, 2, 3, false}, {71, 1, 64}, DType::kBF16);
}

TEST_P(OpConformance, MlaAttentionEqualsReference) {
  QUIRE_REQUIRE_OP(mla_attention);
  const MlaCase cases[] = {{{2, 16, 1, 0, false}, 1, 5, 2},
                           {{3, 33, 2, 2, false}, 16, 512, 64},
                           {{7, 16, 1, 3, false}, 9, 128, 0},
                           {{4, 19, 1, 2, false}, 3, 64, 16},
                           {{3, 16, 2, 2, true}, 20, 512, 64}};
  for (const MlaCase& c : cases) {
    for (const DType dtype : kAllDTypes) CheckMla(bench_, c, dtype);
  }
}

TEST_P(OpConformance, MergeAttentionEqualsReference) {
  QUIRE_REQUIRE_OP(merge_attention);
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const int64_t parts : {1, 2, 3, 40}) {
    for (const int64_t d : {1, 7, 64, 80, 96, 128, 256, 513}) {
      const int64_t rows = 5;
      CheckMerge(bench_, parts, rows, d, bench_.Floats(parts * rows, 30.0f));
      std::vector<float> lse = bench_.Floats(parts * rows);
      for (int64_t i = 0; i < parts; ++i) lse[i * rows] = kNone;  // Row 0 saw nothing anywhere.
      lse[rows + 1 < parts * rows ? rows + 1 : 1] = kNone;
      lse[3] = std::numeric_limits<float>::quiet_NaN();
      CheckMerge(bench_, parts, rows, d, lse);
    }
  }
  std::vector<float> memory(8);
  MergeAttentionArgs args{.parts = memory.data(),
                          .part_lse = memory.data(),
                          .out = memory.data(),
                          .n_parts = 0,
                          .rows = 1,
                          .dim = 1};
  EXPECT_EQ(table().merge_attention(args), OpStatus::kBadShape);
  EXPECT_EQ(table().merge_attention({.n_parts = 1, .rows = 1, .dim = 1}), OpStatus::kBadShape);
  EXPECT_EQ(table().merge_attention({.n_parts = 1, .rows = 0, .dim = 1}), OpStatus::kOk);
}

// Attention over two sets of slots, merged, is attention over both.
TEST_P(OpConformance, MergedPartsAreTheWhole) {
  QUIRE_REQUIRE_OP(paged_attention);
  QUIRE_REQUIRE_OP(merge_attention);
  TestDevice& device = bench_.device();
  const Heads h = {8, 2, 64};
  const PagedCase c = {6, 16, 1, 0, false};
  const int64_t pool = PoolSlots(c) * c.p * h.n_kv * h.d;
  const PagedInput in = {bench_.Slots(c.n_slots, PoolSlots(c)),
                         std::vector<int32_t>(h.n_kv * c.n_slots, 13), bench_.Floats(pool),
                         bench_.Floats(pool)};
  const std::vector<float> nothing(h.n_q * h.d), no_lse(h.n_q);
  Tensor<float> q(device, bench_.Floats(h.n_q * h.d)), k_pool(device, in.k), v_pool(device, in.v);
  Tensor<int32_t> slots(device, in.slots), valid(device, in.valid);
  Tensor<float> parts(device, std::vector<float>(2 * h.n_q * h.d));
  Tensor<float> lse(device, std::vector<float>(2 * h.n_q));
  Tensor<float> merged(device, nothing), whole(device, nothing);
  Tensor<float> merged_lse(device, no_lse), whole_lse(device, no_lse);
  PagedAttentionArgs args = PagedShape(c, h, DType::kF32);
  args.q = q.data(), args.k_pool = k_pool.data(), args.v_pool = v_pool.data();
  args.slots = slots.data(), args.valid_tokens = valid.data(), args.stream = device.stream();
  args.out = whole.data(), args.lse = whole_lse.data();
  ASSERT_EQ(table().paged_attention(args), OpStatus::kOk);
  int64_t from = 0;
  for (const int64_t part : {0, 1}) {
    args.slots = slots.data() + from;
    args.n_slots = part == 0 ? 2 : 4;
    args.out = parts.data() + part * h.n_q * h.d;
    args.lse = lse.data() + part * h.n_q;
    ASSERT_EQ(table().paged_attention(args), OpStatus::kOk);
    from += args.n_slots;
  }
  ASSERT_EQ(table().merge_attention({.parts = parts.data(),
                                     .part_lse = lse.data(),
                                     .out = merged.data(),
                                     .lse = merged_lse.data(),
                                     .n_parts = 2,
                                     .rows = h.n_q,
                                     .dim = h.d,
                                     .stream = device.stream()}),
            OpStatus::kOk);
  Distances distances = PagedDistances(c, h, in, q.host_array(), in.k, in.v, h.d);
  // The whole, the parts, their weights (twice) and the merge may each differ by that.
  for (double& distance : distances.out) distance *= 5;
  for (double& distance : distances.lse) distance *= 3;
  ExpectClose(merged.Fetch(), whole.Fetch(), distances.out);
  ExpectClose(merged_lse.Fetch(), whole_lse.Fetch(), distances.lse);
}

TEST_P(OpConformance, DenseAttentionEqualsReference) {
  QUIRE_REQUIRE_OP(dense_attention);
  const DenseCase cases[] = {{1, 1, false},   {2, 2, false},    {1, 33, false},  {31, 31, false},
                             {65, 65, false}, {40, 129, false}, {9, 300, false}, {50, 140, true}};
  for (const DenseCase& c : cases) {
    for (const Heads& h : kHeads) CheckDense(bench_, c, h, DType::kF32);
  }
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    CheckDense(bench_, {33, 160, false}, {8, 2, 64}, dtype);
    CheckDense(bench_, {33, 160, true}, {7, 1, 33}, dtype);
  }
}

TEST_P(OpConformance, DenseAttentionOfModelHeadsEqualsReference) {
  QUIRE_REQUIRE_OP(dense_attention);
  for (const Heads& h : ModelHeads()) {
    for (const DType dtype : kAllDTypes) CheckDense(bench_, {5, 70, false}, h, dtype);
  }
}

TEST_P(OpConformance, DenseAttentionOverLatentsEqualsReference) {
  QUIRE_REQUIRE_OP(dense_attention);
  for (const DType dtype : kAllDTypes) {
    CheckDense(bench_, {.t = 5, .n = 70, .value_dim = 512}, {16, 1, 576}, dtype);
    CheckDense(bench_, {.t = 33, .n = 160, .listed = true, .value_dim = 9}, {7, 1, 13}, dtype);
    CheckDense(bench_, {.t = 1, .n = 140, .splits = 4, .value_dim = 16}, {4, 1, 24}, dtype);
    CheckDense(bench_, {.t = 3, .n = 9, .value_dim = 64}, {4, 2, 64}, dtype);
  }
}

// Few tokens over many keys in splits, the last of which may have no visible key.
TEST_P(OpConformance, DenseAttentionOfFewTokensEqualsReference) {
  QUIRE_REQUIRE_OP(dense_attention);
  const DenseCase cases[] = {{1, 1, false, 1, 4},   {1, 63, true, 1, 4},  {1, 64, false, 1, 4},
                             {1, 65, false, 1, 4},  {1, 300, true, 1, 1}, {1, 300, true, 1, 7},
                             {3, 200, false, 1, 3}, {2, 150, true, 1, 9}};
  for (const DenseCase& c : cases) {
    for (const Heads& h : kHeads) CheckDense(bench_, c, h, DType::kF32);
  }
  for (const Heads& h : ModelHeads()) {
    for (const DType dtype : kAllDTypes) CheckDense(bench_, {1, 140, true, 1, 4}, h, dtype);
  }
}

// Rows as long as a block of a device has room for are computed; longer ones may be refused.
TEST_P(OpConformance, DenseAttentionOfLongRowsEqualsReferenceOrIsUnsupported) {
  QUIRE_REQUIRE_OP(dense_attention);
  for (const int64_t d : {152, 288, 497, 504, 505, 760, 1032}) {
    for (const DType dtype : kAllDTypes) CheckDense(bench_, {2, 9, false}, {1, 1, d}, dtype, true);
  }
}

// A large score range: without the running maximum exp overflows, or everything underflows.
TEST_P(OpConformance, AttentionSurvivesLargeScores) {
  QUIRE_REQUIRE_OP(dense_attention);
  QUIRE_REQUIRE_OP(paged_attention);
  for (const int64_t d : {4, 64}) {
    CheckDense(bench_, {200, 200, false, 30}, {1, 1, d}, DType::kF32);
    CheckPaged(bench_, {7, 32, 1, 2, false, 30}, {2, 1, d}, DType::kF32);
  }
}

// Windows that end before, inside and behind a tile, and splits without any visible key.
TEST_P(OpConformance, DenseAttentionWithinAWindowEqualsReference) {
  QUIRE_REQUIRE_OP(dense_attention);
  for (const int64_t window : {1, 7, 64, 130, 1000}) {
    for (const Heads& h : kHeads) {
      CheckDense(bench_, {.t = 35, .n = 150, .listed = false, .window = window}, h, DType::kF32);
      CheckDense(bench_, {.t = 20, .n = 150, .listed = true, .window = window}, h, DType::kBF16);
      CheckDense(bench_, {.t = 1, .n = 300, .listed = false, .splits = 7, .window = window}, h,
                 DType::kF16);
    }
  }
}

TEST_P(OpConformance, PagedAttentionWithHiddenRowsEqualsReference) {
  QUIRE_REQUIRE_OP(paged_attention);
  for (const int64_t p : {1, 16, 33, 100}) {
    for (const Heads& h : kHeads) {
      CheckPaged(bench_, {5, p, 2, 2, false, 1, true}, h, DType::kBF16);
      CheckPaged(bench_, {3, p, 1, 0, true, 1, true}, h, DType::kF16);
    }
  }
}

// Scores far beyond the cap, which without it decide the result.
TEST_P(OpConformance, CappedScoresEqualTheReferences) {
  QUIRE_REQUIRE_OP(dense_attention);
  QUIRE_REQUIRE_OP(paged_attention);
  for (const Heads& h : kHeads) {
    CheckDense(bench_, {.t = 40, .n = 90, .listed = false, .spread = 5, .soft_cap = 3}, h,
               DType::kF32);
    CheckDense(
        bench_,
        {.t = 9, .n = 90, .listed = true, .spread = 5, .splits = 2, .window = 20, .soft_cap = 30},
        h, DType::kF16);
    CheckPaged(bench_, {5, 16, 1, 2, false, 5, true, 3}, h, DType::kF32);
  }
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
  EXPECT_TRUE(refused([](auto& a) { a.batch = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.workspace_bytes = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.fp8_pools = true; }));  // Without scales.
  EXPECT_TRUE(refused([](auto& a) { a.page_tokens = 1; }));   // Less than a count in valid_tokens.
  EXPECT_TRUE(refused([](auto& a) { a.soft_cap = -1; }));
  std::vector<int32_t> first = {0, 1};
  EXPECT_FALSE(refused([&](auto& a) { a.first_tokens = first.data(); }));
  first = {1, 0};  // Head 0 has a row in slot 0 only.
  EXPECT_TRUE(refused([&](auto& a) { a.first_tokens = first.data(); }));
  first = {0, 3};
  EXPECT_TRUE(refused([&](auto& a) { a.first_tokens = first.data(); }));
  valid = {0, 0, 2, 2};  // Head 0 has no valid token.
  EXPECT_TRUE(refused([](auto&) {}));
}

TEST_P(OpConformance, MlaAttentionRefusesBadShapes) {
  QUIRE_REQUIRE_OP(mla_attention);
  std::vector<float> memory(256);
  const std::vector<int32_t> slots = {0, 1};
  std::vector<int32_t> valid = {1, 2};
  const MlaAttentionArgs good{.q = memory.data(),
                              .pool = memory.data(),
                              .slots = slots.data(),
                              .valid_tokens = valid.data(),
                              .out = memory.data() + 128,
                              .num_slots = 2,
                              .n_slots = 2,
                              .page_tokens = 2,
                              .n_q = 4,
                              .latent_dim = 4,
                              .rope_dim = 2,
                              .scale = 1.0f,
                              .dtype = DType::kF32};
  const auto answer = [&](auto change) {
    MlaAttentionArgs args = good;
    change(args);
    return table().mla_attention(args);
  };
  EXPECT_EQ(answer([](auto& a) { a.latent_dim = 0; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.rope_dim = -1; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.fp8_pool = true; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.valid_tokens = nullptr; }), OpStatus::kBadShape);
  EXPECT_EQ(answer([](auto& a) { a.dtype = static_cast<DType>(99); }), OpStatus::kUnsupported);
  if (!bench_.device().checks_lists()) return;
  EXPECT_EQ(answer([](auto&) {}), OpStatus::kOk);
  EXPECT_EQ(answer([](auto& a) { a.num_slots = 1; }), OpStatus::kBadShape);
  valid = {0, 0};
  EXPECT_EQ(answer([](auto&) {}), OpStatus::kBadShape);
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
  EXPECT_TRUE(refused([](auto& a) { a.v = nullptr, a.value_dim = 5; }));
  EXPECT_TRUE(refused([](auto& a) { a.scale = INFINITY; }));
  EXPECT_TRUE(refused([](auto& a) { a.window = -1; }));
  EXPECT_TRUE(refused([](auto& a) { a.soft_cap = NAN; }));
  EXPECT_TRUE(refused([](auto& a) { a.workspace_bytes = -1; }));
  if (bench_.device().checks_lists()) {
    EXPECT_TRUE(refused([&](auto& a) { a.last_key = last.data(); }));
  }
  DenseAttentionArgs empty = good;
  empty.t = 0;
  empty.q = nullptr;
  EXPECT_EQ(table().dense_attention(empty), OpStatus::kOk);
}

}  // namespace quire::kernels::testing
