// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rotate.h"
#include "kernels/cpu/simd/simd.h"

namespace quire::kernels::fast {

OpStatus RmsNorm(const RmsNormArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const float count = static_cast<float>(args.dim);
  const int64_t stride = args.stride != 0 ? args.stride : args.dim;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = args.x + r * stride;
    float* y = args.y + r * stride;
    const float inverse = 1.0f / std::sqrt(simd::Dot(x, x, args.dim) / count + args.eps);
    for (int64_t c = 0; c < args.dim; ++c) y[c] = x[c] * inverse * args.weight[c];
  }
  return OpStatus::kOk;
}

OpStatus Rope(const RopeArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t half = args.rotary_dim / 2;
  const int64_t row_bytes = args.head_dim * ElementBytes(args.dtype);
  char* const first_row =
      static_cast<char*>(args.rows) + args.rotary_first * ElementBytes(args.dtype);
  std::vector<float> wide(args.rotary_dim);
  for (int64_t i = 0; i < args.t; ++i) {
    const float* cos = args.cos_table + args.positions[i] * half;
    const float* sin = args.sin_table + args.positions[i] * half;
    for (int64_t h = 0; h < args.heads; ++h) {
      void* row = first_row + (i * args.heads + h) * row_bytes;
      if (args.dtype == DType::kF32) {
        Rotate(static_cast<float*>(row), cos, sin, half, args.interleaved);
      } else {
        simd::Widen(row, args.dtype, args.rotary_dim, wide.data());
        Rotate(wide.data(), cos, sin, half, args.interleaved);
        simd::Narrow(wide.data(), args.rotary_dim, args.dtype, row);
      }
    }
  }
  return OpStatus::kOk;
}

namespace {

/// One row of a GeGLU gate.
void GeluMul(const float* gate, const float* up, int64_t n, float* y) {
  constexpr float kFactor = 1.5957691216057308f;  // 2 sqrt(2/pi)
  for (int64_t i = 0; i < n; ++i) {
    const float x = gate[i];
    const float z = kFactor * (x + 0.044715f * x * x * x);
    y[i] = x / (1.0f + std::exp(-z)) * up[i];
  }
}

}  // namespace

OpStatus SiluMul(const SiluMulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t gate_stride = args.gate_stride != 0 ? args.gate_stride : args.dim;
  const int64_t up_stride = args.up_stride != 0 ? args.up_stride : args.dim;
  for (int64_t r = 0; r < args.rows; ++r) {
    const auto multiply = args.function == GateFunction::kSilu ? simd::SiluMul : GeluMul;
    multiply(args.gate + r * gate_stride, args.up + r * up_stride, args.dim, args.y + r * args.dim);
  }
  return OpStatus::kOk;
}

OpStatus SoftCap(const SoftCapArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t i = 0; i < args.n; ++i) args.y[i] = args.cap * std::tanh(args.x[i] / args.cap);
  return OpStatus::kOk;
}

OpStatus Add(const AddArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  simd::Add(args.a, args.b, args.n, args.y);
  return OpStatus::kOk;
}

namespace {

/// Up to this many rows cost no more than reading the weights; BLAS libraries copy the weights
/// first.
constexpr int64_t kFewRows = 8;

OpStatus MultiplyFewRows(const MatmulArgs& args) {
  simd::Dots(args.x, args.rows, {.data = args.weight, .stride = args.in}, args.out, args.in,
             args.y);
  if (args.bias == nullptr) return OpStatus::kOk;
  for (int64_t r = 0; r < args.rows; ++r) {
    float* const y = args.y + r * args.out;
    simd::Add(y, args.bias, args.out, y);
  }
  return OpStatus::kOk;
}

/// Products of more than one head. Rows of one head lie apart.
OpStatus MultiplyHeads(const MatmulArgs& args) {
  const int64_t outs = args.heads * args.out, ins = args.heads * args.in;
  for (int64_t r = 0; args.bias != nullptr && r < args.rows; ++r) {
    float* const y = args.y + r * outs;
    std::copy(args.bias, args.bias + outs, y);
  }
  const bool onto = args.bias != nullptr;
  for (int64_t h = 0; h < args.heads; ++h) {
    GemmTransposed({args.rows, args.out, args.in, ins, args.in, outs, onto}, args.x + h * args.in,
                   args.weight + h * args.out * args.in, args.y + h * args.out);
  }
  return OpStatus::kOk;
}

}  // namespace

OpStatus Matmul(const MatmulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  if (!FitsGemm(args.rows, args.heads * args.in, args.heads * args.out)) {
    return OpStatus::kUnsupported;
  }
  if (args.heads > 1) return MultiplyHeads(args);
  if (args.rows <= kFewRows) return MultiplyFewRows(args);
  const bool biased = args.bias != nullptr;
  for (int64_t r = 0; biased && r < args.rows; ++r) {
    std::copy(args.bias, args.bias + args.out, args.y + r * args.out);
  }
  GemmTransposed({args.rows, args.out, args.in, args.in, args.in, args.out, biased}, args.x,
                 args.weight, args.y);
  return OpStatus::kOk;
}

OpStatus Narrow(const NarrowArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.list != nullptr) {
    for (int64_t r = 0; r < args.rows; ++r) {
      simd::Narrow(args.list[r].from, args.n, args.dtype, args.list[r].to);
    }
    return OpStatus::kOk;
  }
  if (args.places == nullptr) {
    simd::Narrow(args.x, args.rows * args.n, args.dtype, args.y);
    return OpStatus::kOk;
  }
  const int64_t row_bytes = args.n * ElementBytes(args.dtype);
  for (int64_t r = 0; r < args.rows; ++r) {
    simd::Narrow(args.x + r * args.n, args.n, args.dtype,
                 static_cast<char*>(args.y) + args.places[r] * row_bytes);
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
