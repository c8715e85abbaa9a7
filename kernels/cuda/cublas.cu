// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <limits>

#include "kernels/cpu/checks.h"
#include "kernels/cuda/cublas.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime.cuh"

namespace quire::kernels::cuda {
namespace {

using Handle = void*;  // cublasHandle_t
constexpr int kSuccess = 0, kNoTranspose = 0, kTranspose = 1;
constexpr size_t kWorkspaceBytes = size_t{32}
                                   << 20;  ///< Size that cuBLAS recommends on the largest devices.
constexpr int64_t kFewRows = 8;            ///< Rows for which CudaKernels() has a kernel.

struct Functions {
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*set_stream)(Handle, cudaStream_t) = nullptr;
  int (*set_workspace)(Handle, void*, size_t) = nullptr;
  int (*sgemm)(Handle, int, int, int, int, int, const float*, const float*, int, const float*, int,
               const float*, float*, int) = nullptr;
};

/// State written by StartCublas, before the first product. Handles live as long as the process.
struct State {
  Functions functions;
  void* streams[2] = {};
  Handle handles[2] = {};
};
State& TheState() {
  static State state;
  return state;
}

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool Load(Functions* functions) {
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    return Find(library, "cublasCreate_v2", &functions->create) &&
           Find(library, "cublasDestroy_v2", &functions->destroy) &&
           Find(library, "cublasSetStream_v2", &functions->set_stream) &&
           Find(library, "cublasSetWorkspace_v2", &functions->set_workspace) &&
           Find(library, "cublasSgemm_v2", &functions->sgemm);
  }
  return false;
}

/// A handle for one stream, with a workspace.
struct Started {
  Handle handle = nullptr;
  void* workspace = nullptr;
};

/// Runs a product of zeros and waits for it, so that cuBLAS makes its one-time allocations now.
bool WarmUp(const Functions& functions, cudaStream_t stream, const Started& started) {
  constexpr int kSize = 64;
  constexpr size_t kMatrix = size_t{kSize} * kSize, kBytes = 3 * kMatrix * sizeof(float);
  void* memory = nullptr;
  if (cudaMallocAsync(&memory, kBytes, stream) != cudaSuccess) return false;
  float* const x = static_cast<float*>(memory);
  const float one = 1.0f, nothing = 0.0f;
  const bool given =
      cudaMemsetAsync(memory, 0, kBytes, stream) == cudaSuccess &&
      functions.sgemm(started.handle, kTranspose, kNoTranspose, kSize, kSize, kSize, &one, x, kSize,
                      x + kMatrix, kSize, &nothing, x + 2 * kMatrix, kSize) == kSuccess;
  const bool freed = cudaFreeAsync(memory, stream) == cudaSuccess;
  return cudaStreamSynchronize(stream) == cudaSuccess && given && freed;
}

/// Fills `started` as far as it succeeds. Setting the stream drops the workspace, so the workspace
/// is set second.
bool Start(const Functions& functions, cudaStream_t stream, Started* started) {
  return functions.create(&started->handle) == kSuccess &&
         functions.set_stream(started->handle, stream) == kSuccess &&
         cudaMallocAsync(&started->workspace, kWorkspaceBytes, stream) == cudaSuccess &&
         functions.set_workspace(started->handle, started->workspace, kWorkspaceBytes) ==
             kSuccess &&
         WarmUp(functions, stream, *started);
}

void Stop(const Functions& functions, cudaStream_t stream, const Started& started) {
  if (started.handle != nullptr) (void)functions.destroy(started.handle);
  if (started.workspace != nullptr) (void)cudaFreeAsync(started.workspace, stream);
}

Handle HandleOf(void* stream) {
  const State& state = TheState();
  if (stream == nullptr) return nullptr;
  for (int i = 0; i < 2; ++i) {
    if (state.streams[i] == stream) return state.handles[i];
  }
  return nullptr;
}

constexpr int64_t kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    BiasRowsKernel(const float* bias, float* y, int64_t n, int64_t out) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += step) {
    y[i] = bias[i % out];
  }
}

bool FitsInt(int64_t value) { return value <= std::numeric_limits<int>::max(); }

}  // namespace

bool StartCublas(void* stream, void* recorder) {
  Functions functions;
  if (!Load(&functions)) return false;
  const cudaStream_t streams[2] = {static_cast<cudaStream_t>(stream),
                                   static_cast<cudaStream_t>(recorder)};
  Started started[2];
  if (!Start(functions, streams[0], &started[0]) || !Start(functions, streams[1], &started[1])) {
    for (int i = 0; i < 2; ++i) Stop(functions, streams[i], started[i]);
    (void)cudaGetLastError();  // Otherwise the next launch would report this failure.
    return false;
  }
  State& state = TheState();
  state.functions = functions;
  for (int i = 0; i < 2; ++i) {
    state.streams[i] = streams[i];
    state.handles[i] = started[i].handle;
  }
  return true;
}

OpStatus MatmulByCublas(const MatmulArgs& args) {
  const Handle handle = HandleOf(args.stream);
  if (handle == nullptr || args.rows <= kFewRows || args.heads > 1) return Matmul(args);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (!FitsInt(args.rows) || !FitsInt(args.in) || !FitsInt(args.out)) return OpStatus::kUnsupported;
  const float one = 1.0f;
  const float onto = args.bias != nullptr ? 1.0f : 0.0f;
  if (args.bias != nullptr) {
    const int64_t n = args.rows * args.out;
    const OpStatus status =
        Launch(BiasRowsKernel, Grid(std::min(DivideUp(n, kThreads), kMaxGridYZ)), Grid(kThreads), 0,
               args.stream, args.bias, args.y, n, args.out);
    if (status != OpStatus::kOk) return status;
  }
  // cuBLAS is column-major: our matrices are the transposes of its own, and the product is y's.
  const int in = static_cast<int>(args.in), out = static_cast<int>(args.out);
  CountLaunch(args.stream);
  const int status =
      TheState().functions.sgemm(handle, kTranspose, kNoTranspose, out, static_cast<int>(args.rows),
                                 in, &one, args.weight, in, args.x, in, &onto, args.y, out);
  if (status == kSuccess) return OpStatus::kOk;
  (void)cudaGetLastError();
  return OpStatus::kDeviceError;
}

}  // namespace quire::kernels::cuda
