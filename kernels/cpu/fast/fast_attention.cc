// SPDX-License-Identifier: Apache-2.0
//
// Flash-style attention: tiles of keys, a running maximum and sum per query row, and accumulators
// rescaled when the maximum grows. The result is softmax(scale * q.k) * v, with one division at the
// end. Scores may be capped before.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/sequences.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/simd_codec.h"

namespace quire::kernels::fast {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// Running softmax of some query rows over tiles of keys.
struct Running {
  Running(int64_t rows, int64_t dim)
      : d(dim), top(rows, kNone), sum(rows, 0.0f), acc(rows * dim, 0.0f) {}
  int64_t d;
  std::vector<float> top;  ///< [rows] largest score so far
  std::vector<float> sum;  ///< [rows] sum of exp(score - top)
  std::vector<float> acc;  ///< [rows][d] sum of exp(score - top) * v

  void Reset(int64_t rows) {
    std::fill_n(top.begin(), rows, kNone);
    std::fill_n(sum.begin(), rows, 0.0f);
    std::fill_n(acc.begin(), rows * d, 0.0f);
  }
  /// Turns a row's n scores of one tile into weights, and rescales earlier sums.
  void Weigh(int64_t row, float* scores, int64_t n) {
    const float tile_top = simd::MaxNumber(scores, n);
    if (tile_top > top[row]) {
      const float shrink = std::exp(top[row] - tile_top);
      sum[row] *= shrink;
      for (int64_t c = 0; c < d; ++c) acc[row * d + c] *= shrink;
      top[row] = tile_top;
    }
    sum[row] += simd::ExpInPlace(scores, n, top[row]);
  }
  void Finish(int64_t row, float* out) const {
    const float inverse = 1.0f / sum[row];
    for (int64_t c = 0; c < d; ++c) out[c] = acc[row * d + c] * inverse;
  }
};

/// Rows of f32, `stride` elements apart.
struct Rows {
  const float* data;
  int64_t stride;
};

/// Element format of a KV array: `dtype`, or fp8 codes.
struct Format {
  DType dtype = DType::kF32;
  bool fp8 = false;
  int64_t bytes() const { return fp8 ? 1 : ElementBytes(dtype); }
};

/// `n` rows of a KV array, `stride` elements apart.
struct Stored {
  const char* data;
  int64_t stride;
  int64_t n;
  int64_t d;
  Format format;
};
Stored StoredAt(const void* base, int64_t element, int64_t stride, int64_t n, int64_t d,
                Format format) {
  return {static_cast<const char*>(base) + element * format.bytes(), stride, n, d, format};
}

/// Returns the rows as f32: in place if they are f32 already, otherwise in `scratch`. Multiplies
/// fp8 codes by `code_scale`.
Rows AsFloat(const Stored& rows, float code_scale, std::vector<float>& scratch) {
  if (rows.format.fp8) {
    for (int64_t r = 0; r < rows.n; ++r) {
      simd::DecodeFp8(reinterpret_cast<const uint8_t*>(rows.data) + r * rows.stride, rows.d,
                      code_scale, DType::kF32, scratch.data() + r * rows.d);
    }
    return {scratch.data(), rows.d};
  }
  if (rows.format.dtype == DType::kF32) {
    return {reinterpret_cast<const float*>(rows.data), rows.stride};
  }
  simd::WidenRows(rows.data, rows.stride, rows.format.dtype, rows.n, rows.d, scratch.data());
  return {scratch.data(), rows.d};
}

/// Prefetches rows that will be read soon. They lie apart, so the CPU cannot predict the next one.
void PrefetchRows(const Stored& rows) {
  const char* row = rows.data;
  for (int64_t r = 0; r < rows.n; ++r, row += rows.stride * rows.format.bytes()) {
    for (int64_t byte = 0; byte < rows.d * rows.format.bytes(); byte += 64) {
      __builtin_prefetch(row + byte);
    }
  }
}

/// Copies the queries of one group, times scale: `to` is [rows][d].
void CopyScaled(const float* from, int64_t n, float scale, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] * scale;
}

/// Bounds scores: c * tanh(s / c). Leaves them as they are where c is 0.
void Cap(float soft_cap, float* scores, int64_t n) {
  if (soft_cap == 0) return;
  for (int64_t i = 0; i < n; ++i) scores[i] = soft_cap * std::tanh(scores[i] / soft_cap);
}

/// One tile of query rows of one KV head: `m` = query tokens * group rows.
struct Tile {
  int64_t first = 0;  ///< First query token.
  int64_t tokens = 0;
  int64_t m = 0;
  int64_t first_key = 0;  ///< Keys visible to any of its rows: first_key .. end_key - 1.
  int64_t end_key = 0;
};

