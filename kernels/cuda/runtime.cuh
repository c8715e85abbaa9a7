// SPDX-License-Identifier: Apache-2.0
//
// CUDA, or for a host compiler the part of it that the kernels use (kernels/simt/simt.h), and the
// launch of kernels on either.
#ifndef QUIRE_KERNELS_CUDA_RUNTIME_CUH_
#define QUIRE_KERNELS_CUDA_RUNTIME_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/cuda/launches.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#else
#include "kernels/simt/simt.h"
#endif

namespace quire::kernels::cuda {

inline constexpr int64_t kMaxGridX = 2147483647;
inline constexpr int64_t kMaxGridYZ = 65535;
/// Shared memory that a block may have without a request.
inline constexpr int64_t kSharedBytes = 48 * 1024;
inline constexpr unsigned kAllLanes = 0xffffffffu;

#if defined(__CUDACC__)
/// Converts a CUDA error to an OpStatus, and clears it. No other code does.
inline OpStatus LastLaunch() {
  return cudaGetLastError() == cudaSuccess ? OpStatus::kOk : OpStatus::kDeviceError;
}

/// Multiprocessors of the current device; 1 without a device, so that the launch reports it.
inline int64_t Multiprocessors() {
  int device = 0;
  int count = 1;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    (void)cudaGetLastError();
    return 1;
  }
  return count;
}

template <typename T>
__device__ T* DynamicShared() {
  extern __shared__ uint4 quire_dynamic_shared[];
  return reinterpret_cast<T*>(quire_dynamic_shared);
}

/// Starts copying 16 bytes from global to shared memory, or zeros if `there` is false. Both
/// addresses are multiples of 16; `from` must be valid in any case.
__device__ inline void CopyAsync16(void* to, const void* from, bool there) {
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes)
               : "memory");
}
/// Waits for this thread's copies; a barrier makes them visible to others.
__device__ inline void AwaitCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
/// Makes a group, possibly empty, of the copies that this thread has started since the last call.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits for this thread's groups except the newest kGroups.
template <int kGroups>
__device__ inline void AwaitCopiesBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

/// Permits launches of the kernel with up to `bytes` of dynamic shared memory. Pass the same number
/// at every call: it holds for all threads of the program.
template <typename... Params>
OpStatus AskForShared(void (*kernel)(Params...), int bytes) {
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) ==
      cudaSuccess) {
    return OpStatus::kOk;
  }
  (void)cudaGetLastError();
  return OpStatus::kDeviceError;
}

/// Blocks of the kernel that a multiprocessor runs at a time; 1 if unknown, so that the launch
/// reports it.
template <typename... Params>
int64_t BlocksPerMultiprocessor(void (*kernel)(Params...), int threads, size_t shared_bytes) {
  int blocks = 1;
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return 1;
  }
  return blocks > 0 ? blocks : 1;
}

/// Launches a kernel of 1 or more blocks on the stream.
template <typename... Params, typename... Args>
OpStatus Launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
                const Args&... args) {
  CountLaunch(stream);
  kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream)>>>(args...);
  return LastLaunch();
}
#else
inline int64_t Multiprocessors() { return 4; }

template <typename T>
T* DynamicShared() {
  return static_cast<T*>(simt::DynamicShared());
}

using simt::AwaitCopies;
using simt::CommitCopies;
using simt::CopyAsync16;
template <int kGroups>
void AwaitCopiesBut() {
  simt::AwaitCopiesBut(kGroups);
}

template <typename... Params>
OpStatus AskForShared(void (*kernel)(Params...), int bytes) {
  const bool given = simt::AskForShared(reinterpret_cast<const void*>(kernel), bytes);
  return given ? OpStatus::kOk : OpStatus::kDeviceError;
}

template <typename... Params>
int64_t BlocksPerMultiprocessor(void (*)(Params...), int, size_t) {
  return 3;
}

template <typename... Params, typename... Args>
OpStatus Launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
                const Args&... args) {
  CountLaunch(stream);
  const bool taken = simt::Launch({grid, block, shared_bytes}, stream,
                                  std::make_shared<const simt::Call<Params...>>(kernel, args...));
  return taken ? OpStatus::kOk : OpStatus::kDeviceError;
}
#endif

inline dim3 Grid(int64_t x, int64_t y = 1, int64_t z = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
}

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return DivideUp(a, b) * b; }

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_RUNTIME_CUH_
