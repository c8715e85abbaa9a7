// SPDX-License-Identifier: Apache-2.0
//
// The layers around attention: norms, rotations, gates, sums, gathers and a plain matrix product.
#include <algorithm>

#include "kernels/cpu/checks.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rotate.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kMaxBlocks = 65535;  ///< Most blocks of loops over elements, which stride.

/// Calls body(i) for this thread's share of 0..n-1.
template <typename Body>
__device__ void ForEach(int64_t n, const Body& body) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}
dim3 GridFor(int64_t n) { return Grid(std::min(DivideUp(n, kThreads), kMaxBlocks)); }

__global__ void __launch_bounds__(kThreads)
    RmsNormKernel(const float* x, const float* __restrict__ weight, float* y, int64_t dim,
                  int64_t stride, float eps) {
  const int64_t first = blockIdx.x * stride;
  float squares = 0;
  for (int64_t c = threadIdx.x; c < dim; c += kThreads) squares += x[first + c] * x[first + c];
  squares = BlockReduce(squares, 0.0f, Sum());
  const float inverse = 1.0f / sqrtf(squares / static_cast<float>(dim) + eps);
  for (int64_t c = threadIdx.x; c < dim; c += kThreads) {
    y[first + c] = x[first + c] * inverse * weight[c];
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) RopeKernel(RopeArgs args) {
  const int64_t half = args.rotary_dim / 2;
  ForEach(args.t * args.heads * half, [&](int64_t i) {
    const int64_t pair = i % half;
    const int64_t row = i / half;
    const int64_t position = args.positions[row / args.heads];
    if (position < 0 || position >= args.n_positions) return;
    auto* channels =
        static_cast<typename T::Raw*>(args.rows) + row * args.head_dim + args.rotary_first;
    auto* first = channels + (args.interleaved ? 2 * pair : pair);
    auto* second = first + (args.interleaved ? 1 : half);
    float a = T::Widen(*first);
    float b = T::Widen(*second);
    Rotate(args.cos_table[position * half + pair], args.sin_table[position * half + pair], &a, &b);
    *first = T::Narrow(a);
    *second = T::Narrow(b);
  });
}

__global__ void __launch_bounds__(kThreads) SiluMulKernel(SiluMulArgs args) {
  ForEach(args.rows * args.dim, [&](int64_t i) {
    const int64_t row = i / args.dim;
    const int64_t c = i % args.dim;
    const float gate = args.gate[row * args.gate_stride + c];
    float z = gate;
    if (args.function == GateFunction::kGeluTanh) {
      z = 1.5957691216057308f * (gate + 0.044715f * gate * gate * gate);  // 2 sqrt(2/pi)
    }
    args.y[i] = gate / (1.0f + expf(-z)) * args.up[row * args.up_stride + c];
  });
}

__global__ void __launch_bounds__(kThreads)
    AddKernel(const float* a, const float* b, float* y, int64_t n) {
  ForEach(n, [&](int64_t i) { y[i] = a[i] + b[i]; });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) NarrowKernel(NarrowArgs args) {
  auto* y = static_cast<typename T::Raw*>(args.y);
  ForEach(args.rows * args.n, [&](int64_t i) {
    if (args.list != nullptr) {
      const NarrowRow row = args.list[i / args.n];
      static_cast<typename T::Raw*>(row.to)[i % args.n] = T::Narrow(row.from[i % args.n]);
      return;
    }
    int64_t at = i;
    if (args.places != nullptr) {
      const int64_t row = args.places[i / args.n];
      if (row < 0 || row >= args.y_rows) return;
      at = row * args.n + i % args.n;
    }
    y[at] = T::Narrow(args.x[i]);
  });
}

__global__ void __launch_bounds__(kThreads) EmbedKernel(EmbedArgs args) {
  ForEach(args.rows * args.dim, [&](int64_t i) {
    const int64_t id = args.ids[i / args.dim];
    if (id < 0 || id >= args.vocab) return;
    args.y[i] = args.scale * args.table[id * args.dim + i % args.dim];
  });
}

__global__ void __launch_bounds__(kThreads) SoftCapKernel(SoftCapArgs args) {
  ForEach(args.n, [&](int64_t i) { args.y[i] = args.cap * tanhf(args.x[i] / args.cap); });
}

constexpr int64_t kWarp = 32;
constexpr int64_t kFewRows = 8;
/// Small blocks give all processors a part of a short matrix.
constexpr int64_t kFewThreads = 128;

/// Adds the products of kSteps vectors of kWide inputs, a warp's width apart, for kOuts outputs and
/// all rows. All weights are loaded before the first is used.
template <int kRows, int kOuts, int kWide, int kSteps>
__device__ void AddProducts(const float* const* weights, const float* const* rows, int64_t i,
                            float (*sums)[kOuts]) {
  using Inputs = Chunk<float, kWide>;
  Inputs w[kSteps][kOuts];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int o = 0; o < kOuts; ++o) {
      w[s][o] = LoadAligned<Inputs>(weights[o] + i + s * kWarp * kWide);
    }
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto x = LoadAligned<Inputs>(rows[r] + i + s * kWarp * kWide);
#pragma unroll
      for (int o = 0; o < kOuts; ++o) {
#pragma unroll
        for (int j = 0; j < kWide; ++j) sums[r][o] += x.at[j] * w[s][o].at[j];
      }
    }
  }
}