class DenseHead {
 public:
  explicit DenseHead(const DenseAttentionArgs& args)
      : args_(args),
        d_(args.head_dim),
        value_dim_(ValueDim(args)),
        group_(args.n_q / args.n_kv),
        tile_tokens_(std::clamp<int64_t>(kRows / group_, 1, args.t)),
        running_(tile_tokens_ * group_, value_dim_),
        q_(tile_tokens_ * group_ * d_),
        scores_(tile_tokens_ * group_ * kKeys),
        k_scratch_(args.dtype == DType::kF32 ? 0 : kKeys * d_),
        v_scratch_(args.v == nullptr ? 0 : k_scratch_.size()) {}

  void Run(int64_t g) {
    for (int64_t first = 0; first < args_.t; first += tile_tokens_) {
      Tile tile{
          .first = first, .tokens = std::min(tile_tokens_, args_.t - first), .first_key = args_.n};
      tile.m = tile.tokens * group_;
      for (int64_t i = 0; i < tile.tokens; ++i) {
        tile.first_key = std::min(tile.first_key, FirstKey(first + i));
        tile.end_key = std::max(tile.end_key, LastKey(first + i) + 1);
      }
      LoadQueries(g, tile);
      for (int64_t key = tile.first_key; key < tile.end_key; key += kKeys) {
        AddKeys(g, tile, key, std::min(kKeys, tile.end_key - key));
      }
      StoreOutput(g, tile);
    }
  }

 private:
  static constexpr int64_t kRows = 256;  ///< Query rows per tile.
  static constexpr int64_t kKeys = 128;  ///< Keys per tile: 128 KiB of scores stay in the L2 cache.

  int64_t LastKey(int64_t i) const {
    return args_.last_key != nullptr ? args_.last_key[i] : args_.n - args_.t + i;
  }
  int64_t FirstKey(int64_t i) const {
    return args_.window == 0 ? 0 : std::max<int64_t>(0, LastKey(i) + 1 - args_.window);
  }
  /// The first of the group's rows of a token, among those of all heads.
  int64_t FirstRow(int64_t token, int64_t g) const { return token * args_.n_q + g * group_; }

  void LoadQueries(int64_t g, const Tile& tile) {
    for (int64_t i = 0; i < tile.tokens; ++i) {
      CopyScaled(args_.q + FirstRow(tile.first + i, g) * d_, group_ * d_, args_.scale,
                 q_.data() + i * group_ * d_);
    }
    running_.Reset(tile.m);
  }

  void AddKeys(int64_t g, const Tile& tile, int64_t key, int64_t n) {
    const int64_t stride = args_.n_kv * d_;
    const int64_t element = key * stride + g * d_;
    const Format format{args_.dtype};
    const Rows k = AsFloat(StoredAt(args_.k, element, stride, n, d_, format), 1, k_scratch_);
    const Rows v = args_.v == nullptr
                       ? k
                       : AsFloat(StoredAt(args_.v, element, stride, n, d_, format), 1, v_scratch_);
    GemmTransposed({tile.m, n, d_, d_, k.stride, n}, q_.data(), k.data, scores_.data());
    for (int64_t row = 0; row < tile.m; ++row) {
      float* scores = scores_.data() + row * n;
      const int64_t token = tile.first + row / group_;
      const int64_t end = std::clamp<int64_t>(LastKey(token) + 1 - key, 0, n);
      const int64_t begin = std::clamp<int64_t>(FirstKey(token) - key, 0, end);
      Cap(args_.soft_cap, scores + begin, end - begin);
      if (end > begin) running_.Weigh(row, scores + begin, end - begin);
      std::fill(scores, scores + begin, 0.0f);
      std::fill(scores + end, scores + n, 0.0f);
    }
    Gemm({tile.m, value_dim_, n, n, v.stride, value_dim_, true}, scores_.data(), v.data,
         running_.acc.data());
  }

  void StoreOutput(int64_t g, const Tile& tile) {
    for (int64_t row = 0; row < tile.m; ++row) {
      const int64_t at = FirstRow(tile.first + row / group_, g) + row % group_;
      running_.Finish(row, args_.out + at * value_dim_);
    }
  }

  const DenseAttentionArgs& args_;
  const int64_t d_;
  const int64_t value_dim_;
  const int64_t group_;
  const int64_t tile_tokens_;
  Running running_;
  std::vector<float> q_;       ///< [tile tokens][group][d], scaled
  std::vector<float> scores_;  ///< [m][keys of the tile]
  std::vector<float> k_scratch_;
  std::vector<float> v_scratch_;
};

