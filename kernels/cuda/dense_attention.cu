// SPDX-License-Identifier: Apache-2.0
//
// Prefill attention, and that of single tokens over many keys. A block (tile of query rows, KV
// head, split) handles a stretch of the keys. A query row is one token and one query head of the
// group, and sees the keys up to its own last one. With more than one split the results go to the
// workspace. merge_attention then merges them on the same stream.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/split_plan.h"

namespace quire::kernels::cuda {
namespace {

/// Most keys, and most query rows of a KV head: they are counted in 32 bits.
constexpr int64_t kMaxKeys = int64_t{1} << 30;

struct Shape {
  TileShape tile;
  const float* q;
  const void* k;
  const void* v;  ///< Null: values are the first channels of k.
  const int32_t* last_key;
  float* out;  ///< [splits][t * n_q][channels of a value]
  float* lse;  ///< [splits][t * n_q] or null
  int64_t t, n, n_q, n_kv;
  int64_t window;  ///< Keys that a row sees; 0: all up to its last one.
  int group, keys_per_split;
  float scale;
};

/// Last key of a query token; -1 if a listed one is out of range.
__device__ inline int64_t LastKey(const Shape& shape, int64_t token) {
  if (shape.last_key == nullptr) return shape.n - shape.t + token;
  const int64_t last = shape.last_key[token];
  return last < shape.n ? last : -1;
}

/// First key of a query token whose last one is `last`.
__device__ inline int64_t FirstKey(const Shape& shape, int64_t last) {
  return shape.window == 0 || last < shape.window ? 0 : last + 1 - shape.window;
}

/// Location of this thread's key in each tile, for KV head blockIdx.y.
class KeyList {
 public:
  __device__ KeyList(const Shape& shape, int first, int end)
      : shape_(shape), at_(first + static_cast<int>(threadIdx.x)), end_(end) {}
  __device__ void Fetch() {
    key_ = at_;
    at_ += shape_.tile.tokens;
  }
  __device__ int64_t Row() const { return key_ < end_ ? key_ * shape_.n_kv + blockIdx.y : -1; }
  __device__ void FetchScales() {}
  __device__ TokenScales Scales() const { return {1, 1}; }

