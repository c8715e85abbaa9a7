// SPDX-License-Identifier: Apache-2.0
//
// Tolerance: how far the numbers of a table may be from those of CpuReference()
// (kernels/cpu/cpu_kernels.h). Every op's header names its own, and the conformance suite uses it.
// An op whose header says "exact" has none.
#ifndef QUIRE_KERNELS_API_TOLERANCE_H_
#define QUIRE_KERNELS_API_TOLERANCE_H_

#include "common/page/dtype.h"

namespace quire::kernels {

struct Tolerance {
  double absolute = 0;
  /// Factor of the reference's number, unless the op's header names another size.
  double relative = 0;

  /// The largest distance allowed for that size.
  constexpr double At(double size) const { return absolute + relative * size; }
};

inline constexpr Tolerance kExact{};

/// The distance of neighbours in `dtype` around a number. An op that rounds its result once may
/// differ by this in addition to its tolerance. Two numbers within the tolerance may lie on
/// different sides of a rounding boundary.
constexpr Tolerance RoundingStep(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {.absolute = 0x1p-24, .relative = 0x1p-10};
    case DType::kBF16:
      return {.relative = 0x1p-7};
    default:
      return {.relative = 0x1p-23};
  }
}

/// Tolerance of attention ops. Over the rows that a query head sees, let `value` be the largest
/// |v_c|. Let `score` be scale times the length of the query times that of the longest key:
///
///   |out - reference| <= kAttentionTolerance.At(score) * value
///   |lse - reference| <= kAttentionTolerance.At(score)
///
/// A score is a sum in f32, whose error grows with its terms. The relative error of a weight is the
/// error of its score.
inline constexpr Tolerance kAttentionTolerance{.absolute = 1e-4, .relative = 1e-6};

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_TOLERANCE_H_
