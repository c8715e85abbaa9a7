// SPDX-License-Identifier: Apache-2.0
//
// Device side of the layout conversions. One block copies a chunk of rows of one side (K or V) of
// one unit. A thread moves one Vector of a row per step. On both sides the threads of a warp access
// whole rows, which are contiguous (256 bytes at d = 128, 16 bit).
#ifndef QUIRE_KERNELS_CUDA_TRANSPOSE_CUH_
#define QUIRE_KERNELS_CUDA_TRANSPOSE_CUH_

#include <cstdint>

#include "kernels/api/transpose.h"
#include "kernels/cuda/runtime.cuh"

namespace quire::kernels::cuda {

/// Sizes in elements of Vector, rows and slots.
struct Geometry {
  int64_t num_slots;
  int64_t page_tokens;  ///< `p`
  int64_t n_kv;
  int64_t row_vectors;  ///< Vectors of one row
  int32_t sides;        ///< 2 with V rows, else 1
};

/// First Vector of row 0 of a head in a slot; rows are n_kv * row_vectors apart.
__device__ inline int64_t InPool(const Geometry& at, int64_t slot, int64_t head) {
  return (slot * at.page_tokens * at.n_kv + head) * at.row_vectors;
}

/// Loads the Vector at `from`, which has the alignment of one 16-bit element only.
template <typename Vector>
__device__ inline Vector LoadUnaligned(const Vector* from) {
  union {
    Vector vector;
    uint16_t parts[sizeof(Vector) / sizeof(uint16_t)];
  } value;
  const uint16_t* source = reinterpret_cast<const uint16_t*>(from);
  for (int i = 0; i < static_cast<int>(sizeof(Vector) / sizeof(uint16_t)); ++i) {
    value.parts[i] = source[i];
  }
  return value.vector;
}

// Grid: x = unit, y = side, z = chunks of rows. Block: x over a row, y over rows.

template <typename Vector>
__global__ void NhdToHndKernel(const Vector* __restrict__ k_pool, const Vector* __restrict__ v_pool,
                               const int32_t* __restrict__ slots,
                               const PageAddress* __restrict__ pages, Vector* __restrict__ units,
                               Geometry at, int64_t n_pages, int64_t last_page_rows) {
  const int64_t unit = blockIdx.x;
  const int64_t page = unit / at.n_kv;
  const int64_t head = unit % at.n_kv;
  const Vector* from;
  Vector* to;
  if (pages != nullptr) {
    const PageAddress own = pages[page];
    from = static_cast<const Vector*>(blockIdx.y == 0 ? own.k : own.v) + InPool(at, 0, head);
    to = static_cast<Vector*>(own.units) + head * at.sides * at.page_tokens * at.row_vectors;
  } else {
    const int64_t slot = slots[page];
    if (slot < 0 || slot >= at.num_slots) return;
    from = (blockIdx.y == 0 ? k_pool : v_pool) + InPool(at, slot, head);
    to = units + unit * at.sides * at.page_tokens * at.row_vectors;
  }
  to += blockIdx.y * at.page_tokens * at.row_vectors;
  const int64_t valid = page + 1 == n_pages ? last_page_rows : at.page_tokens;
  const int64_t rows_per_step = int64_t{gridDim.z} * blockDim.y;
  for (int64_t r = int64_t{blockIdx.z} * blockDim.y + threadIdx.y; r < at.page_tokens;
       r += rows_per_step) {
    for (int64_t c = threadIdx.x; c < at.row_vectors; c += blockDim.x) {
      to[r * at.row_vectors + c] = r < valid ? from[r * at.n_kv * at.row_vectors + c] : Vector{};
    }
  }
}

template <typename Vector>
__global__ void HndToNhdKernel(const Vector* __restrict__ units,
                               const void* const* __restrict__ unit_ptrs,
                               const UnitPlacement* __restrict__ placements,
                               const UnitAddress* __restrict__ addresses,
                               Vector* __restrict__ k_pool, Vector* __restrict__ v_pool,
                               Geometry at) {
  const int64_t unit = blockIdx.x;
  Vector* to;
  if (addresses != nullptr) {
    to = static_cast<Vector*>(blockIdx.y == 0 ? addresses[unit].k : addresses[unit].v);
  } else {
    const UnitPlacement place = placements[unit];
    if (place.slot < 0 || place.slot >= at.num_slots) return;
    if (place.kv_head < 0 || place.kv_head >= at.n_kv) return;
    to = (blockIdx.y == 0 ? k_pool : v_pool) + InPool(at, place.slot, place.kv_head);
  }
  const int64_t side_vectors = at.page_tokens * at.row_vectors;
  const Vector* from = unit_ptrs != nullptr ? static_cast<const Vector*>(unit_ptrs[unit])
                                            : units + unit * at.sides * side_vectors;
  from += blockIdx.y * side_vectors;
  // The launcher checked the alignment of everything but unit_ptrs. The result is the same for a
  // whole block.
  const bool aligned = reinterpret_cast<uintptr_t>(from) % sizeof(Vector) == 0;
  const int64_t rows_per_step = int64_t{gridDim.z} * blockDim.y;
  for (int64_t r = int64_t{blockIdx.z} * blockDim.y + threadIdx.y; r < at.page_tokens;
       r += rows_per_step) {
    for (int64_t c = threadIdx.x; c < at.row_vectors; c += blockDim.x) {
      const Vector* source = from + r * at.row_vectors + c;
      to[r * at.n_kv * at.row_vectors + c] = aligned ? *source : LoadUnaligned(source);
    }
  }
}

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_TRANSPOSE_CUH_
