// SPDX-License-Identifier: Apache-2.0
//
// Decode attention over paged keys and values, or over latents. A block (split, KV head and its
// query rows, sequence) handles a stretch of the slots. With more than one split the results go to
// the workspace. merge_attention then merges them on the same stream.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/split_plan.h"

namespace quire::kernels::cuda {
namespace {

/// Most tokens of a sequence, and most query rows: they are counted in 32 bits.
constexpr int64_t kMaxTokens = int64_t{1} << 30;

struct Shape {
  TileShape tile;
  const float* q;
  const void* k;
  const void* v;  ///< Null: values are the first channels of the keys.
  const float* k_scales;
  const float* v_scales;
  const SequencePools* pools;  ///< [batch] in place of k and v, or null.
  const int32_t* tokens;       ///< [batch] in place of slots and valid, or null.
  const int32_t* slots;
  const int32_t* valid;
  const int32_t* first;  ///< [batch][n_slots] or null: rows before it are hidden.
  float* out;            ///< [splits][batch * n_q][value_dim]
  float* lse;            ///< [splits][batch * n_q] or null
  int64_t batch, num_slots, n_slots, n_q, n_kv;
  int slots_per_split, p, group, head_tiles;
  int tile_slots, tile_rows;  ///< A tile is this many whole slots and rows.
  float scale;
};

/// Fewest blocks per multiprocessor that the registers permit.
[[maybe_unused]] constexpr int MinBlocks(int heads, size_t raw_bytes) {
  return heads <= 4 ? 5 : raw_bytes > 1 ? 4 : 3;
}

/// Location of this thread's token in each tile.
class TokenList {
 public:
  __device__ TokenList(const Shape& shape, int g, int first_slot, int end_slot)
      : shape_(shape), g_(g), end_(end_slot) {
    const auto t = static_cast<unsigned>(threadIdx.x), p = static_cast<unsigned>(shape.p);
    at_ = first_slot + static_cast<int>(t / p);
    at_row_ = static_cast<int>(t % p);
  }

  __device__ void Fetch() {
    slot_ = -1;
    first_row_ = valid_rows_ = 0;
    row_ = at_row_;
    if (at_ < end_ && shape_.tokens != nullptr) {
      slot_ = at_;
      valid_rows_ = shape_.tokens[blockIdx.z] - at_ * shape_.p;
    } else if (at_ < end_) {
      slot_ = shape_.slots[blockIdx.z * shape_.n_slots + at_];
      valid_rows_ = shape_.valid[(blockIdx.z * shape_.n_kv + g_) * shape_.n_slots + at_];
      if (shape_.first != nullptr) first_row_ = shape_.first[blockIdx.z * shape_.n_slots + at_];
    }
    at_ += shape_.tile_slots;
    at_row_ += shape_.tile_rows;
    if (at_row_ >= shape_.p) {
      at_row_ -= shape_.p;
      ++at_;
    }
  }
  __device__ int64_t Row() const {
    return Seen() ? (int64_t{slot_} * shape_.p + row_) * shape_.n_kv + g_ : -1;
  }
  __device__ void FetchScales() {
    scales_ = {1, 1};
    if (!Seen()) return;
    const int64_t unit = slot_ * shape_.n_kv + g_;
    if (shape_.k_scales != nullptr) scales_.key = shape_.k_scales[unit];
    if (shape_.v_scales != nullptr) scales_.value = shape_.v_scales[unit];
  }
  __device__ TokenScales Scales() const { return scales_; }

 private:
  __device__ bool Seen() const {
    return slot_ >= 0 && slot_ < shape_.num_slots && row_ >= first_row_ && row_ < valid_rows_;
  }

