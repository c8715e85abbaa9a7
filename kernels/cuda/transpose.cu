// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>

#include "kernels/cpu/checks.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/transpose.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 256;

struct LaunchShape {
  dim3 grid;
  dim3 block;
};

/// A block is as wide as a row needs (a power of two) and holds as many rows as kThreads permit.
LaunchShape Shape(int64_t units, const Geometry& at) {
  unsigned width = 1;
  while (width < at.row_vectors && width < kThreads) width *= 2;
  const int64_t height = std::min<int64_t>(kThreads / width, at.page_tokens);
  const int64_t chunks = std::min<int64_t>((at.page_tokens + height - 1) / height, 1024);
  return {dim3(static_cast<unsigned>(units), static_cast<unsigned>(at.sides),
               static_cast<unsigned>(chunks)),
          dim3(width, static_cast<unsigned>(height))};
}

/// Widest vector (16 bytes or less) that divides a row and every given address.
int64_t VectorBytes(int64_t row_bytes, std::initializer_list<const void*> addresses) {
  uint64_t bits = static_cast<uint64_t>(row_bytes) | 16;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return static_cast<int64_t>(bits & (~bits + 1));  // The lowest set bit.
}

/// Calls launch with a value of the vector type to move.
template <class Launcher>
OpStatus WithVector(int64_t bytes, const Launcher& launch) {
  switch (bytes) {
    case 16:
      return launch(uint4{});
    case 8:
      return launch(uint2{});
    case 4:
      return launch(uint32_t{});
    default:
      return launch(uint16_t{});
  }
}

template <class Args>
Geometry MakeGeometry(const Args& args, int64_t vector_bytes) {
  const int64_t row_bytes = args.head_dim * ElementBytes(args.dtype);
  return {args.num_slots, args.page_tokens, args.n_kv, row_bytes / vector_bytes,
          args.has_values ? 2 : 1};
}

}  // namespace

OpStatus NhdToHnd(const NhdToHndArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  const int64_t units = args.n_pages * args.n_kv;
  if (units == 0) return OpStatus::kOk;
  if (units > kMaxGridX) return OpStatus::kUnsupported;
  const void* v_pool = args.has_values ? args.v_pool : nullptr;
  const int64_t row_bytes = args.head_dim * ElementBytes(args.dtype);
  const int64_t bytes = args.pages != nullptr
                            ? VectorBytes(row_bytes, {})
                            : VectorBytes(row_bytes, {args.k_pool, v_pool, args.units});
  const Geometry at = MakeGeometry(args, bytes);
  const LaunchShape shape = Shape(units, at);
  return WithVector(bytes, [&](auto vector) {
    using Vector = decltype(vector);
    return Launch(NhdToHndKernel<Vector>, shape.grid, shape.block, 0, args.stream,
                  static_cast<const Vector*>(args.k_pool), static_cast<const Vector*>(v_pool),
                  args.slots, args.pages, static_cast<Vector*>(args.units), at, args.n_pages,
                  args.last_page_rows);
  });
}

OpStatus HndToNhd(const HndToNhdArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  if (args.n_units > kMaxGridX) return OpStatus::kUnsupported;
  void* v_pool = args.has_values ? args.v_pool : nullptr;
  const void* units = args.unit_ptrs != nullptr ? nullptr : args.units;
  const int64_t row_bytes = args.head_dim * ElementBytes(args.dtype);
  const int64_t bytes = args.addresses != nullptr
                            ? VectorBytes(row_bytes, {units})
                            : VectorBytes(row_bytes, {args.k_pool, v_pool, units});
  const Geometry at = MakeGeometry(args, bytes);
  const LaunchShape shape = Shape(args.n_units, at);
  return WithVector(bytes, [&](auto vector) {
    using Vector = decltype(vector);
    return Launch(HndToNhdKernel<Vector>, shape.grid, shape.block, 0, args.stream,
                  static_cast<const Vector*>(args.units), args.unit_ptrs, args.placements,
                  args.addresses, static_cast<Vector*>(args.k_pool), static_cast<Vector*>(v_pool),
                  at);
  });
}

}  // namespace quire::kernels::cuda
