// SPDX-License-Identifier: Apache-2.0
//
// The common part of the attention kernels. A block holds a few query rows. It moves keys and
// values through shared memory tile by tile, with a running maximum and sum per row. Everything is
// f32.
//
// A thread scores one token for some of the rows. A warp turns the scores of a row into weights.
// Then a thread sums 8 channels of the values for all rows over its share of the tokens. Rows in
// shared memory are 16 bytes longer than their data, which spreads them over its banks.
//
// There is room for two tiles of rows. One is in flight while the other is used: the next keys
// while values are summed, the next values while keys are scored. Where values are keys, the next
// tile is in flight while this one serves both. The rows of a tile are known one tile before.
#ifndef QUIRE_KERNELS_CUDA_ATTENTION_TILE_CUH_
#define QUIRE_KERNELS_CUDA_ATTENTION_TILE_CUH_

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda {

inline constexpr int kTileThreads = 128;
inline constexpr int kMaxTileTokens = 64;
inline constexpr int kMinTileTokens = 8;
/// Most dynamic shared memory of a block: three blocks fit a multiprocessor of 228 KiB.
inline constexpr int kMaxTileBytes = 74 * 1024;

/// Sizes of a block's shared memory. Filled by PlanTile.
struct TileShape {
  int key_dim, value_dim;
  int key_padded, value_padded;  ///< Rounded up to a multiple of 8.
  int row_bytes;                 ///< Distance between rows in shared memory.
  int tokens;                    ///< Tokens of a tile: a power of two.
  float soft_cap;                ///< Cap c > 0: scores s become c * tanh(s / c).
};

/// Byte offsets in dynamic shared memory, used by host and device.
struct TileLayout {
  int queries, tiles, weights, rows, scales, running, bytes;

  __host__ __device__ TileLayout(const TileShape& shape, int heads) {
    queries = 0;
    tiles = queries + heads * shape.key_padded * 4;
    weights = tiles + 2 * shape.tokens * shape.row_bytes;
    rows = weights + heads * shape.tokens * 4;
    scales = rows + 2 * shape.tokens * 8;
    // Finish sums 8 channels of every thread in the same memory.
    running = scales + 2 * shape.tokens * 4;
    if (running < kTileThreads * 8 * 4) running = kTileThreads * 8 * 4;
    bytes = running + heads * 3 * 4;
  }
};

/// The shape with the largest tile that fits kMaxTileBytes, or tokens = 0 if none does. Values are
/// separate rows as long as keys, or the first channels of the keys.
inline TileShape PlanTile(int64_t key_dim, int64_t value_dim, int64_t raw_bytes, int heads) {
  constexpr int64_t kMaxDim = kTileThreads * 8;  // Channels that the threads of a block sum.
  TileShape shape{};
  if (key_dim > 4 * kMaxDim || value_dim > kMaxDim) return shape;
  shape.key_dim = static_cast<int>(key_dim);
  shape.value_dim = static_cast<int>(value_dim);
  shape.key_padded = static_cast<int>(RoundUp(key_dim, 8));
  shape.value_padded = static_cast<int>(RoundUp(value_dim, 8));
  // 8 one-byte elements are half a vector, so this keeps rows multiples of 16.
  shape.row_bytes = static_cast<int>(RoundUp(shape.key_padded * raw_bytes, 16) + 16);
  shape.tokens = kMaxTileTokens;
  while (TileLayout(shape, heads).bytes > kMaxTileBytes) {
    shape.tokens /= 2;
    if (shape.tokens < kMinTileTokens) return TileShape{};
  }
  return shape;
}

/// Factors of the key and the value of a token.
struct TokenScales {
  float key, value;
};

/// A block's view of its shared memory, and the output that a thread sums.
template <typename T, int kHeads>
class AttentionTile {
 public:
  using Raw = typename T::Raw;

  __device__ explicit AttentionTile(const TileShape& shape) : shape_(shape) {
    const TileLayout at(shape, kHeads);
    uint8_t* memory = DynamicShared<uint8_t>();
    queries_ = reinterpret_cast<float*>(memory + at.queries);
    tiles_ = memory + at.tiles;
    weights_ = reinterpret_cast<float*>(memory + at.weights);
    rows_ = reinterpret_cast<int64_t*>(memory + at.rows);
    key_scales_ = reinterpret_cast<float*>(memory + at.scales);
    value_scales_ = key_scales_ + shape.tokens;
    tops_ = reinterpret_cast<float*>(memory + at.running);
    sums_ = tops_ + kHeads;
    shrinks_ = sums_ + kHeads;
    const int thread = static_cast<int>(threadIdx.x);
    token_ = thread % shape.tokens;
    share_ = thread / shape.tokens;
    shares_ = kTileThreads / shape.tokens;
    const int lanes = shape.value_padded / 8;
    parts_ = kTileThreads / lanes;
    part_ = thread / lanes;
    channel_ = thread % lanes * 8;
    // Threads copy 16 bytes each: several rows at once, or a part of one row.
    const int vectors = RowVectors();
    copied_rows_ = vectors < kTileThreads ? kTileThreads / vectors : 1;
    first_row_ = thread / vectors < copied_rows_ ? thread / vectors : shape.tokens;
    first_vector_ = thread % vectors;
  }

  __device__ int tokens() const { return shape_.tokens; }

  /// Row `h` is query(h) times scale, or zeros if query(h) is null.
  template <typename Query>
  __device__ void LoadQueries(const Query& query, float scale) {
#pragma unroll 1
    for (int h = 0; h < kHeads; ++h) {
      const float* row = query(h);
      for (int c = threadIdx.x; c < shape_.key_padded; c += kTileThreads) {
        const bool there = row != nullptr && c < shape_.key_dim;
        queries_[h * shape_.key_padded + c] = there ? scale * row[c] : 0.0f;
      }
    }
    if (threadIdx.x < kHeads) {
      tops_[threadIdx.x] = -Infinity();
      sums_[threadIdx.x] = 0;
    }
  }

  /// Adds `n` tiles. `values` is null if they are the first channels of the keys. The `list` of
  /// thread t describes token t of every tile:
  ///   Fetch()   starts to load the place of the next tile's token, first that of the first tile;
  ///   Row()     its row of the arrays, or negative for none;
  ///   FetchScales() and Scales()   the factors of its key and value.
  /// sees(h, i) returns true if row h uses token i, counted over all tiles; such a token has a row.
  template <typename List, typename Sees>
  __device__ void Attend(const Raw* keys, const Raw* values, int n, List list, const Sees& sees) {
    if (n <= 0) return;
    const int t = static_cast<int>(threadIdx.x);
    const bool listed = t < shape_.tokens;
    const bool own_values = values != nullptr;
    const int tile_bytes = shape_.tokens * shape_.row_bytes;
    if (listed) {
      list.Fetch();
      rows_[t] = list.Row();
      list.FetchScales();
      if (n > 1) list.Fetch();
    }
    __syncthreads();
    CopyRows(keys, rows_, tiles_);
    CommitCopies();
    if (own_values) CopyRows(values, rows_, tiles_ + tile_bytes);
    CommitCopies();
    for (int i = 0; i < n; ++i) {
      const bool more = i + 1 < n;
      const int64_t* rows = rows_ + i % 2 * shape_.tokens;
      int64_t* next_rows = rows_ + (i + 1) % 2 * shape_.tokens;
      const uint8_t* key_tile = own_values ? tiles_ : tiles_ + i % 2 * tile_bytes;
      const uint8_t* value_tile = own_values ? tiles_ + tile_bytes : key_tile;
      if (listed) {
        const TokenScales scales = list.Scales();
        key_scales_[t] = scales.key;
        value_scales_[t] = scales.value;
        if (more) {
          next_rows[t] = list.Row();
          list.FetchScales();
          if (i + 2 < n) list.Fetch();
        }
      }
      AwaitCopiesBut<1>();  // The keys, requested before the values.
      __syncthreads();
      if (!own_values) {
        if (more) CopyRows(keys, next_rows, tiles_ + (i + 1) % 2 * tile_bytes);
        CommitCopies();
      }
      ScoreTokens(key_tile);
      __syncthreads();
      if (own_values) {
        if (more) CopyRows(keys, next_rows, tiles_);
        CommitCopies();
      }
      WeighTokens(rows, [&](int h, int token) { return sees(h, i * shape_.tokens + token); });
      AwaitCopiesBut<1>();  // The values, unless they are keys.
      __syncthreads();
      SumValues(value_tile);
      __syncthreads();
      if (own_values && more) CopyRows(values, next_rows, tiles_ + tile_bytes);
      CommitCopies();
    }
    AwaitCopiesBut<0>();
  }

  /// Writes row h to out(h) unless that is null, and its log-sum-exp to lse(h) likewise. Without
  /// any token the row is zero, and its log-sum-exp -infinity.
  template <typename Out, typename Lse>
  __device__ void Finish(const Out& out, const Lse& lse) {
    // Reuses everything before the running sums: [parts][value_padded] of one row at a time.
    float* shares = queries_;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      __syncthreads();
      if (part_ < parts_) {
#pragma unroll
        for (int i = 0; i < 8; ++i) shares[part_ * shape_.value_padded + channel_ + i] = acc_[h][i];
      }
      __syncthreads();
      float* row = out(h);
      for (int c = threadIdx.x; row != nullptr && c < shape_.value_dim; c += kTileThreads) {
        float sum = 0;
        for (int part = 0; part < parts_; ++part) sum += shares[part * shape_.value_padded + c];
        row[c] = sums_[h] == 0 ? 0.0f : sum / sums_[h];
      }
      float* log_sum = lse(h);
      if (threadIdx.x == 0 && log_sum != nullptr) {
        *log_sum = sums_[h] == 0 ? -Infinity() : tops_[h] + logf(sums_[h]);
      }
    }
  }

 private:
  /// Steps of a loop done together, as registers permit.
  static constexpr int kUnrolled = kHeads > 2 ? 1 : 2;

  /// 16-byte vectors of a row of the arrays, rounded up.
  __device__ int RowVectors() const {
    return (shape_.key_dim * static_cast<int>(sizeof(Raw)) + 15) / 16;
  }

  /// Starts to copy the rows of a tile, padded with zeros; zeros if there is no token.
  __device__ void CopyRows(const Raw* from, const int64_t* rows, uint8_t* to) {
    const int bytes = shape_.key_dim * static_cast<int>(sizeof(Raw));
    if (shape_.key_dim == shape_.key_padded && bytes % 16 == 0 && IsAligned(from, 16)) {
      const auto* source = reinterpret_cast<const uint8_t*>(from);
      for (int t = first_row_; t < shape_.tokens; t += copied_rows_) {
        const int64_t row = rows[t];
        const uint8_t* row_source = source + (row < 0 ? 0 : row) * bytes;
        for (int at = first_vector_ * 16; at < bytes; at += kTileThreads * 16) {
          CopyAsync16(to + t * shape_.row_bytes + at, row_source + at, row >= 0);
        }
      }
      return;
    }
    for (int t = static_cast<int>(threadIdx.x) / 32; t < shape_.tokens; t += kTileThreads / 32) {
      const int64_t row = rows[t];
      auto* row_to = reinterpret_cast<Raw*>(to + t * shape_.row_bytes);
      for (int c = static_cast<int>(threadIdx.x) % 32; c < shape_.key_padded; c += 32) {
        row_to[c] = row >= 0 && c < shape_.key_dim ? from[row * shape_.key_dim + c] : Raw{};
      }
    }
  }

  /// Loads 8 elements from a row in shared memory. Rows of bytes are multiples of 8 there.
  __device__ static void Load8(const uint8_t* row, int c, float* to) {
    Widen8<T>(reinterpret_cast<const Raw*>(row) + c, to);
  }

  /// weights_[t][h] = query h . key t. The threads of one token share its rows: each takes every
  /// shares_-th.
  __device__ void ScoreTokens(const uint8_t* keys) {
    if constexpr (kHeads >= 8) {
      if (4 * shares_ == kHeads) return ScoreRows<4>(keys);
    }
    if constexpr (kHeads >= 4) {
      if (2 * shares_ == kHeads) return ScoreRows<2>(keys);
    }
    if (share_ < kHeads) ScoreRows<1>(keys);
  }
  template <int kEach>
  __device__ void ScoreRows(const uint8_t* keys) {
    const uint8_t* key = keys + token_ * shape_.row_bytes;
    const float* queries = queries_ + share_ * shape_.key_padded;
    const int step = shares_ * shape_.key_padded;
    float dots[kEach] = {};
#pragma unroll kUnrolled
    for (int c = 0; c < shape_.key_padded; c += 8) {
      float k[8];
      Load8(key, c, k);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        float q[8];
        Widen8<F32>(queries + i * step + c, q);
#pragma unroll
        for (int j = 0; j < 8; ++j) dots[i] += q[j] * k[j];
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float score = dots[i] * key_scales_[token_];
      const float cap = shape_.soft_cap;
      weights_[token_ * kHeads + share_ + i * shares_] = cap > 0 ? cap * tanhf(score / cap) : score;
    }
  }

  /// Turns scores into weights relative to the running maximum. shrinks_ is the factor for earlier
  /// sums. A warp handles a row.
  template <typename Sees>
  __device__ void WeighTokens(const int64_t* rows, const Sees& sees) {
    constexpr int kEach = kMaxTileTokens / 32;  // Tokens of a lane.
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int h = static_cast<int>(threadIdx.x) / 32; h < kHeads; h += kTileThreads / 32) {
      const float before = tops_[h];
      float top = before;
      float scores[kEach];
      bool used[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int t = lane + i * 32;
        used[i] = t < shape_.tokens && rows[t] >= 0 && sees(h, t);
        scores[i] = used[i] ? weights_[t * kHeads + h] : -Infinity();
        top = fmaxf(top, scores[i]);
      }
      top = WarpReduce(top, Max());
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int t = lane + i * 32;
        const float weight = used[i] ? expf(scores[i] - top) : 0.0f;
        sum += weight;
        if (t < shape_.tokens)
          weights_[t * kHeads + h] = used[i] ? weight * value_scales_[t] : 0.0f;
      }
      sum = WarpReduce(sum, Sum());
      if (lane == 0) {
        shrinks_[h] = before == top ? 1.0f : expf(before - top);
        sums_[h] = sums_[h] * shrinks_[h] + sum;
        tops_[h] = top;
      }
    }
  }

  __device__ void SumValues(const uint8_t* values) {
    if (part_ >= parts_) return;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int i = 0; i < 8; ++i) acc_[h][i] *= shrinks_[h];
    }