/// Paged pools, with or without separate values, for PagedAttention and MlaAttention.
struct Pools {
  const void* k = nullptr;
  const void* v = nullptr;  ///< Null: values are the first value_dim channels of k.
  const float* k_scales = nullptr;
  const float* v_scales = nullptr;
  int64_t p = 0;
  int64_t n_kv = 1;
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  Format format;
};

/// The queries of one KV head of one sequence, and their slots.
struct Group {
  const float* q;        ///< [rows][key_dim]
  const int32_t* slots;  ///< [n_slots]
  const int32_t* valid;  ///< [n_slots]
  const int32_t* first;  ///< [n_slots] or null
  int64_t head;
  float* out;  ///< [rows][value_dim]
  float* lse;  ///< [rows] or null
};

class PagedHead {
 public:
  PagedHead(const Pools& pools, int64_t rows, int64_t n_slots, float scale, float soft_cap = 0)
      : pools_(pools),
        rows_(rows),
        n_slots_(n_slots),
        scale_(scale),
        soft_cap_(soft_cap),
        running_(rows, pools.value_dim),
        q_(rows * pools.key_dim),
        scores_(rows * pools.p),
        k_scratch_(ReadsStored() ? 0 : pools.p * pools.key_dim),
        v_scratch_(ReadsStored() || pools.v == nullptr ? 0 : pools.p * pools.value_dim) {}

  void Run(const Group& group) {
    CopyScaled(group.q, rows_ * pools_.key_dim, scale_, q_.data());
    running_.Reset(rows_);
    for (int64_t s = 0; s < n_slots_; ++s) {
      if (RowsIn(group, s) > 0) AddSlot(group, s);
    }
    for (int64_t row = 0; row < rows_; ++row) {
      running_.Finish(row, group.out + row * pools_.value_dim);
      if (group.lse != nullptr) group.lse[row] = running_.top[row] + std::log(running_.sum[row]);
    }
  }

 private:
  /// Rows are widened once if more queries than this use them.
  static constexpr int64_t kMostRowsOfStored = 8;
  bool ReadsStored() const { return !pools_.format.fp8 && rows_ <= kMostRowsOfStored; }

  static int64_t FirstRow(const Group& group, int64_t s) {
    return group.first == nullptr ? 0 : group.first[s];
  }
  /// Used rows of slot `s`; not above 0 for none.
  static int64_t RowsIn(const Group& group, int64_t s) {
    return group.valid[s] - FirstRow(group, s);
  }

  Stored RowsOf(const Group& group, int64_t s, const void* pool, int64_t d) const {
    const int64_t stride = pools_.n_kv * d;
    const int64_t row = group.slots[s] * pools_.p + FirstRow(group, s);
    return StoredAt(pool, row * stride + group.head * d, stride, RowsIn(group, s), d,
                    pools_.format);
  }

  /// A slot's rows of one of the pools, for sums over them. Prefetches the next slot's rows, here
  /// or during the sum.
  simd::StoredRows Load(const Group& group, int64_t s, const void* pool, int64_t d,
                        const float* scales, std::vector<float>& scratch) const {
    const Stored rows = RowsOf(group, s, pool, d);
    const std::optional<Stored> next =
        s + 1 < n_slots_ ? std::optional(RowsOf(group, s + 1, pool, d)) : std::nullopt;
    if (ReadsStored()) {
      return {.data = rows.data,
              .stride = rows.stride,
              .dtype = rows.format.dtype,
              .next = next ? next->data : nullptr};
    }
    if (next) PrefetchRows(*next);
    const float scale = pools_.format.fp8 ? scales[group.slots[s] * pools_.n_kv + group.head] : 1;
    const Rows wide = AsFloat(rows, scale, scratch);
    return {.data = wide.data, .stride = wide.stride};
  }

  void AddSlot(const Group& group, int64_t s) {
    const int64_t n = RowsIn(group, s);
    const simd::StoredRows k =
        Load(group, s, pools_.k, pools_.key_dim, pools_.k_scales, k_scratch_);
    simd::Dots(q_.data(), rows_, k, n, pools_.key_dim, scores_.data());
    Cap(soft_cap_, scores_.data(), rows_ * n);
    for (int64_t row = 0; row < rows_; ++row) running_.Weigh(row, scores_.data() + row * n, n);
    const simd::StoredRows v = pools_.v == nullptr ? k
                                                   : Load(group, s, pools_.v, pools_.value_dim,
                                                          pools_.v_scales, v_scratch_);
    simd::WeightedSum(scores_.data(), rows_, v, n, pools_.value_dim, running_.acc.data());
  }

