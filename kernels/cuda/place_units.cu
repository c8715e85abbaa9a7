// SPDX-License-Identifier: Apache-2.0
//
// A block handles a chunk of rows of one side (K or V) of one unit. If a side only moves (raw units
// without rotation, fp8 pools), threads copy vectors of bytes. Otherwise a thread decodes, rotates
// and stores kWidth channels at a time, or two such groups that RoPE pairs.
#include <algorithm>

#include "kernels/cpu/checks.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/rotate.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kMaxChunks = 1024;

struct Shape {
  const uint8_t* encoded;
  const void* const* unit_ptrs;
  const UnitPlacement* placements;
  const int32_t* valid_rows;
  const int32_t* rotations;
  const float* cos_table;
  const float* sin_table;
  void* pools[2];
  float* scales[2];
  EncodedLayout layout;
  int64_t num_slots, n_kv, p, d, n_rotations, rotary_first, rotary_dim;
  bool interleaved, fp8_pools;
};

/// Work of a block: rows first_row, first_row + row_step, ... of one side.
struct Side {
  const uint8_t* params;
  const uint8_t* codes;
  int64_t to;  ///< Element of row 0 in the pool; rows are n_kv * d apart.
  int64_t valid;
  int64_t rotation;  ///< Row of the tables, or negative.
  bool keys;
};

/// Returns false if an entry of the lists is out of range.
__device__ bool FindSide(const Shape& shape, Side* side) {
  const int64_t i = blockIdx.x;
  side->keys = blockIdx.y == 0;
  const UnitPlacement place = shape.placements[i];
  side->valid = shape.valid_rows == nullptr ? shape.p : shape.valid_rows[i];
  side->rotation =
      side->keys && shape.rotations != nullptr ? int64_t{shape.rotations[i]} : int64_t{-1};
  if (place.slot < 0 || place.slot >= shape.num_slots) return false;
  if (place.kv_head < 0 || place.kv_head >= shape.n_kv) return false;
  if (side->valid < 1 || side->valid > shape.p || side->rotation >= shape.n_rotations) return false;
  const uint8_t* unit = shape.unit_ptrs != nullptr ? static_cast<const uint8_t*>(shape.unit_ptrs[i])
                                                   : shape.encoded + i * shape.layout.bytes;
  side->params = unit + (side->keys ? shape.layout.key_params : shape.layout.value_params);
  side->codes = unit + (side->keys ? shape.layout.key_codes : shape.layout.value_codes);
  side->to = (place.slot * shape.p * shape.n_kv + place.kv_head) * shape.d;
  if (shape.fp8_pools && blockIdx.z == 0 && threadIdx.x == 0) {
    shape.scales[blockIdx.y][place.slot * shape.n_kv + place.kv_head] =
        LoadAny<float>(side->params);
  }
  return true;
}

/// Moves rows of `row_bytes`, zeros from `valid` on, kBytes at a time. Rows and pool have that
/// alignment.
template <int kBytes>
__device__ void CopyRows(const Shape& shape, const Side& side, uint8_t* pool, int64_t row_bytes) {
  using Value = Chunk<uint8_t, kBytes>;
  const auto per_row = static_cast<int32_t>(row_bytes / kBytes);
  const auto items = static_cast<int32_t>(shape.p) * per_row;
  for (auto i = static_cast<int32_t>(blockIdx.z * blockDim.x + threadIdx.x); i < items;
       i += static_cast<int32_t>(gridDim.z * blockDim.x)) {
    const int32_t r = i / per_row;
    const int64_t at = int64_t{i % per_row} * kBytes;
    Value value{};
    if (r < side.valid) value = LoadAny<Value>(side.codes + r * row_bytes + at);
    StoreAligned(pool + r * shape.n_kv * row_bytes + at, value);
  }
}
/// Uses vectors as wide as rows, pool and codes permit. The codes of every other fp8 unit are only
/// 8-byte aligned: 8 bytes of parameters precede them, and units are an odd multiple of 8. Codes
/// without 4-byte alignment are loaded byte by byte and stored as wide as possible.
__device__ inline void CopySide(const Shape& shape, const Side& side, uint8_t* pool,
                                int64_t row_bytes) {
  const uint64_t to = reinterpret_cast<uintptr_t>(pool) | static_cast<uint64_t>(row_bytes);
  const uint64_t from = reinterpret_cast<uintptr_t>(side.codes);
  const uint64_t bits = from % 4 == 0 ? to | from : to;
  if (bits % 16 == 0) return CopyRows<16>(shape, side, pool, row_bytes);
  if (bits % 8 == 0) return CopyRows<8>(shape, side, pool, row_bytes);
  if (bits % 4 == 0) return CopyRows<4>(shape, side, pool, row_bytes);
  if (bits % 2 == 0) return CopyRows<2>(shape, side, pool, row_bytes);
  CopyRows<1>(shape, side, pool, row_bytes);
}

