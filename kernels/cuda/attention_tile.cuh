// SPDX-License-Identifier: Apache-2.0
//
// What the attention kernels share: a block holds a few query rows, and takes keys and values tile
// by tile through shared memory, with a running maximum and sum per row. All in f32.
//
// A thread scores one token for some of the rows; a warp turns the scores of a row into weights;
// then a thread sums 8 channels of the values for all rows over its share of the tokens. Rows in
// shared memory are 16 bytes longer than their data, which spreads them over its banks.
#ifndef QUIRE_KERNELS_CUDA_ATTENTION_TILE_CUH_
#define QUIRE_KERNELS_CUDA_ATTENTION_TILE_CUH_

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/reduce.cuh"

namespace quire::kernels::cuda {

inline constexpr int kTileThreads = 128;
inline constexpr int kMaxTileTokens = 64;
inline constexpr int kMinTileTokens = 8;

/// Sizes of a block's shared memory. Filled by PlanTile.
struct TileShape {
  int key_dim, value_dim;
  int key_padded, value_padded;  ///< up to a multiple of 8
  int key_bytes, value_bytes;    ///< between rows in shared memory; value_bytes 0: values are keys
  int tokens;                    ///< of a tile: a power of two
};

/// Where everything is in dynamic shared memory, in bytes. Host and device agree by using this.
struct TileLayout {
  int queries, keys, values, weights, rows, scales, running, bytes;

  __host__ __device__ TileLayout(const TileShape& shape, int heads) {
    queries = 0;
    keys = queries + heads * shape.key_padded * 4;
    values = keys + shape.tokens * shape.key_bytes;
    weights = values + shape.tokens * shape.value_bytes;
    rows = weights + heads * shape.tokens * 4;
    scales = rows + shape.tokens * 8;
    // Finish sums 8 channels of every thread in the place of all this.
    running = scales + shape.tokens * 8;
    if (running < kTileThreads * 8 * 4) running = kTileThreads * 8 * 4;
    bytes = running + heads * 3 * 4;
  }
};

/// The shape with the largest tile that fits beside `static_bytes` of shared memory that the kernel
/// declares itself, or tokens = 0 when none does.
inline TileShape PlanTile(int64_t key_dim, int64_t value_dim, bool own_values, int64_t raw_bytes,
                          int heads, int64_t static_bytes = 0) {
  constexpr int64_t kMaxDim = kTileThreads * 8;  // channels that the threads of a block sum
  TileShape shape{};
  if (key_dim > 4 * kMaxDim || value_dim > kMaxDim) return shape;
  shape.key_dim = static_cast<int>(key_dim);
  shape.value_dim = static_cast<int>(value_dim);
  shape.key_padded = static_cast<int>(RoundUp(key_dim, 8));
  shape.value_padded = static_cast<int>(RoundUp(value_dim, 8));
  // 8 one-byte elements are half a vector; rows stay multiples of 16.
  shape.key_bytes = static_cast<int>(RoundUp(shape.key_padded * raw_bytes, 16) + 16);
  shape.value_bytes =
      own_values ? static_cast<int>(RoundUp(shape.value_padded * raw_bytes, 16) + 16) : 0;
  shape.tokens = kMaxTileTokens;
  while (TileLayout(shape, heads).bytes + static_bytes > kSharedBytes) {
    shape.tokens /= 2;
    if (shape.tokens < kMinTileTokens) return TileShape{};
  }
  return shape;
}

/// The block's view of its shared memory, and the output that a thread sums.
template <typename T, int kHeads>
class AttentionTile {
 public:
  using Raw = typename T::Raw;

