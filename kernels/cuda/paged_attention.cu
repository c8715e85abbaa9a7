// SPDX-License-Identifier: Apache-2.0
//
// Decode attention over paged keys and values, or over latents. Block (split, KV head and its query
// rows, sequence) takes a stretch of the slots; with more than one split the results go to the
// workspace, and merge_attention puts them together on the same stream.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/split_plan.h"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kBlocksPerProcessor = 6;

struct Shape {
  TileShape tile;
  const float* q;
  const void* k;
  const void* v;  ///< null: values are the first channels of the keys
  const float* k_scales;
  const float* v_scales;
  const int32_t* slots;
  const int32_t* valid;
  float* out;  ///< [splits][batch * n_q][value_dim]
  float* lse;  ///< [splits][batch * n_q] or null
  int64_t batch, num_slots, n_slots, slots_per_split, p, n_q, n_kv, group, head_tiles;
  float scale;
};

/// Sets the tile's tokens from the flat index `first` on: row r of slot s is s * p + r.
template <typename Tile>
__device__ void ListTokens(const Shape& shape, Tile* tile, int64_t first, int64_t end, int64_t g) {
  const int t = static_cast<int>(threadIdx.x);
  if (t >= tile->tokens()) return;
  const int64_t s = (first + t) / shape.p;
  const int64_t r = (first + t) % shape.p;
  int64_t row = -1;
  float k_scale = 1;
  float v_scale = 1;
  if (first + t < end) {
    const int64_t slot = shape.slots[blockIdx.z * shape.n_slots + s];
    const int64_t valid = shape.valid[(blockIdx.z * shape.n_kv + g) * shape.n_slots + s];
    if (slot >= 0 && slot < shape.num_slots && r < valid) {
      row = (slot * shape.p + r) * shape.n_kv + g;
      if (shape.k_scales != nullptr) k_scale = shape.k_scales[slot * shape.n_kv + g];
      if (shape.v_scales != nullptr) v_scale = shape.v_scales[slot * shape.n_kv + g];
    }
  }
  tile->SetToken(t, row, k_scale, v_scale);
}

template <typename T, int kHeads>
__global__ void __launch_bounds__(kTileThreads) PagedKernel(Shape shape) {
  using Raw = typename T::Raw;
  const int64_t g = blockIdx.y / shape.head_tiles;
  const int64_t first_head = blockIdx.y % shape.head_tiles * kHeads;
  const int64_t first_row = blockIdx.z * shape.n_q + g * shape.group + first_head;
  const int64_t heads = shape.group - first_head;  // at least 1, maybe more than kHeads
  AttentionTile<T, kHeads> tile(shape.tile);
  tile.LoadQueries(
      [&](int h) { return h < heads ? shape.q + (first_row + h) * shape.tile.key_dim : nullptr; },
      shape.scale);
  const int64_t from = blockIdx.x * shape.slots_per_split;
  const int64_t to = from + shape.slots_per_split;
  const int64_t end = (to < shape.n_slots ? to : shape.n_slots) * shape.p;
  for (int64_t first = from * shape.p; first < end; first += tile.tokens()) {
    ListTokens(shape, &tile, first, end, g);
    tile.Attend(static_cast<const Raw*>(shape.k), static_cast<const Raw*>(shape.v),
                [](int, int) { return true; });
  }
  const int64_t part = blockIdx.x * shape.batch * shape.n_q + first_row;
  tile.Finish(
      [&](int h) { return h < heads ? shape.out + (part + h) * shape.tile.value_dim : nullptr; },
      [&](int h) { return h < heads && shape.lse != nullptr ? shape.lse + part + h : nullptr; });
}

struct Workspace {
  void* data;
  int64_t bytes;
};