/// Decodes kWidth channels of row r, from channel c on, as kernels/cpu/codec_scalar.h does.
template <UnitCodec kCodec, typename T, int kWidth>
__device__ void Decode(const Shape& shape, const Side& side, int64_t r, int64_t c, float* values) {
  using Raw = typename T::Raw;
  const int64_t at = r * shape.d + c;
  if constexpr (kCodec == UnitCodec::kRaw) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Raw));
    const auto raws = LoadAny<Chunk<Raw, kWidth>>(side.codes + at * kBytes);
    for (int i = 0; i < kWidth; ++i) values[i] = T::Widen(raws.at[i]);
  } else if constexpr (kCodec == UnitCodec::kFp8E4M3) {
    const float scale = LoadAny<float>(side.params);
    const auto codes = LoadAny<Chunk<uint8_t, kWidth>>(side.codes + at);
    // Rounding may take the largest keys beyond the largest f32, in this codec only.
    for (int i = 0; i < kWidth; ++i) values[i] = Bounded<F32>(Fp8ToFloat(codes.at[i]) * scale);
  } else if constexpr (kCodec == UnitCodec::kInt8) {
    const float scale = HalfToFloat(LoadAny<uint16_t>(side.params + 2 * r));
    const auto codes = LoadAny<Chunk<int8_t, kWidth>>(side.codes + at);
    for (int i = 0; i < kWidth; ++i) values[i] = static_cast<float>(codes.at[i]) * scale;
  } else {
    const int64_t row_bytes = (shape.d + 1) / 2;
    const bool high = c >= row_bytes;
    const auto codes =
        LoadAny<Chunk<uint8_t, kWidth>>(side.codes + r * row_bytes + (high ? c - row_bytes : c));
    const int64_t row_groups = (shape.d + kInt4Group - 1) / kInt4Group;
    const int64_t groups = side.keys ? shape.d : shape.p * row_groups;
    for (int i = 0; i < kWidth; ++i) {
      const int64_t group = side.keys ? c + i : r * row_groups + (c + i) / kInt4Group;
      const float base = HalfToFloat(LoadAny<uint16_t>(side.params + 2 * group));
      const float scale = HalfToFloat(LoadAny<uint16_t>(side.params + 2 * (groups + group)));
      const int code = high ? codes.at[i] >> 4 : codes.at[i] & 15;
      values[i] = base + static_cast<float>(code) * scale;  // The product is exact.
    }
  }
}

template <typename T, int kWidth>
__device__ void Store(typename T::Raw* to, const float* values) {
  Chunk<typename T::Raw, kWidth> raws;
  for (int i = 0; i < kWidth; ++i) raws.at[i] = Bounded<T>(values[i]);
  StoreAligned(to, raws);
}

/// Stores channels without rotation: decoded, or the bits of a raw unit.
template <UnitCodec kCodec, typename T, int kWidth>
__device__ void PlaceStill(const Shape& shape, const Side& side, int64_t r, int64_t c,
                           typename T::Raw* row) {
  using Raw = typename T::Raw;
  if constexpr (kCodec == UnitCodec::kRaw) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Raw));
    StoreAligned(row + c, LoadAny<Chunk<Raw, kWidth>>(side.codes + (r * shape.d + c) * kBytes));
  } else {
    float values[kWidth];
    Decode<kCodec, T, kWidth>(shape, side, r, c, values);
    Store<T, kWidth>(row + c, values);
  }
}