/// The arguments with the pointers of head `h`. Its rows lie as far apart as those of all heads.
__device__ inline MatmulArgs HeadOf(const MatmulArgs& args, int64_t h) {
  MatmulArgs head = args;
  head.x += h * args.in;
  head.weight += h * args.out * args.in;
  if (args.bias != nullptr) head.bias += h * args.out;
  head.y += h * args.out;
  return head;
}

/// Serves few rows, at most kRows, where the work is reading the weights. A warp handles kOuts
/// outputs for all rows. A lane reads kWide inputs at a time.
template <int kRows, int kOuts, int kWide>
__device__ void SumFewRows(const MatmulArgs& args, int64_t first, float (*sums)[kOuts]) {
  constexpr int kSteps = kOuts > 2 ? 1 : 4;
  constexpr int64_t kStep = kWarp * kWide;
  const float* weights[kOuts];
  const float* rows[kRows];
#pragma unroll
  for (int o = 0; o < kOuts; ++o) {  // Indices beyond the last are clamped to it.
    weights[o] = args.weight + (first + o < args.out ? first + o : args.out - 1) * args.in;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    rows[r] = args.x + (r < args.rows ? r : args.rows - 1) * args.heads * args.in;
  }
  int64_t i = threadIdx.x % kWarp * kWide;
  for (; i + (kSteps - 1) * kStep < args.in; i += kSteps * kStep) {
    AddProducts<kRows, kOuts, kWide, kSteps>(weights, rows, i, sums);
  }
#pragma unroll 1
  for (; i < args.in; i += kStep) AddProducts<kRows, kOuts, kWide, 1>(weights, rows, i, sums);
}

template <int kRows, int kOuts>
__global__ void __launch_bounds__(kFewThreads, kRows > 2 ? 4 : 5)
    MatmulFewRowsKernel(MatmulArgs all) {
  const MatmulArgs args = HeadOf(all, blockIdx.y);
  const int64_t first = (int64_t{blockIdx.x} * kFewThreads + threadIdx.x) / kWarp * kOuts;
  if (first >= args.out) return;  // The same for the whole warp.
  float sums[kRows][kOuts] = {};
  if (args.in % 4 == 0 && IsAligned(args.weight, 16) && IsAligned(args.x, 16)) {
    SumFewRows<kRows, kOuts, 4>(args, first, sums);
  } else {
    SumFewRows<kRows, kOuts, 1>(args, first, sums);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int o = 0; o < kOuts; ++o) {
      const float sum = WarpReduce(sums[r][o], Sum());
      if (threadIdx.x % kWarp != 0 || r >= args.rows || first + o >= args.out) continue;
      args.y[r * args.heads * args.out + first + o] =
          sum + (args.bias != nullptr ? args.bias[first + o] : 0.0f);
    }
  }
}