  const Shape& shape_;
  const int g_;
  const int end_;
  int at_, at_row_;  ///< Next tile to fetch: index into the lists, row of the slot.
  int slot_, first_row_, valid_rows_, row_;  ///< Tile that was fetched.
  TokenScales scales_{1, 1};
};

template <typename T, int kHeads>
__global__ void __launch_bounds__(kTileThreads, MinBlocks(kHeads, sizeof(typename T::Raw)))
    PagedKernel(Shape shape) {
  using Raw = typename T::Raw;
  const auto head_tiles = static_cast<unsigned>(shape.head_tiles);
  const auto g = static_cast<int>(blockIdx.y / head_tiles);
  const int first_head = static_cast<int>(blockIdx.y % head_tiles) * kHeads;
  const int64_t first_row = blockIdx.z * shape.n_q + int64_t{g} * shape.group + first_head;
  const int heads = shape.group - first_head;  // At least 1, possibly more than kHeads.
  AttentionTile<T, kHeads> tile(shape.tile);
  tile.LoadQueries(
      [&](int h) { return h < heads ? shape.q + (first_row + h) * shape.tile.key_dim : nullptr; },
      shape.scale);
  const void* k = shape.pools != nullptr ? shape.pools[blockIdx.z].k : shape.k;
  const void* v = shape.pools != nullptr ? shape.pools[blockIdx.z].v : shape.v;
  const int from = static_cast<int>(blockIdx.x) * shape.slots_per_split;
  const int left = static_cast<int>(shape.n_slots) - from;
  const int slots = left < shape.slots_per_split ? left : shape.slots_per_split;
  const auto tokens = static_cast<unsigned>(slots * shape.p);
  const auto tile_tokens = static_cast<unsigned>(tile.tokens());
  tile.Attend(static_cast<const Raw*>(k), static_cast<const Raw*>(v),
              static_cast<int>((tokens + tile_tokens - 1) / tile_tokens),
              TokenList(shape, g, from, from + slots), [](int, int) { return true; });
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
  const float soft_cap = shape.tile.soft_cap;
  shape.tile = PlanTile(shape.tile.key_dim, value_dim,
                        static_cast<int64_t>(sizeof(typename T::Raw)), kHeads);
  shape.tile.soft_cap = soft_cap;
  shape.head_tiles = static_cast<int>(DivideUp(shape.group, kHeads));
  const int64_t rows = shape.batch * shape.n_q;
  const int64_t heads = shape.n_kv * shape.head_tiles;
  if (shape.tile.tokens == 0 || heads > kMaxGridYZ || shape.batch > kMaxGridYZ) {
    return OpStatus::kUnsupported;
  }
  shape.tile_slots = shape.tile.tokens / shape.p;
  shape.tile_rows = shape.tile.tokens % shape.p;
  const auto bytes = static_cast<size_t>(TileLayout(shape.tile, kHeads).bytes);
  const auto kernel = PagedKernel<T, kHeads>;
  if (const OpStatus status = AskForShared(kernel, kMaxTileBytes); status != OpStatus::kOk) {
    return status;
  }
  const SplitPlan plan = PlanSplits(
      {.n_slots = shape.n_slots,
       .page_tokens = shape.p,
       .tile_tokens = shape.tile.tokens,
       .blocks_per_split = heads * shape.batch,
       .resident_blocks = Multiprocessors() * BlocksPerMultiprocessor(kernel, kTileThreads, bytes),
       .split_bytes = AttentionSplitBytes(rows, value_dim),
       .workspace_bytes = workspace.data != nullptr ? workspace.bytes : 0});
  shape.slots_per_split = static_cast<int>(plan.slots_per_split);
  float* const out = shape.out;
  float* const lse = shape.lse;
  if (plan.splits > 1) {
    shape.out = static_cast<float*>(workspace.data);
    shape.lse = shape.out + plan.splits * rows * value_dim;
  }
  const OpStatus status = Launch(kernel, Grid(plan.splits, heads, shape.batch), Grid(kTileThreads),
                                 bytes, stream, shape);
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

bool TooLong(int64_t n_slots, int64_t page_tokens, int64_t batch, int64_t n_q) {
  return n_slots > kMaxTokens / page_tokens || n_q > kMaxTokens / batch;
}

}  // namespace

OpStatus PagedAttention(const PagedAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (TooLong(args.n_slots, args.page_tokens, args.batch, args.n_q)) return OpStatus::kUnsupported;
  Shape shape{};
  shape.tile.key_dim = shape.tile.value_dim = static_cast<int>(args.head_dim);
  shape.tile.soft_cap = args.soft_cap;
  shape.q = args.q;
  shape.k = args.k_pool;
  shape.v = args.v_pool;
  shape.pools = args.pools;
  shape.tokens = args.tokens;
  shape.k_scales = args.fp8_pools ? args.k_scales : nullptr;
  shape.v_scales = args.fp8_pools ? args.v_scales : nullptr;
  shape.slots = args.slots;
  shape.valid = args.valid_tokens;
  shape.first = args.first_tokens;
  shape.out = args.out;
  shape.lse = args.lse;
  shape.batch = args.batch;
  shape.num_slots = args.num_slots;
  shape.n_slots = args.n_slots;
  shape.p = static_cast<int>(args.page_tokens);
  shape.n_q = args.n_q;
  shape.n_kv = args.n_kv;
  shape.group = static_cast<int>(args.n_q / args.n_kv);
  shape.scale = args.scale;
  return Attend(shape, args.dtype, args.fp8_pools, {args.workspace, args.workspace_bytes},
                args.stream);
}

OpStatus MlaAttention(const MlaAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (TooLong(args.n_slots, args.page_tokens, args.batch, args.n_q)) return OpStatus::kUnsupported;
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
  shape.p = static_cast<int>(args.page_tokens);
  shape.n_q = args.n_q;
  shape.n_kv = 1;
  shape.group = static_cast<int>(args.n_q);
  shape.scale = args.scale;
  return Attend(shape, args.dtype, args.fp8_pool, {args.workspace, args.workspace_bytes},
                args.stream);
}

}  // namespace quire::kernels::cuda
