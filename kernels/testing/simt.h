// SPDX-License-Identifier: Apache-2.0
//
// The part of CUDA that kernels/cuda uses, on the CPU, so that the kernels' own source passes the
// op conformance suite where there is no GPU. A host compiler sees this in place of cuda_runtime.h.
//
// Blocks run one after the other. The threads of a block take turns on one OS thread: each runs to
// its next barrier or warp operation. The order of the turns alternates, so that a missing barrier
// shows whichever side runs first. Launch limits of the smallest supported GPU are enforced.
// What it cannot show: races between blocks, the order of memory within a warp, speed.
// Thread-safety: one launch at a time.
#ifndef QUIRE_KERNELS_TESTING_SIMT_H_
#define QUIRE_KERNELS_TESTING_SIMT_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Blocks follow each other, so one copy is enough. It keeps what the last block left, as on a GPU.
#define __shared__ static

struct dim3 {
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

// Of the thread that has its turn.
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace quire::simt {

inline constexpr int kWarp = 32;
inline constexpr unsigned kMaxThreads = 1024;
inline constexpr size_t kMaxShared = 99 * 1024;

/// Runs `thread` for every thread of the grid. False when a GPU would refuse the launch.
bool Run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);

/// Dynamic shared memory of the running block, aligned to 16 bytes.
void* DynamicShared();

/// Waits for the other threads of the block; those that have returned do not count.
void SyncBlock();

/// Gives `mine` to the warp and waits for its other lanes; the answer has one entry a lane. The
/// threads of the whole warp take part.
const uint64_t* Exchange(uint64_t mine);

template <typename T>
uint64_t Bits(T value) {
  static_assert(sizeof value <= sizeof(uint64_t));
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T FromBits(uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline unsigned Lane() { return threadIdx.x % kWarp; }

}  // namespace quire::simt

inline void __syncthreads() { quire::simt::SyncBlock(); }
inline void __syncwarp() { quire::simt::Exchange(0); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const uint64_t* lanes = quire::simt::Exchange(quire::simt::Bits(value));
  return quire::simt::FromBits<T>(lanes[quire::simt::Lane() ^ static_cast<unsigned>(mask)]);
}
/// From `distance` lanes below; the lowest lanes keep their own.
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const uint64_t* lanes = quire::simt::Exchange(quire::simt::Bits(value));
  const unsigned lane = quire::simt::Lane();
  return quire::simt::FromBits<T>(lanes[lane >= distance ? lane - distance : lane]);
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  const uint64_t* lanes = quire::simt::Exchange(vote ? 1 : 0);
  unsigned votes = 0;
  for (int lane = 0; lane < quire::simt::kWarp; ++lane) {
    votes |= static_cast<unsigned>(lanes[lane]) << lane;
  }
  return votes;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int atomicAdd(int* at, int value) {
  const int before = *at;
  *at += value;
  return before;
}
// Never contracted: the host compiler has no fused operation to contract to on its baseline.
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }

#endif  // QUIRE_KERNELS_TESTING_SIMT_H_