/// Rotates two groups of channels whose pairs have the angles angle, angle + 1, ...
template <UnitCodec kCodec, typename T, int kWidth>
__device__ void PlacePairs(const Shape& shape, const Side& side, int64_t r, int64_t a, int64_t b,
                           int64_t angle, typename T::Raw* row) {
  float first[kWidth];
  float second[kWidth];
  Decode<kCodec, T, kWidth>(shape, side, r, a, first);
  Decode<kCodec, T, kWidth>(shape, side, r, b, second);
  const int64_t entry = side.rotation * (shape.rotary_dim / 2) + angle;
  for (int i = 0; i < kWidth; ++i) {
    Rotate(shape.cos_table[entry + i], shape.sin_table[entry + i], &first[i], &second[i]);
  }
  Store<T, kWidth>(row + a, first);
  Store<T, kWidth>(row + b, second);
}

/// Rotates the pairs inside one group of channels. kWidth is even.
template <UnitCodec kCodec, typename T, int kWidth>
__device__ void PlaceNeighbours(const Shape& shape, const Side& side, int64_t r, int64_t c,
                                int64_t angle, typename T::Raw* row) {
  float values[kWidth];
  Decode<kCodec, T, kWidth>(shape, side, r, c, values);
  const int64_t entry = side.rotation * (shape.rotary_dim / 2) + angle;
  for (int i = 0; i + 1 < kWidth; i += 2) {
    Rotate(shape.cos_table[entry + i / 2], shape.sin_table[entry + i / 2], &values[i],
           &values[i + 1]);
  }
  Store<T, kWidth>(row + c, values);
}

/// Work items of a row: first those with rotation, then those without.
template <UnitCodec kCodec, typename T, int kWidth>
__device__ void PlaceItem(const Shape& shape, const Side& side, int64_t r, int64_t item,
                          int64_t turning, typename T::Raw* row) {
  if (item >= turning) {
    const int64_t rotary = side.rotation >= 0 ? shape.rotary_dim : 0;
    int64_t c = (item - turning) * kWidth;
    if (c >= shape.rotary_first) c += rotary;
    return PlaceStill<kCodec, T, kWidth>(shape, side, r, c, row);
  }
  const int64_t half = shape.rotary_dim / 2;
  if (!shape.interleaved) {
    const int64_t a = shape.rotary_first + item * kWidth;
    return PlacePairs<kCodec, T, kWidth>(shape, side, r, a, a + half, item * kWidth, row);
  }
  if constexpr (kWidth == 1) {
    const int64_t a = shape.rotary_first + 2 * item;
    PlacePairs<kCodec, T, 1>(shape, side, r, a, a + 1, item, row);
  } else {
    const int64_t c = shape.rotary_first + item * kWidth;
    PlaceNeighbours<kCodec, T, kWidth>(shape, side, r, c, item * kWidth / 2, row);
  }
}

template <UnitCodec kCodec, typename T, int kWidth>
__global__ void __launch_bounds__(kThreads) PlaceKernel(Shape shape) {
  using Raw = typename T::Raw;
  Side side;
  if (!FindSide(shape, &side)) return;
  if (shape.fp8_pools) {
    uint8_t* pool = static_cast<uint8_t*>(shape.pools[blockIdx.y]) + side.to;
    return CopySide(shape, side, pool, shape.d);
  }
  Raw* pool = static_cast<Raw*>(shape.pools[blockIdx.y]) + side.to;
  if (kCodec == UnitCodec::kRaw && side.rotation < 0) {
    return CopySide(shape, side, reinterpret_cast<uint8_t*>(pool),
                    shape.d * static_cast<int64_t>(sizeof(Raw)));
  }
  const int64_t rotary = side.rotation >= 0 ? shape.rotary_dim : 0;
  const bool inside = shape.interleaved && kWidth > 1;  // Both channels of a pair are in one group.
  const auto turning = static_cast<int32_t>(rotary / (inside ? kWidth : 2 * kWidth));
  const auto per_row = turning + static_cast<int32_t>((shape.d - rotary) / kWidth);
  const int32_t items = static_cast<int32_t>(shape.p) * per_row;
  for (auto i = static_cast<int32_t>(blockIdx.z * blockDim.x + threadIdx.x); i < items;
       i += static_cast<int32_t>(gridDim.z * blockDim.x)) {
    const int32_t r = i / per_row;
    Raw* row = pool + r * shape.n_kv * shape.d;
    if (r < side.valid) {
      PlaceItem<kCodec, T, kWidth>(shape, side, r, i % per_row, turning, row);
    }
  }
  // The rows after the valid ones become zero.
  const auto row_channels = static_cast<int32_t>(shape.d);
  const auto all = static_cast<int32_t>(shape.p) * row_channels;
  for (auto i = static_cast<int32_t>(side.valid) * row_channels +
                static_cast<int32_t>(blockIdx.z * blockDim.x + threadIdx.x);
       i < all; i += static_cast<int32_t>(gridDim.z * blockDim.x)) {
    pool[(i / row_channels) * shape.n_kv * shape.d + i % row_channels] = Raw{};
  }
}