template <int kRows, int kOuts>
OpStatus LaunchFewRows(const MatmulArgs& args) {
  const int64_t blocks = DivideUp(args.out, kFewThreads / kWarp * kOuts);
  if (blocks > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(MatmulFewRowsKernel<kRows, kOuts>, Grid(blocks, args.heads), Grid(kFewThreads), 0,
                args.stream, args);
}

constexpr int kSide = 64;  ///< Outputs of a block, in both directions.
constexpr int kDeep = 16;  ///< Inputs of a step.
constexpr int kEach = 4;   ///< Outputs of a thread, in both directions.

/// Copies [kSide][kDeep] of a row-major matrix, transposed; zeros outside. `stride`: between rows.
__device__ inline void LoadSide(const float* from, int64_t first_row, int64_t rows, int64_t stride,
                                int64_t first, int64_t columns, float (*to)[kSide + 1]) {
  for (int i = threadIdx.x; i < kSide * kDeep; i += static_cast<int>(kThreads)) {
    const int64_t row = first_row + i / kDeep;
    const int64_t column = first + i % kDeep;
    const bool inside = row < rows && column < columns;
    to[i % kDeep][i / kDeep] = inside ? from[row * stride + column] : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads) MatmulKernel(MatmulArgs all) {
  const MatmulArgs args = HeadOf(all, blockIdx.z);
  __shared__ float x[kDeep][kSide + 1];
  __shared__ float weight[kDeep][kSide + 1];
  const int64_t first_out = int64_t{blockIdx.x} * kSide;
  const int64_t first_row = int64_t{blockIdx.y} * kSide;
  const int across = static_cast<int>(threadIdx.x) % 16;
  const int down = static_cast<int>(threadIdx.x) / 16;
  float sums[kEach][kEach] = {};
  for (int64_t first = 0; first < args.in; first += kDeep) {
    LoadSide(args.x, first_row, args.rows, args.heads * args.in, first, args.in, x);
    LoadSide(args.weight, first_out, args.out, args.in, first, args.in, weight);
    __syncthreads();
    for (int i = 0; i < kDeep; ++i) {
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
#pragma unroll
        for (int o = 0; o < kEach; ++o) {
          sums[r][o] += x[i][down + 16 * r] * weight[i][across + 16 * o];
        }
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < kEach; ++r) {
    for (int o = 0; o < kEach; ++o) {
      const int64_t row = first_row + down + 16 * r;
      const int64_t out = first_out + across + 16 * o;
      if (row >= args.rows || out >= args.out) continue;
      args.y[row * args.heads * args.out + out] =
          sums[r][o] + (args.bias != nullptr ? args.bias[out] : 0.0f);
    }
  }
}

}  // namespace

OpStatus RmsNorm(const RmsNormArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  if (args.rows > kMaxGridX) return OpStatus::kUnsupported;
  return Launch(RmsNormKernel, Grid(args.rows), Grid(kThreads), 0, args.stream, args.x, args.weight,
                args.y, args.dim, args.stride != 0 ? args.stride : args.dim, args.eps);
}

OpStatus Rope(const RopeArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  const int64_t pairs = args.t * args.heads * (args.rotary_dim / 2);
  if (pairs == 0) return OpStatus::kOk;
  return WithFormat(args.dtype, [&](auto format) {
    return Launch(RopeKernel<decltype(format)>, GridFor(pairs), Grid(kThreads), 0, args.stream,
                  args);
  });
}

OpStatus SiluMul(const SiluMulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  SiluMulArgs strided = args;
  if (strided.gate_stride == 0) strided.gate_stride = args.dim;
  if (strided.up_stride == 0) strided.up_stride = args.dim;
  return Launch(SiluMulKernel, GridFor(args.rows * args.dim), Grid(kThreads), 0, args.stream,
                strided);
}

OpStatus Add(const AddArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n == 0) return OpStatus::kOk;
  return Launch(AddKernel, GridFor(args.n), Grid(kThreads), 0, args.stream, args.a, args.b, args.y,
                args.n);
}

OpStatus Embed(const EmbedArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  return Launch(EmbedKernel, GridFor(args.rows * args.dim), Grid(kThreads), 0, args.stream, args);
}

OpStatus SoftCap(const SoftCapArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n == 0) return OpStatus::kOk;
  return Launch(SoftCapKernel, GridFor(args.n), Grid(kThreads), 0, args.stream, args);
}

OpStatus Narrow(const NarrowArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  const int64_t elements = args.rows * args.n;
  if (elements == 0) return OpStatus::kOk;
  return WithFormat(args.dtype, [&](auto format) {
    return Launch(NarrowKernel<decltype(format)>, GridFor(elements), Grid(kThreads), 0, args.stream,
                  args);
  });
}

OpStatus Matmul(const MatmulArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.rows == 0) return OpStatus::kOk;
  if (args.heads > kMaxGridYZ) return OpStatus::kUnsupported;
  if (args.rows == 1) return LaunchFewRows<1, 2>(args);
  if (args.rows == 2) return LaunchFewRows<2, 2>(args);
  if (args.rows <= 4) return LaunchFewRows<4, 2>(args);
  if (args.rows <= kFewRows) return LaunchFewRows<8, 4>(args);
  const dim3 grid = Grid(DivideUp(args.out, kSide), DivideUp(args.rows, kSide), args.heads);
  if (args.out > kMaxGridX || DivideUp(args.rows, kSide) > kMaxGridYZ) {
    return OpStatus::kUnsupported;
  }
  return Launch(MatmulKernel, grid, Grid(kThreads), 0, args.stream, args);
}

}  // namespace quire::kernels::cuda
