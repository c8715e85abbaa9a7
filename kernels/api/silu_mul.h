// SPDX-License-Identifier: Apache-2.0
//
// silu_mul: the gate of a feed-forward block, SwiGLU or, as Gemma has it, GeGLU.
//
// Tolerance: kSiluMulTolerance.
// Errors: kBadShape for dim < 1, rows < 0, a stride in 1..dim-1 or negative, a missing pointer;
// kUnsupported for an unknown function.
#ifndef QUIRE_KERNELS_API_SILU_MUL_H_
#define QUIRE_KERNELS_API_SILU_MUL_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

inline constexpr Tolerance kSiluMulTolerance{.absolute = 1e-7, .relative = 1e-5};

/// Function f of the gate. Values are stable.
enum class GateFunction : uint8_t {
  kSilu = 0,  ///< SiLU: x / (1 + exp(-x))
  /// GELU by tanh: x / (1 + exp(-2u)) = 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
  kGeluTanh = 1,
};

/// y[r][c] = f(gate[r][c]) * up[r][c]
struct SiluMulArgs {
  const float* gate = nullptr;  ///< [rows][gate_stride], first dim columns read
  const float* up = nullptr;    ///< [rows][up_stride], first dim columns read
  float* y = nullptr;           ///< Out [rows][dim]; may be gate or up when its stride is dim
  int64_t rows = 0;
  int64_t dim = 0;
  /// Elements from row to row, at least dim; 0 stands for dim. Columns of one product
  /// [rows][2*dim] have 2*dim.
  int64_t gate_stride = 0;
  int64_t up_stride = 0;
  GateFunction function = GateFunction::kSilu;
  void* stream = nullptr;
};
using SiluMulFn = OpStatus (*)(const SiluMulArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_SILU_MUL_H_
