// SPDX-License-Identifier: Apache-2.0
//
// Means and distances of rows in f64: MeanRows, MeanDistances, SquaredDistances. A lane is a
// channel and takes the rows in order, so the width of vectors changes no bit. simd_highway.cc
// includes it once per instruction set.
#if defined(QUIRE_KERNELS_CPU_SIMD_SIMD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SIMD_ROWS_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SIMD_ROWS_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SIMD_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/cpu/reference/plain_rows.h"
#include "kernels/cpu/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Set if vectors of f64 convert to f32 correctly. Vectors that Highway emulates lose infinities.
#undef QUIRE_ROWS_IN_VECTORS
#if HWY_HAVE_FLOAT64 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#define QUIRE_ROWS_IN_VECTORS 1
#else
#define QUIRE_ROWS_IN_VECTORS 0
#endif

#if QUIRE_ROWS_IN_VECTORS

using TagF64 = hn::ScalableTag<double>;
using VecF64 = hn::Vec<TagF64>;
using TagOfHalf = hn::Rebind<float, TagF64>;  ///< As many f32 as a vector has f64.

HWY_INLINE int64_t DoubleLanes() { return static_cast<int64_t>(hn::Lanes(TagF64())); }

HWY_INLINE VecF64 LoadDoubles(const float* from) {
  return hn::PromoteTo(TagF64(), hn::LoadU(TagOfHalf(), from));
}
HWY_INLINE void StoreFloats(VecF64 v, float* to) {
  hn::StoreU(hn::DemoteTo(TagOfHalf(), v), TagOfHalf(), to);
}

#endif  // QUIRE_ROWS_IN_VECTORS

// Handles two vectors of channels together, since each is a chain of dependent additions.

HWY_NOINLINE void MeanRowsImpl(const float* rows, int64_t n_rows, int64_t d, float* mean) {
  int64_t c = 0;
#if QUIRE_ROWS_IN_VECTORS
  const int64_t lanes = DoubleLanes();
  const VecF64 count = hn::Set(TagF64(), static_cast<double>(n_rows));
  for (; c + 2 * lanes <= d; c += 2 * lanes) {
    const float* row = rows + c;
    VecF64 low = LoadDoubles(row);
    VecF64 high = LoadDoubles(row + lanes);
    for (int64_t r = 1; r < n_rows; ++r) {
      row += d;
      low = hn::Add(low, LoadDoubles(row));
      high = hn::Add(high, LoadDoubles(row + lanes));
    }
    StoreFloats(hn::Div(low, count), mean + c);
    StoreFloats(hn::Div(high, count), mean + c + lanes);
  }
#endif
  PlainMeanRows(rows + c, d, n_rows, d - c, mean + c);
}

HWY_NOINLINE void MeanDistancesImpl(const float* rows, int64_t n_rows, int64_t d,
                                    const float* centre, float* mean) {
  int64_t c = 0;
#if QUIRE_ROWS_IN_VECTORS
  const TagF64 tag;
  const int64_t lanes = DoubleLanes();
  const VecF64 count = hn::Set(tag, static_cast<double>(n_rows));
  for (; c + 2 * lanes <= d; c += 2 * lanes) {
    const VecF64 low_centre = LoadDoubles(centre + c);
    const VecF64 high_centre = LoadDoubles(centre + c + lanes);
    VecF64 low = hn::Zero(tag);
    VecF64 high = low;
    for (int64_t r = 0; r < n_rows; ++r) {
      const float* row = rows + r * d + c;
      low = hn::Add(low, hn::Abs(hn::Sub(LoadDoubles(row), low_centre)));
      high = hn::Add(high, hn::Abs(hn::Sub(LoadDoubles(row + lanes), high_centre)));
    }
    StoreFloats(hn::Div(low, count), mean + c);
    StoreFloats(hn::Div(high, count), mean + c + lanes);
  }
#endif
  PlainMeanDistances(rows + c, d, n_rows, d - c, centre + c, mean + c);
}

HWY_NOINLINE void SquaredDistancesImpl(const float* rows, int64_t n_rows, int64_t d,
                                       const float* centre, double* squares) {
  int64_t c = 0;
#if QUIRE_ROWS_IN_VECTORS
  const TagF64 tag;
  for (; c + DoubleLanes() <= d; c += DoubleLanes()) {
    const VecF64 middle = LoadDoubles(centre + c);
    for (int64_t r = 0; r < n_rows; ++r) {
      const VecF64 off = hn::Sub(LoadDoubles(rows + r * d + c), middle);
      hn::StoreU(hn::Mul(off, off), tag, squares + r * d + c);
    }
  }
#endif
  PlainSquaredDistances(rows + c, d, n_rows, d - c, centre + c, squares + c);
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_ROWS_INL_H_