  __device__ explicit AttentionTile(const TileShape& shape) : shape_(shape) {
    const TileLayout at(shape, kHeads);
    uint8_t* memory = DynamicShared<uint8_t>();
    queries_ = reinterpret_cast<float*>(memory + at.queries);
    keys_ = memory + at.keys;
    values_ = shape.value_bytes > 0 ? memory + at.values : keys_;
    weights_ = reinterpret_cast<float*>(memory + at.weights);
    rows_ = reinterpret_cast<int64_t*>(memory + at.rows);
    key_scales_ = reinterpret_cast<float*>(memory + at.scales);
    value_scales_ = key_scales_ + shape.tokens;
    tops_ = reinterpret_cast<float*>(memory + at.running);
    sums_ = tops_ + kHeads;
    shrinks_ = sums_ + kHeads;
    lanes_ = shape.value_padded / 8;
    parts_ = kTileThreads / lanes_;
    part_ = static_cast<int>(threadIdx.x) / lanes_;
    channel_ = static_cast<int>(threadIdx.x) % lanes_ * 8;
  }

  __device__ int tokens() const { return shape_.tokens; }

  /// Row `h` is query(h) times scale, or zeros where that is null.
  template <typename Query>
  __device__ void LoadQueries(const Query& query, float scale) {
    for (int i = threadIdx.x; i < kHeads * shape_.key_padded; i += kTileThreads) {
      const int h = i / shape_.key_padded;
      const int c = i % shape_.key_padded;
      const float* row = query(h);
      queries_[i] = row != nullptr && c < shape_.key_dim ? scale * row[c] : 0.0f;
    }
    if (threadIdx.x < kHeads) {
      tops_[threadIdx.x] = -Infinity();
      sums_[threadIdx.x] = 0;
    }
  }

  /// Token t of the tile is row `row` of the arrays (of key_dim and value_dim elements), or none
  /// when negative. Called for every t by some thread, before Attend.
  __device__ void SetToken(int t, int64_t row, float key_scale, float value_scale) {
    rows_[t] = row;
    key_scales_[t] = key_scale;
    value_scales_[t] = value_scale;
  }

  /// Adds the tile. sees(h, t) says whether row h uses token t, which is then not none.
  template <typename Sees>
  __device__ void Attend(const Raw* keys, const Raw* values, const Sees& sees) {
    __syncthreads();
    StageRows(keys, shape_.key_dim, shape_.key_padded, shape_.key_bytes, keys_);
    if (values != nullptr) {
      StageRows(values, shape_.value_dim, shape_.value_padded, shape_.value_bytes, values_);
    }
    AwaitCopies();
    __syncthreads();
    ScoreTokens();
    __syncthreads();
    WeighTokens(sees);
    __syncthreads();
    SumValues();
    __syncthreads();
  }

