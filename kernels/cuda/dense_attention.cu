// SPDX-License-Identifier: Apache-2.0
//
// Prefill attention. Block (tile of query rows, KV head): a query row is one token and one query
// head of the group, and sees the keys up to its own last one.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/ops.h"

namespace quire::kernels::cuda {
namespace {

constexpr int kRows = 8;
constexpr int64_t kStaticBytes = kRows * sizeof(int64_t);  ///< of shared memory beside the tile

struct Shape {
  TileShape tile;
  const float* q;
  const void* k;
  const void* v;
  const int32_t* last_key;
  float* out;
  int64_t t, n, n_q, n_kv, group;
  float scale;
};

/// Last key of a query token, -1 where a listed one is out of range.
__device__ inline int64_t LastKey(const Shape& shape, int64_t token) {
  if (shape.last_key == nullptr) return shape.n - shape.t + token;
  const int64_t last = shape.last_key[token];
  return last < shape.n ? last : -1;
}

template <typename T>
__global__ void __launch_bounds__(kTileThreads) DenseKernel(Shape shape) {
  using Raw = typename T::Raw;
  __shared__ int64_t last_keys[kRows];  // kStaticBytes
  const int64_t g = blockIdx.y;
  const int64_t first_row = int64_t{blockIdx.x} * kRows;
  const int64_t rows = shape.t * shape.group;
  if (threadIdx.x < kRows) {
    const int64_t row = first_row + threadIdx.x;
    last_keys[threadIdx.x] = row < rows ? LastKey(shape, row / shape.group) : int64_t{-1};
  }
  __syncthreads();
  int64_t end = 0;
  for (int h = 0; h < kRows; ++h) end = last_keys[h] + 1 > end ? last_keys[h] + 1 : end;

  // Element of query row h in q and out.
  const auto element = [&](int h) {
    const int64_t row = first_row + h;
    const int64_t head = g * shape.group + row % shape.group;
    return (row / shape.group * shape.n_q + head) * shape.tile.key_dim;
  };
  AttentionTile<T, kRows> tile(shape.tile);
  tile.LoadQueries([&](int h) { return first_row + h < rows ? shape.q + element(h) : nullptr; },
                   shape.scale);
  for (int64_t first = 0; first < end; first += tile.tokens()) {
    const int t = static_cast<int>(threadIdx.x);
    if (t < tile.tokens()) {
      const int64_t key = first + t;
      tile.SetToken(t, key < end ? key * shape.n_kv + g : int64_t{-1}, 1.0f, 1.0f);
    }
    tile.Attend(static_cast<const Raw*>(shape.k), static_cast<const Raw*>(shape.v),
                [&](int h, int token) { return first + token <= last_keys[h]; });
  }
  tile.Finish([&](int h) { return first_row + h < rows ? shape.out + element(h) : nullptr; },
              [](int) { return static_cast<float*>(nullptr); });
}

}  // namespace

OpStatus DenseAttention(const DenseAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.t == 0) return OpStatus::kOk;
  Shape shape{};
  shape.q = args.q;
  shape.k = args.k;
  shape.v = args.v;
  shape.last_key = args.last_key;
  shape.out = args.out;
  shape.t = args.t;
  shape.n = args.n;
  shape.n_q = args.n_q;
  shape.n_kv = args.n_kv;
  shape.group = args.n_q / args.n_kv;
  shape.scale = args.scale;
  shape.tile =
      PlanTile(args.head_dim, args.head_dim, true, ElementBytes(args.dtype), kRows, kStaticBytes);
  const int64_t row_tiles = DivideUp(args.t * shape.group, kRows);
  if (shape.tile.tokens == 0 || args.n_kv > kMaxGridYZ || row_tiles > kMaxGridX) {
    return OpStatus::kUnsupported;
  }
  return WithFormat(args.dtype, [&](auto format) {
    using T = decltype(format);
    return Launch(DenseKernel<T>, Grid(row_tiles, args.n_kv), Grid(kTileThreads),
                  static_cast<size_t>(TileLayout(shape.tile, kRows).bytes), args.stream, shape);
  });
}

}  // namespace quire::kernels::cuda