 private:
  const Shape& shape_;
  int at_;
  const int end_;
  int key_ = 0;
};

template <typename T, int kRows>
__global__ void __launch_bounds__(kTileThreads, kRows > 4 ? 4 : 5) DenseKernel(Shape shape) {
  using Raw = typename T::Raw;
  __shared__ int last_keys[kRows];
  __shared__ int first_keys[kRows];
  const int64_t g = blockIdx.y;
  const auto first_row = static_cast<int>(blockIdx.x * kRows);
  const int rows = static_cast<int>(shape.t) * shape.group;
  if (threadIdx.x < kRows) {
    const int row = first_row + static_cast<int>(threadIdx.x);
    const int64_t last = row < rows ? LastKey(shape, row / shape.group) : -1;
    last_keys[threadIdx.x] = static_cast<int>(last);
    first_keys[threadIdx.x] = static_cast<int>(FirstKey(shape, last));
  }
  __syncthreads();
  // Keys of this split that some row sees: from .. from + keys - 1.
  const int split = static_cast<int>(blockIdx.z) * shape.keys_per_split;
  int from = split + shape.keys_per_split;
  int end = split;
  for (int h = 0; h < kRows; ++h) {
    if (last_keys[h] < 0) continue;
    from = first_keys[h] < from ? first_keys[h] : from;
    end = last_keys[h] + 1 > end ? last_keys[h] + 1 : end;
  }
  if (from < split) from = split;
  if (end > split + shape.keys_per_split) end = split + shape.keys_per_split;
  const int keys = end > from ? end - from : 0;

  // Query row h among those of all tokens.
  const auto row_of = [&](int h) {
    const int row = first_row + h;
    return row / shape.group * shape.n_q + g * shape.group + row % shape.group;
  };
  AttentionTile<T, kRows> tile(shape.tile);
  tile.LoadQueries(
      [&](int h) {
        return first_row + h < rows ? shape.q + row_of(h) * shape.tile.key_dim : nullptr;
      },
      shape.scale);
  tile.Attend(static_cast<const Raw*>(shape.k), static_cast<const Raw*>(shape.v),
              (keys + tile.tokens() - 1) / tile.tokens(), KeyList(shape, from, from + keys),
              [&](int h, int i) { return from + i >= first_keys[h] && from + i <= last_keys[h]; });
  const int64_t part = blockIdx.z * shape.t * shape.n_q;
  tile.Finish(
      [&](int h) {
        return first_row + h < rows ? shape.out + (part + row_of(h)) * shape.tile.value_dim
                                    : nullptr;
      },
      [&](int h) {
        return first_row + h < rows && shape.lse != nullptr ? shape.lse + part + row_of(h)
                                                            : nullptr;
      });
}

template <typename T, int kRows>
OpStatus LaunchDense(const DenseAttentionArgs& args, Shape shape) {
  shape.tile =
      PlanTile(args.head_dim, ValueDim(args), static_cast<int64_t>(sizeof(typename T::Raw)), kRows);
  const int64_t row_tiles = DivideUp(args.t * shape.group, kRows);
  if (shape.tile.tokens == 0 || args.n_kv > kMaxGridYZ || row_tiles > kMaxGridX ||
      args.n > kMaxKeys || args.t > kMaxKeys / shape.group) {
    return OpStatus::kUnsupported;
  }
  shape.tile.soft_cap = args.soft_cap;
  const auto bytes = static_cast<size_t>(TileLayout(shape.tile, kRows).bytes);
  const auto kernel = DenseKernel<T, kRows>;
  if (const OpStatus status = AskForShared(kernel, kMaxTileBytes); status != OpStatus::kOk) {
    return status;
  }
  const int64_t rows = args.t * args.n_q;
  const SplitPlan plan = PlanSplits(
      {.n_slots = DivideUp(args.n, shape.tile.tokens),
       .page_tokens = shape.tile.tokens,
       .tile_tokens = shape.tile.tokens,
       .blocks_per_split = row_tiles * args.n_kv,
       .resident_blocks = Multiprocessors() * BlocksPerMultiprocessor(kernel, kTileThreads, bytes),
       .split_bytes = AttentionSplitBytes(rows, ValueDim(args)),
       .workspace_bytes = args.workspace != nullptr ? args.workspace_bytes : 0});
  shape.keys_per_split = static_cast<int>(plan.slots_per_split) * shape.tile.tokens;
  if (plan.splits > kMaxGridYZ) return OpStatus::kUnsupported;
  if (plan.splits > 1) {
    shape.out = static_cast<float*>(args.workspace);
    shape.lse = shape.out + plan.splits * rows * ValueDim(args);
  }
  const OpStatus status = Launch(kernel, Grid(row_tiles, args.n_kv, plan.splits),
                                 Grid(kTileThreads), bytes, args.stream, shape);
  if (status != OpStatus::kOk || plan.splits == 1) return status;
  return MergeAttention({.parts = shape.out,
                         .part_lse = shape.lse,
                         .out = args.out,
                         .n_parts = plan.splits,
                         .rows = rows,
                         .dim = ValueDim(args),
                         .stream = args.stream});
}

}  // namespace

OpStatus DenseAttention(const DenseAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.t == 0) return OpStatus::kOk;
  if (args.n_q > kMaxKeys) return OpStatus::kUnsupported;
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
  shape.group = static_cast<int>(args.n_q / args.n_kv);
  shape.scale = args.scale;
  shape.window = args.window;
  const int64_t rows = args.t * shape.group;
  return WithFormat(args.dtype, [&](auto format) {
    using T = decltype(format);
    if (rows == 1) return LaunchDense<T, 1>(args, shape);
    if (rows == 2) return LaunchDense<T, 2>(args, shape);
    if (rows <= 4) return LaunchDense<T, 4>(args, shape);
    return LaunchDense<T, 8>(args, shape);
  });
}

}  // namespace quire::kernels::cuda