  const Pools pools_;
  const int64_t rows_;
  const int64_t n_slots_;
  const float scale_;
  const float soft_cap_;
  Running running_;
  std::vector<float> q_;       ///< [rows][key_dim], scaled
  std::vector<float> scores_;  ///< [rows][rows of a slot]
  std::vector<float> k_scratch_;
  std::vector<float> v_scratch_;
};

/// Merges one row of all parts. `weights`: room for [n_parts].
void MergeRow(const MergeAttentionArgs& args, int64_t row, float* weights) {
  const auto part_lse = [&](int64_t part) { return args.part_lse[part * args.rows + row]; };
  for (int64_t i = 0; i < args.n_parts; ++i) weights[i] = part_lse(i);
  const float top = simd::MaxNumber(weights, args.n_parts);
  simd::ExpInPlace(weights, args.n_parts, top);
  double sum = 0;
  for (int64_t i = 0; i < args.n_parts; ++i) {
    // A NaN is added too, and makes the whole row NaN.
    if (part_lse(i) != kNone) sum += weights[i];
  }
  float* out = args.out + row * args.dim;
  std::fill_n(out, args.dim, 0.0f);
  for (int64_t i = 0; i < args.n_parts; ++i) {
    if (part_lse(i) == kNone) continue;
    const auto weight = static_cast<float>(weights[i] / sum);
    const float* part = args.parts + (i * args.rows + row) * args.dim;
    simd::WeightedSum(&weight, 1, {.data = part, .stride = args.dim}, 1, args.dim, out);
  }
  if (args.lse == nullptr) return;
  args.lse[row] = sum == 0 ? kNone : static_cast<float>(top + std::log(sum));
}

}  // namespace

OpStatus PagedAttention(const PagedAttentionArgs& args) {
  if (HasOwnPools(args)) return RunSequences(args, PagedAttention);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim;
  const int64_t rows = args.n_q / args.n_kv;
  PagedHead head({.k = args.k_pool,
                  .v = args.v_pool,
                  .k_scales = args.k_scales,
                  .v_scales = args.v_scales,
                  .p = args.page_tokens,
                  .n_kv = args.n_kv,
                  .key_dim = d,
                  .value_dim = d,
                  .format = {args.dtype, args.fp8_pools}},
                 rows, args.n_slots, args.scale, args.soft_cap);
  for (int64_t i = 0; i < args.batch * args.n_kv; ++i) {
    head.Run({.q = args.q + i * rows * d,
              .slots = args.slots + i / args.n_kv * args.n_slots,
              .valid = args.valid_tokens + i * args.n_slots,
              .first = args.first_tokens == nullptr
                           ? nullptr
                           : args.first_tokens + i / args.n_kv * args.n_slots,
              .head = i % args.n_kv,
              .out = args.out + i * rows * d,
              .lse = args.lse == nullptr ? nullptr : args.lse + i * rows});
  }
  return OpStatus::kOk;
}

OpStatus MlaAttention(const MlaAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t width = args.latent_dim + args.rope_dim;
  PagedHead head({.k = args.pool,
                  .k_scales = args.scales,
                  .p = args.page_tokens,
                  .key_dim = width,
                  .value_dim = args.latent_dim,
                  .format = {args.dtype, args.fp8_pool}},
                 args.n_q, args.n_slots, args.scale);
  for (int64_t b = 0; b < args.batch; ++b) {
    head.Run({.q = args.q + b * args.n_q * width,
              .slots = args.slots + b * args.n_slots,
              .valid = args.valid_tokens + b * args.n_slots,
              .first = nullptr,
              .head = 0,
              .out = args.out + b * args.n_q * args.latent_dim,
              .lse = args.lse == nullptr ? nullptr : args.lse + b * args.n_q});
  }
  return OpStatus::kOk;
}

OpStatus MergeAttention(const MergeAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  std::vector<float> weights(args.n_parts);
  for (int64_t row = 0; row < args.rows; ++row) MergeRow(args, row, weights.data());
  return OpStatus::kOk;
}

OpStatus DenseAttention(const DenseAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.t == 0) return OpStatus::kOk;
  if (!FitsGemm(args.n_kv * args.head_dim)) return OpStatus::kUnsupported;
  DenseHead head(args);
  for (int64_t g = 0; g < args.n_kv; ++g) head.Run(g);
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
