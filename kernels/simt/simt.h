// SPDX-License-Identifier: Apache-2.0
//
// The part of CUDA that kernels/cuda uses, on the CPU. The kernels' own source thereby passes the
// op conformance suite without a GPU. A host compiler includes this in place of the device side of
// cuda_runtime.h; the host side is include/cuda_runtime.h.
//
// Blocks run one after the other, in a random order per launch. The threads of a block take turns
// on one OS thread. Each runs to its next barrier or warp operation, in an order that changes from
// turn to turn. Copies to shared memory arrive when they are awaited, not before.
//
// A launch that a GPU would refuse is refused, with the reason on stderr. These faults end the
// program, with the kernel, the block, the thread and the place:
//   * a barrier that not every thread of the block reaches, or that they reach at several places;
//   * a warp operation that a lane of the mask misses, or where it takes part in another one;
//   * two threads that access the same bytes, one of them writing, without a barrier between them
//     (or, in different blocks, at all), unless both are atomic;
//   * a read of shared memory before it is written;
//   * an access to memory that is neither shared, nor the thread's own, nor the device's
//     (WatchMemory): beyond the end of an array, of the host, or released;
//   * a copy to shared memory of addresses that are not aligned for it.
//
// Checks of single accesses need sources that are compiled with -fsanitize=thread and not linked
// with it. The compiler's calls for each access then reach access.cc. Built with AddressSanitizer
// and UndefinedBehaviorSanitizer instead, those check bounds and alignment, and races are not
// checked.
//
// Not shown: speed, register limits, the device compiler's output, rounding that differs in the
// device's functions, races with the host's own threads. Every warp operation is assumed to order
// the memory of its lanes, as __syncwarp does.
// Thread-safety: one launch at a time (streams.cc holds a lock).
#ifndef QUIRE_KERNELS_SIMT_SIMT_H_
#define QUIRE_KERNELS_SIMT_SIMT_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One copy is enough, as blocks follow each other. It is overwritten before each block.
#define __shared__ static

struct dim3 {
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};
// Vectors are copied in one access each, as on the device, so that their alignment is checked. The
// compiler may implement a structure's own copy by memcpy, which is not checked.
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint4() = default;
  constexpr uint4(uint32_t x_, uint32_t y_, uint32_t z_, uint32_t w_)
      : x(x_), y(y_), z(z_), w(w_) {}
  [[gnu::always_inline]] uint4(const uint4& other) { *this = other; }
  [[gnu::always_inline]] uint4& operator=(const uint4& other) {
    using All [[gnu::vector_size(16), gnu::may_alias]] = uint32_t;
    *reinterpret_cast<All*>(this) = *reinterpret_cast<const All*>(&other);
    return *this;
  }
  uint32_t x, y, z, w;
};

namespace quire::simt {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxThreads = 1024;
/// Shared memory of a block without a request, and the most on request.
inline constexpr size_t kMaxShared = 48 * 1024;
inline constexpr size_t kMaxAskedShared = 99 * 1024;
inline constexpr size_t kMaxParameters = 4096;

/// State of the running thread.
struct Here {
  dim3 thread, block, block_size, grid;
};
inline Here here;

/// A line of a kernel's source.
struct Place {
  const char* file;
  int line;
};

/// A kernel and copies of its arguments.
class Work {
 public:
  virtual ~Work() = default;
  /// Runs the kernel as the running thread.
  virtual void Thread() const = 0;
  virtual const void* kernel() const = 0;
  virtual size_t bytes() const = 0;  ///< Size of this object.
};

template <typename... Params>
class Call final : public Work {
 public:
  template <typename... Args>
  explicit Call(void (*kernel)(Params...), const Args&... args)
      : kernel_(kernel), params_(args...) {}
  void Thread() const override { std::apply(kernel_, params_); }
  const void* kernel() const override { return reinterpret_cast<const void*>(kernel_); }
  size_t bytes() const override { return sizeof *this; }

 private:
  static_assert((sizeof(Params) + ... + 0) <= kMaxParameters);
  void (*const kernel_)(Params...);
  const std::tuple<Params...> params_;
};

struct Size {
  dim3 grid, block;
  size_t shared_bytes;
};

/// Puts the work on the stream, where it runs when the stream is waited for; runs it at once on the
/// null stream. False when a GPU would refuse it.
bool Launch(const Size& size, void* stream, std::shared_ptr<const Work> work);

/// Permits launches of the kernel with `bytes` of dynamic shared memory. False when a GPU would
/// refuse.
bool AskForShared(const void* kernel, int bytes);

/// True if a GPU would accept the launch; otherwise stderr has the reason.
bool MayLaunch(const Size& size, const Work& work);
/// Runs `work` for every thread of a grid. REQUIRES: MayLaunch.
void Run(const Size& size, const Work& work);

/// Restricts kernels to watched memory, until Unwatch. Watched memory does not overlap. While
/// nothing is watched, kernels may access all memory.
void WatchMemory(const void* memory, size_t bytes);
void UnwatchMemory(const void* memory);

/// Seeds the random orders.
void SetSeed(uint32_t seed);

// Called by kernels:

/// Dynamic shared memory of the running block, aligned to 16 bytes.
void* DynamicShared();
/// Waits for every thread of the block.
void SyncBlock(Place place);
/// Waits for the lanes of the mask.
void SyncWarp(unsigned mask, Place place);
/// The value of lane `from`, once all lanes of the mask have called.
uint64_t Exchange(unsigned mask, uint64_t mine, unsigned from, Place place);
/// The lanes of the mask that vote for it.
unsigned Ballot(unsigned mask, bool vote, Place place);
int AtomicAdd(int* at, int value);
void CopyAsync16(void* to, const void* from, bool there);
void AwaitCopies();
void CommitCopies();
/// Waits for the groups of copies that the thread has committed, except the newest `groups`.
void AwaitCopiesBut(int groups);

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

inline unsigned Lane() {
  return (here.thread.x + here.block_size.x * (here.thread.y + here.block_size.y * here.thread.z)) %
         kWarp;
}

}  // namespace quire::simt

#define threadIdx (::quire::simt::here.thread)
#define blockIdx (::quire::simt::here.block)
#define blockDim (::quire::simt::here.block_size)
#define gridDim (::quire::simt::here.grid)

// The default arguments are those of the caller's line.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  quire::simt::SyncBlock({file, line});
}
inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  quire::simt::SyncWarp(mask, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, unsigned bits, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  return quire::simt::FromBits<T>(quire::simt::Exchange(mask, quire::simt::Bits(value),
                                                        quire::simt::Lane() ^ bits, {file, line}));
}
/// The value from `distance` lanes below; the lowest lanes keep their own.
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  const unsigned lane = quire::simt::Lane();
  return quire::simt::FromBits<T>(quire::simt::Exchange(
      mask, quire::simt::Bits(value), lane >= distance ? lane - distance : lane, {file, line}));
}
inline unsigned __ballot_sync(unsigned mask, bool vote, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return quire::simt::Ballot(mask, vote, {file, line});
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int atomicAdd(int* at, int value) { return quire::simt::AtomicAdd(at, value); }
// Never contracted: the host's baseline has no fused operation.
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }

#endif  // QUIRE_KERNELS_SIMT_SIMT_H_