  /// Writes row h to out(h) unless that is null, and its log-sum-exp to lse(h) likewise. Without
  /// any token: zeros and -infinity.
  template <typename Out, typename Lse>
  __device__ void Finish(const Out& out, const Lse& lse) {
    // Everything before the running sums is free now: [parts][value_padded] of one row at a time.
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
  /// Rows of the tile, filled up with zeros to `padded`; zeros where there is no token.
  __device__ void StageRows(const Raw* from, int dim, int padded, int row_bytes, uint8_t* to) {
    const int bytes = dim * static_cast<int>(sizeof(Raw));
    if (dim == padded && bytes % 16 == 0 && IsAligned(from, 16)) {
      const int vectors = bytes / 16;
      for (int i = threadIdx.x; i < shape_.tokens * vectors; i += kTileThreads) {
        const int t = i / vectors;
        const int at = i % vectors * 16;
        const int64_t row = rows_[t];
        const auto* source = reinterpret_cast<const uint8_t*>(from) + (row < 0 ? 0 : row) * bytes;
        CopyAsync16(to + t * row_bytes + at, source + at, row >= 0);
      }
      return;
    }
    for (int i = threadIdx.x; i < shape_.tokens * padded; i += kTileThreads) {
      const int t = i / padded;
      const int c = i % padded;
      const bool there = rows_[t] >= 0 && c < dim;
      reinterpret_cast<Raw*>(to + t * row_bytes)[c] = there ? from[rows_[t] * dim + c] : Raw{};
    }
  }

  /// Loads 8 elements from a row in shared memory. Rows of bytes are multiples of 8 there.
  __device__ static void Load8(const uint8_t* row, int c, float* to) {
    Widen8<T>(reinterpret_cast<const Raw*>(row) + c, to);
  }

  /// weights_[h][t] = query h . key t. Threads of one token share its rows between them.
  __device__ void ScoreTokens() {
    const int t = static_cast<int>(threadIdx.x) % shape_.tokens;
    const int share = static_cast<int>(threadIdx.x) / shape_.tokens;
    const int shares = kTileThreads / shape_.tokens;
    const uint8_t* key = keys_ + t * shape_.key_bytes;
    float dots[kHeads] = {};
    for (int c = 0; c < shape_.key_padded; c += 8) {
      float k[8];
      Load8(key, c, k);
#pragma unroll
      for (int i = 0; i < kHeads; ++i) {
        const int h = share + i * shares;
        if (h >= kHeads) break;
        float q[8];
        Widen8<F32>(queries_ + h * shape_.key_padded + c, q);
#pragma unroll
        for (int j = 0; j < 8; ++j) dots[i] += q[j] * k[j];
      }
    }
#pragma unroll
    for (int i = 0; i < kHeads; ++i) {
      const int h = share + i * shares;
      if (h < kHeads) weights_[h * shape_.tokens + t] = dots[i] * key_scales_[t];
    }
  }

  /// Scores become weights relative to the running maximum; shrinks_ is what came before must be
  /// multiplied with. A warp takes a row.
  template <typename Sees>
  __device__ void WeighTokens(const Sees& sees) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int h = static_cast<int>(threadIdx.x) / 32; h < kHeads; h += kTileThreads / 32) {
      float* weights = weights_ + h * shape_.tokens;
      const float before = tops_[h];
      float top = before;
      for (int t = lane; t < shape_.tokens; t += 32) {
        if (rows_[t] >= 0 && sees(h, t)) top = fmaxf(top, weights[t]);
      }
      top = WarpReduce(top, Max());
      float sum = 0;
      for (int t = lane; t < shape_.tokens; t += 32) {
        const bool used = rows_[t] >= 0 && sees(h, t);
        const float weight = used ? expf(weights[t] - top) : 0.0f;
        sum += weight;
        weights[t] = used ? weight * value_scales_[t] : 0.0f;
      }
      sum = WarpReduce(sum, Sum());
      if (lane == 0) {
        shrinks_[h] = before == top ? 1.0f : expf(before - top);
        sums_[h] = sums_[h] * shrinks_[h] + sum;
        tops_[h] = top;
      }
    }
  }

  __device__ void SumValues() {
    if (part_ >= parts_) return;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int i = 0; i < 8; ++i) acc_[h][i] *= shrinks_[h];
    }
    const int row_bytes = shape_.value_bytes > 0 ? shape_.value_bytes : shape_.key_bytes;
    for (int t = part_; t < shape_.tokens; t += parts_) {
      float v[8];
      Load8(values_ + t * row_bytes, channel_, v);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float weight = weights_[h * shape_.tokens + t];
#pragma unroll
        for (int i = 0; i < 8; ++i) acc_[h][i] += weight * v[i];
      }
    }
  }

  const TileShape& shape_;
  float* queries_;  ///< [kHeads][key_padded]
  uint8_t* keys_;
  uint8_t* values_;
  float* weights_;  ///< [kHeads][tokens]
  int64_t* rows_;   ///< [tokens]
  float* key_scales_;
  float* value_scales_;
  float* tops_;
  float* sums_;
  float* shrinks_;
  int lanes_, parts_, part_, channel_;
  float acc_[kHeads][8] = {};
};

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_ATTENTION_TILE_CUH_
