// SPDX-License-Identifier: Apache-2.0
//
// soft_cap: bounds numbers, as Gemma 2 does its logits. Their order stays, but for equal results.
//
// Tolerance: kSoftCapTolerance. Errors: kBadShape for n < 0, a cap that is not finite and above 0,
// a missing pointer.
#ifndef QUIRE_KERNELS_API_SOFT_CAP_H_
#define QUIRE_KERNELS_API_SOFT_CAP_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kSoftCapTolerance{.relative = 2e-6};

/// y[i] = cap * tanh(x[i] / cap)
struct SoftCapArgs {
  const float* x = nullptr;  ///< [n]
  float* y = nullptr;        ///< Out [n]; may be x
  int64_t n = 0;
  float cap = 0.0f;
  void* stream = nullptr;
};
using SoftCapFn = OpStatus (*)(const SoftCapArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_SOFT_CAP_H_