#pragma unroll kUnrolled
    for (int t = part_; t < shape_.tokens; t += parts_) {
      float v[8];
      Load8(values + t * shape_.row_bytes, channel_, v);
      constexpr int kTogether = kHeads < 4 ? kHeads : 4;
#pragma unroll
      for (int first = 0; first < kHeads; first += kTogether) {
        const auto weights = LoadAligned<Chunk<float, kTogether>>(weights_ + t * kHeads + first);
#pragma unroll
        for (int h = 0; h < kTogether; ++h) {
#pragma unroll
          for (int i = 0; i < 8; ++i) acc_[first + h][i] += weights.at[h] * v[i];
        }
      }
    }
  }

  const TileShape& shape_;
  float* queries_;  ///< [kHeads][key_padded]
  uint8_t* tiles_;  ///< [2][tokens][row_bytes]
  float* weights_;  ///< [tokens][kHeads]
  int64_t* rows_;   ///< [2][tokens]: of alternate tiles.
  float* key_scales_;
  float* value_scales_;
  float* tops_;
  float* sums_;
  float* shrinks_;
  int token_, share_, shares_;                  ///< Used by ScoreTokens.
  int parts_, part_, channel_;                  ///< Used by SumValues.
  int copied_rows_, first_row_, first_vector_;  ///< Used by CopyRows.
  float acc_[kHeads][8] = {};
};

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_ATTENTION_TILE_CUH_
