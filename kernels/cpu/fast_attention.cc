// SPDX-License-Identifier: Apache-2.0
//
// Flash-style attention: tiles of keys, a running maximum and sum per query row, and accumulators
// that are rescaled when the maximum grows. The result is softmax(scale * q.k) * v, one division at
// the end.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd.h"

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
  /// Turns a row's n scores of one tile into weights, and rescales what came before.
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

/// Rows of f32, spaced `stride`.
struct Rows {
  const float* data;
  int64_t stride;
};

/// `n` strided rows of a KV array as f32: in place when they are f32 already, else in `scratch`.
Rows AsFloat(const void* base, int64_t element, int64_t stride, int64_t n, int64_t d, DType dtype,
             std::vector<float>& scratch) {
  if (dtype == DType::kF32) return {static_cast<const float*>(base) + element, stride};
  const char* from = static_cast<const char*>(base) + element * ElementBytes(dtype);
  simd::WidenRows(from, stride, dtype, n, d, scratch.data());
  return {scratch.data(), d};
}

/// Asks for rows that will be read soon. They lie apart, so the CPU would not guess the next one.
void PrefetchRows(const void* base, int64_t element, int64_t stride, int64_t n, int64_t d,
                  DType dtype) {
  const char* row = static_cast<const char*>(base) + element * ElementBytes(dtype);
  const int64_t row_bytes = d * ElementBytes(dtype);
  for (int64_t r = 0; r < n; ++r, row += stride * ElementBytes(dtype)) {
    for (int64_t byte = 0; byte < row_bytes; byte += 64) __builtin_prefetch(row + byte);
  }
}

/// Queries of one group, multiplied by scale: `to` is [rows][d].
void CopyScaled(const float* from, int64_t n, float scale, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] * scale;
}

/// One tile of query rows of one KV head: `m` = query tokens * group rows.
struct Tile {
  int64_t first = 0;  ///< first query token
  int64_t tokens = 0;
  int64_t m = 0;
  int64_t keys = 0;  ///< keys that any of its rows sees
};

class DenseHead {
 public:
  explicit DenseHead(const DenseAttentionArgs& args)
      : args_(args),
        d_(args.head_dim),
        group_(args.n_q / args.n_kv),
        tile_tokens_(std::clamp<int64_t>(kRows / group_, 1, args.t)),
        running_(tile_tokens_ * group_, d_),
        q_(tile_tokens_ * group_ * d_),
        scores_(tile_tokens_ * group_ * kKeys),
        k_scratch_(args.dtype == DType::kF32 ? 0 : kKeys * d_),
        v_scratch_(k_scratch_.size()) {}

  void Run(int64_t g) {
    for (int64_t first = 0; first < args_.t; first += tile_tokens_) {
      Tile tile{first, std::min(tile_tokens_, args_.t - first), 0, 0};
      tile.m = tile.tokens * group_;
      for (int64_t i = 0; i < tile.tokens; ++i) {
        tile.keys = std::max(tile.keys, LastKey(first + i) + 1);
      }
      LoadQueries(g, tile);
      for (int64_t key = 0; key < tile.keys; key += kKeys) {
        AddKeys(g, tile, key, std::min(kKeys, tile.keys - key));
      }
      StoreOutput(g, tile);
    }
  }

 private:
  static constexpr int64_t kRows = 256;  ///< query rows per tile
  static constexpr int64_t kKeys = 128;  ///< keys per tile: 128 KiB of scores stay in the L2 cache

  int64_t LastKey(int64_t i) const {
    return args_.last_key != nullptr ? args_.last_key[i] : args_.n - args_.t + i;
  }
  int64_t QueryRow(int64_t token, int64_t g) const { return (token * args_.n_q + g * group_) * d_; }

  void LoadQueries(int64_t g, const Tile& tile) {
    for (int64_t i = 0; i < tile.tokens; ++i) {
      CopyScaled(args_.q + QueryRow(tile.first + i, g), group_ * d_, args_.scale,
                 q_.data() + i * group_ * d_);
    }
    running_.Reset(tile.m);
  }

  void AddKeys(int64_t g, const Tile& tile, int64_t key, int64_t n) {
    const int64_t stride = args_.n_kv * d_;
    const int64_t element = key * stride + g * d_;
    const Rows k = AsFloat(args_.k, element, stride, n, d_, args_.dtype, k_scratch_);
    const Rows v = AsFloat(args_.v, element, stride, n, d_, args_.dtype, v_scratch_);
    GemmTransposed({tile.m, n, d_, d_, k.stride, n}, q_.data(), k.data, scores_.data());
    for (int64_t row = 0; row < tile.m; ++row) {
      float* scores = scores_.data() + row * n;
      const int64_t seen = std::clamp<int64_t>(LastKey(tile.first + row / group_) + 1 - key, 0, n);
      if (seen > 0) running_.Weigh(row, scores, seen);
      std::fill(scores + seen, scores + n, 0.0f);
    }
    Gemm({tile.m, d_, n, n, v.stride, d_, true}, scores_.data(), v.data, running_.acc.data());
  }

  void StoreOutput(int64_t g, const Tile& tile) {
    for (int64_t row = 0; row < tile.m; ++row) {
      running_.Finish(row, args_.out + QueryRow(tile.first + row / group_, g) + row % group_ * d_);
    }
  }

  const DenseAttentionArgs& args_;
  const int64_t d_;
  const int64_t group_;
  const int64_t tile_tokens_;
  Running running_;
  std::vector<float> q_;       ///< [tile tokens][group][d], scaled
  std::vector<float> scores_;  ///< [m][keys of the tile]
  std::vector<float> k_scratch_;
  std::vector<float> v_scratch_;
};

}  // namespace

OpStatus PagedAttention(const PagedAttentionArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t d = args.head_dim;
  const int64_t p = args.page_tokens;
  const int64_t group = args.n_q / args.n_kv;
  const int64_t stride = args.n_kv * d;
  Running running(group, d);
  std::vector<float> q(group * d), scores(group * p), k_scratch(p * d), v_scratch(p * d);
  for (int64_t g = 0; g < args.n_kv; ++g) {
    CopyScaled(args.q + g * group * d, group * d, args.scale, q.data());
    running.Reset(group);
    const int32_t* valid = args.valid_tokens + g * args.n_slots;
    for (int64_t s = 0; s < args.n_slots; ++s) {
      const int64_t n = valid[s];
      if (n == 0) continue;
      const int64_t element = args.slots[s] * p * stride + g * d;
      if (s + 1 < args.n_slots) {
        const int64_t next = args.slots[s + 1] * p * stride + g * d;
        const int64_t rows = valid[s + 1];
        PrefetchRows(args.k_pool, next, stride, rows, d, args.dtype);
        PrefetchRows(args.v_pool, next, stride, rows, d, args.dtype);
      }
      const Rows k = AsFloat(args.k_pool, element, stride, n, d, args.dtype, k_scratch);
      const Rows v = AsFloat(args.v_pool, element, stride, n, d, args.dtype, v_scratch);
      simd::Dots(q.data(), group, k.data, k.stride, n, d, scores.data());
      for (int64_t h = 0; h < group; ++h) running.Weigh(h, scores.data() + h * n, n);
      simd::WeightedSum(scores.data(), group, v.data, v.stride, n, d, running.acc.data());
    }
    for (int64_t h = 0; h < group; ++h) {
      const int64_t a = g * group + h;
      running.Finish(h, args.out + a * d);
      if (args.lse != nullptr) args.lse[a] = running.top[h] + std::log(running.sum[h]);
    }
  }
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
