// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numbers>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/reference/reference.h"

namespace quire::kernels::reference {

OpStatus RmsNorm(const RmsNormArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t at = r * (args.stride != 0 ? args.stride : args.dim);
    const float* x = args.x + at;
    double squares = 0;
    for (int64_t c = 0; c < args.dim; ++c) squares += double{x[c]} * x[c];
    const double inverse =
        1.0 / std::sqrt(squares / static_cast<double>(args.dim) + double{args.eps});
    for (int64_t c = 0; c < args.dim; ++c) {
      args.y[at + c] = static_cast<float>(x[c] * inverse * args.weight[c]);
    }
  }
  return OpStatus::kOk;
}

OpStatus Rope(const RopeArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t half = args.rotary_dim / 2;
  for (int64_t i = 0; i < args.t; ++i) {
    for (int64_t h = 0; h < args.heads; ++h) {
      const int64_t row = (i * args.heads + h) * args.head_dim + args.rotary_first;
      for (int64_t pair = 0; pair < half; ++pair) {
        const int64_t first = row + (args.interleaved ? 2 * pair : pair);
        const int64_t second = first + (args.interleaved ? 1 : half);
        const float cos = args.cos_table[args.positions[i] * half + pair];
        const float sin = args.sin_table[args.positions[i] * half + pair];
        const float a = LoadElement(args.rows, first, args.dtype);
        const float b = LoadElement(args.rows, second, args.dtype);
        StoreElement(args.rows, first, args.dtype, a * cos - b * sin);
        StoreElement(args.rows, second, args.dtype, b * cos + a * sin);
      }
    }
  }
  return OpStatus::kOk;
}

namespace {

/// The exponent of 1 / (1 + exp(-z)), by which the gate is multiplied.
double GateExponent(double x, GateFunction function) {
  if (function == GateFunction::kSilu) return x;
  return 2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
}

}  // namespace

OpStatus SiluMul(const SiluMulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t gate_stride = args.gate_stride != 0 ? args.gate_stride : args.dim;
  const int64_t up_stride = args.up_stride != 0 ? args.up_stride : args.dim;
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t c = 0; c < args.dim; ++c) {
      const double x = args.gate[r * gate_stride + c];
      const double up = args.up[r * up_stride + c];
      const double z = GateExponent(x, args.function);
      args.y[r * args.dim + c] = static_cast<float>(x / (1.0 + std::exp(-z)) * up);
    }
  }
  return OpStatus::kOk;
}

OpStatus Matmul(const MatmulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  const int64_t outs = args.heads * args.out;
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t o = 0; o < outs; ++o) {  // Outputs of all heads.
      const float* x = args.x + (r * args.heads + o / args.out) * args.in;
      double sum = args.bias != nullptr ? args.bias[o] : 0.0;
      for (int64_t i = 0; i < args.in; ++i) sum += double{x[i]} * args.weight[o * args.in + i];
      args.y[r * outs + o] = static_cast<float>(sum);
    }
  }
  return OpStatus::kOk;
}

OpStatus Add(const AddArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t i = 0; i < args.n; ++i) args.y[i] = args.a[i] + args.b[i];
  return OpStatus::kOk;
}

OpStatus Embed(const EmbedArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* row = args.table + args.ids[r] * args.dim;
    for (int64_t c = 0; c < args.dim; ++c) args.y[r * args.dim + c] = args.scale * row[c];
  }
  return OpStatus::kOk;
}

OpStatus SoftCap(const SoftCapArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t i = 0; i < args.n; ++i) {
    args.y[i] = static_cast<float>(args.cap * std::tanh(double{args.x[i]} / args.cap));
  }
  return OpStatus::kOk;
}

OpStatus Narrow(const NarrowArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t place = args.places != nullptr ? args.places[r] : r;
    const float* from = args.list != nullptr ? args.list[r].from : args.x + r * args.n;
    void* to = args.list != nullptr ? args.list[r].to : args.y;
    const int64_t first = args.list != nullptr ? 0 : place * args.n;
    for (int64_t i = 0; i < args.n; ++i) StoreElement(to, first + i, args.dtype, from[i]);
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