template <typename T, int kHeads>
OpStatus LaunchPaged(Shape shape, const Workspace& workspace, void* stream) {
  const int64_t value_dim = shape.tile.value_dim;
  shape.tile = PlanTile(shape.tile.key_dim, value_dim, shape.v != nullptr,
                        static_cast<int64_t>(sizeof(typename T::Raw)), kHeads);
  shape.head_tiles = DivideUp(shape.group, kHeads);
  const int64_t rows = shape.batch * shape.n_q;
  const int64_t heads = shape.n_kv * shape.head_tiles;
  if (shape.tile.tokens == 0 || heads > kMaxGridYZ || shape.batch > kMaxGridYZ) {
    return OpStatus::kUnsupported;
  }
  const SplitPlan plan =
      PlanSplits({.n_slots = shape.n_slots,
                  .page_tokens = shape.p,
                  .tile_tokens = shape.tile.tokens,
                  .blocks_per_split = heads * shape.batch,
                  .wanted_blocks = Multiprocessors() * kBlocksPerProcessor,
                  .split_bytes = AttentionSplitBytes(rows, value_dim),
                  .workspace_bytes = workspace.data != nullptr ? workspace.bytes : 0});
  shape.slots_per_split = plan.slots_per_split;
  float* const out = shape.out;
  float* const lse = shape.lse;
  if (plan.splits > 1) {
    shape.out = static_cast<float*>(workspace.data);
    shape.lse = shape.out + plan.splits * rows * value_dim;
  }
  const OpStatus status =
      Launch(PagedKernel<T, kHeads>, Grid(plan.splits, heads, shape.batch), Grid(kTileThreads),
             static_cast<size_t>(TileLayout(shape.tile, kHeads).bytes), stream, shape);
  if (status != OpStatus::kOk || plan.splits == 1) return status;
  return MergeAttention({.parts = shape.out,
                         .part_lse = shape.lse,
                         .out = out,
                         .lse = lse,
                         .n_parts = plan.splits,
                         .rows = rows,
                         .dim = value_dim,
                         .stream = stream});
}

OpStatus Attend(const Shape& shape, DType dtype, bool fp8, const Workspace& workspace,
                void* stream) {
  return WithFormat(dtype, fp8, [&](auto format) {
    using T = decltype(format);
    if (shape.group == 1) return LaunchPaged<T, 1>(shape, workspace, stream);
    if (shape.group == 2) return LaunchPaged<T, 2>(shape, workspace, stream);
    if (shape.group <= 4) return LaunchPaged<T, 4>(shape, workspace, stream);
    return LaunchPaged<T, 8>(shape, workspace, stream);
  });
}

}  // namespace

OpStatus PagedAttention(const PagedAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  Shape shape{};
  shape.tile.key_dim = shape.tile.value_dim = static_cast<int>(args.head_dim);
  shape.q = args.q;
  shape.k = args.k_pool;
  shape.v = args.v_pool;
  shape.k_scales = args.fp8_pools ? args.k_scales : nullptr;
  shape.v_scales = args.fp8_pools ? args.v_scales : nullptr;
  shape.slots = args.slots;
  shape.valid = args.valid_tokens;
  shape.out = args.out;
  shape.lse = args.lse;
  shape.batch = args.batch;
  shape.num_slots = args.num_slots;
  shape.n_slots = args.n_slots;
  shape.p = args.page_tokens;
  shape.n_q = args.n_q;
  shape.n_kv = args.n_kv;
  shape.group = args.n_q / args.n_kv;
  shape.scale = args.scale;
  return Attend(shape, args.dtype, args.fp8_pools, {args.workspace, args.workspace_bytes},
                args.stream);
}

OpStatus MlaAttention(const MlaAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  Shape shape{};
  shape.tile.key_dim = static_cast<int>(args.latent_dim + args.rope_dim);
  shape.tile.value_dim = static_cast<int>(args.latent_dim);
  shape.q = args.q;
  shape.k = args.pool;
  shape.k_scales = shape.v_scales = args.fp8_pool ? args.scales : nullptr;
  shape.slots = args.slots;
  shape.valid = args.valid_tokens;
  shape.out = args.out;
  shape.lse = args.lse;
  shape.batch = args.batch;
  shape.num_slots = args.num_slots;
  shape.n_slots = args.n_slots;
  shape.p = args.page_tokens;
  shape.n_q = args.n_q;
  shape.n_kv = 1;
  shape.group = args.n_q;
  shape.scale = args.scale;
  return Attend(shape, args.dtype, args.fp8_pool, {args.workspace, args.workspace_bytes},
                args.stream);
}

}  // namespace quire::kernels::cuda
