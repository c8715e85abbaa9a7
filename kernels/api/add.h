// SPDX-License-Identifier: Apache-2.0
//
// add: element-wise sum, for residuals.
//
// Tolerance: exact. Errors: kBadShape for n < 0 or a missing pointer.
#ifndef QUIRE_KERNELS_API_ADD_H_
#define QUIRE_KERNELS_API_ADD_H_

#include <cstdint>

#include "kernels/api/status.h"

namespace quire::kernels {

/// y[i] = a[i] + b[i]
struct AddArgs {
  const float* a = nullptr;  ///< [n]
  const float* b = nullptr;  ///< [n]
  float* y = nullptr;        ///< Out [n]; may be a or b
  int64_t n = 0;
  void* stream = nullptr;
};
using AddFn = OpStatus (*)(const AddArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_ADD_H_
