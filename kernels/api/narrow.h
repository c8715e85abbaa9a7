// SPDX-License-Identifier: Apache-2.0
//
// narrow: f32 to the dtype of a cache, as new keys and values go to their rows.
//
// Tolerance: exact: rounded to nearest, ties to even; beyond the largest value infinity, and NaN
// stays NaN. Errors: kBadShape for n < 0, an unknown dtype or a missing pointer.
#ifndef QUIRE_KERNELS_API_NARROW_H_
#define QUIRE_KERNELS_API_NARROW_H_

#include <cstdint>

#include "common/page/dtype.h"
#include "kernels/api/status.h"

namespace quire::kernels {

/// y[i] = x[i]
struct NarrowArgs {
  const float* x = nullptr;  ///< [n]
  void* y = nullptr;         ///< out [n] dtype; not x
  int64_t n = 0;
  DType dtype = DType::kF16;
  void* stream = nullptr;
};
using NarrowFn = OpStatus (*)(const NarrowArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_NARROW_H_