/// Groups of 8 channels divide every part of a row, and lie aligned in the pools.
bool Vectorizes(const PlaceUnitsArgs& args) {
  const auto address = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  uint64_t sizes = static_cast<uint64_t>(args.shape.head_dim);
  if (args.codec == UnitCodec::kInt4) sizes |= sizes / 2;
  if (args.rotations != nullptr) {
    const int64_t rotary = args.interleaved ? args.rotary_dim : args.rotary_dim / 2;
    sizes |= static_cast<uint64_t>(args.rotary_first | rotary);
  }
  const uint64_t pools = address(args.k_pool) | (args.shape.has_values ? address(args.v_pool) : 0);
  return sizes % 8 == 0 && pools % 16 == 0;
}

template <UnitCodec kCodec, typename T>
OpStatus LaunchPlace(const PlaceUnitsArgs& args, const Shape& shape) {
  const bool wide = Vectorizes(args);
  const int64_t items = DivideUp(args.shape.side_elements(), wide ? 8 : 1);
  const dim3 grid =
      Grid(args.n_units, args.shape.sides(), std::min(DivideUp(items, kThreads), kMaxChunks));
  return wide ? Launch(PlaceKernel<kCodec, T, 8>, grid, Grid(kThreads), 0, args.stream, shape)
              : Launch(PlaceKernel<kCodec, T, 1>, grid, Grid(kThreads), 0, args.stream, shape);
}

}  // namespace

OpStatus PlaceUnits(const PlaceUnitsArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  constexpr int64_t kMaxSide = int64_t{1} << 30;  // Elements that 32-bit indices reach.
  if (args.n_units > kMaxGridX || args.shape.side_elements() > kMaxSide) {
    return OpStatus::kUnsupported;
  }
  Shape shape{};
  shape.encoded = static_cast<const uint8_t*>(args.encoded);
  shape.unit_ptrs = args.unit_ptrs;
  shape.placements = args.placements;
  shape.valid_rows = args.valid_rows;
  shape.rotations = args.rotations;
  shape.cos_table = args.cos_table;
  shape.sin_table = args.sin_table;
  shape.pools[0] = args.k_pool;
  shape.pools[1] = args.v_pool;
  shape.scales[0] = args.k_scales;
  shape.scales[1] = args.v_scales;
  shape.layout = LayoutOf(args.codec, args.shape);
  shape.num_slots = args.num_slots;
  shape.n_kv = args.n_kv;
  shape.p = args.shape.page_tokens;
  shape.d = args.shape.head_dim;
  shape.n_rotations = args.n_rotations;
  shape.rotary_first = args.rotary_first;
  shape.rotary_dim = args.rotary_dim;
  shape.interleaved = args.interleaved;
  shape.fp8_pools = args.fp8_pools;
  return WithFormat(args.shape.dtype, [&](auto format) {
    using T = decltype(format);
    switch (args.codec) {
      case UnitCodec::kRaw:
        return LaunchPlace<UnitCodec::kRaw, T>(args, shape);
      case UnitCodec::kFp8E4M3:
        return LaunchPlace<UnitCodec::kFp8E4M3, T>(args, shape);
      case UnitCodec::kInt8:
        return LaunchPlace<UnitCodec::kInt8, T>(args, shape);
      case UnitCodec::kInt4:
        return LaunchPlace<UnitCodec::kInt4, T>(args, shape);
    }
    return OpStatus::kUnsupported;
  });
}

}  // namespace quire::kernels::cuda
