// SPDX-License-Identifier: Apache-2.0
//
// One block summarises one unit. The arithmetic is that of the reference, in the same order and
// partly in f64. Every rounding is explicit, so the digests are equal to the bit.
#include "kernels/cpu/checks.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.h"

namespace quire::kernels::cuda {
namespace {

constexpr int64_t kThreads = 128;
constexpr int kWide = 8;  ///< Channels that a thread reads at a time, if possible.

struct Shape {
  const void* units;
  const int32_t* valid_rows;
  void* digests;
  int64_t unit_stride, n_units, p, d, elements;
  DigestKind kind;
  int64_t rotary_dim;
  bool interleaved;
  const DigestJob* jobs;  ///< A row of the grid each; null for none.
};

/// Smallest and largest of some keys; both NaN if one of them is.
struct Range {
  float low, high;
};
__device__ inline Range RangeOfOne(float key) { return {key, key}; }
/// Joins two ranges. The first of equal keys wins, and the first NaN.
__device__ inline Range Joined(Range first, Range second) {
  if (!IsNaN(first.low) && !(second.low >= first.low)) first.low = second.low;
  if (!IsNaN(first.high) && !(second.high <= first.high)) first.high = second.high;
  return first;
}

/// The keys of one unit, and the place of its digest.
template <typename Key, typename Out>
struct Unit {
  const typename Key::Raw* keys;
  typename Out::Raw* out;
  int64_t rows, d;

  __device__ double At(int64_t row, int64_t channel) const {
    return Key::Widen(keys[row * d + channel]);
  }
  __device__ void Store(int64_t element, double value) const {
    out[element] = Out::Narrow(static_cast<float>(value));
  }
  __device__ double Stored(int64_t element) const { return Out::Widen(out[element]); }

  __device__ Range RangeOf(int64_t channel) const {
    Range range = RangeOfOne(Key::Widen(keys[channel]));
#pragma unroll 4
    for (int64_t r = 1; r < rows; ++r) {
      range = Joined(range, RangeOfOne(Key::Widen(keys[r * d + channel])));
    }
    return range;
  }
  __device__ void StoreMean(int64_t channel) const {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum = __dadd_rn(sum, At(r, channel));
    Store(channel, __dadd_rn(sum / static_cast<double>(rows), __dmul_rn(0, sum)));
  }
  __device__ void StoreCentre(int64_t channel, Range range) const {
    const double middle = __dadd_rn(range.low, range.high) / 2;
    Store(channel, __dadd_rn(middle, __dmul_rn(0, middle)));
  }
  __device__ void StoreDeviation(int64_t channel) const {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const double off = __dadd_rn(At(r, channel), -Stored(channel));
      sum = __dadd_rn(sum, off < 0 ? -off : off);
    }
    Store(d + channel, sum / static_cast<double>(rows));
  }
  /// Stores `value` or the next larger number of the output type; value >= 0 or NaN.
  __device__ void StoreRoundedUp(int64_t element, double value) const {
    float rounded = static_cast<float>(value);
    if (rounded < value) rounded = FloatFromBits(FloatBits(rounded) + 1);
    Store(element, rounded);
    if (sizeof(typename Out::Raw) == 4 || !(Stored(element) < rounded)) return;
    uint16_t bits;
    memcpy(&bits, out + element, sizeof bits);
    ++bits;
    memcpy(out + element, &bits, sizeof bits);
  }
  /// Squared distance of a row from the stored centre, over the listed channels.
  __device__ double Away(int64_t row, int64_t a, int64_t b) const {
    const double first = __dadd_rn(At(row, a), -Stored(a));
    const double second = __dadd_rn(At(row, b), -Stored(b));
    return __dadd_rn(__dmul_rn(first, first), __dmul_rn(second, second));
  }
  __device__ double Away(int64_t row) const {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double off = __dadd_rn(At(row, c), -Stored(c));
      sum = __dadd_rn(sum, __dmul_rn(off, off));
    }
    return sum;
  }
};

__device__ inline double MaxOrNaN(double a, double b) { return b != b || b > a ? b : a; }

template <typename U>
__device__ void StoreDiscs(const U& unit, const Shape& shape) {
  const int64_t half = shape.rotary_dim / 2;
  for (int64_t i = threadIdx.x; i < shape.d / 2; i += kThreads) {
    const bool neighbours = shape.interleaved || i >= half;
    const int64_t a = neighbours ? 2 * i : i;
    const int64_t b = neighbours ? a + 1 : i + half;
    double radius = 0;
    for (int64_t r = 0; r < unit.rows && radius == radius; ++r) {
      radius = MaxOrNaN(radius, sqrt(unit.Away(r, a, b)));
    }
    unit.StoreRoundedUp(shape.d + i, radius);
  }
}

/// Thread r handles the distances of rows r, r + kThreads, ...
template <typename U>
__device__ void StoreBall(const U& unit, const Shape& shape) {
  __shared__ double radii[kThreads];
  double radius = 0;
  for (int64_t r = threadIdx.x; r < unit.rows; r += kThreads) {
    if (radius == radius) radius = MaxOrNaN(radius, sqrt(unit.Away(r)));
  }
  radii[threadIdx.x] = radius;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int64_t i = 1; i < kThreads; ++i) {
    if (radius == radius) radius = MaxOrNaN(radius, radii[i]);
  }
  unit.StoreRoundedUp(shape.d, radius);
}

/// Calls use(channel, range) for each channel, and reads its keys once. Threads read kWide channels
/// at a time from consecutive stretches of rows, and join them in order.
template <typename Key, typename Out, typename Use>
__device__ void ForEachRange(const Unit<Key, Out>& unit, const Use& use) {
  using Keys = Chunk<typename Key::Raw, kWide>;
  __shared__ Range ranges[kThreads * kWide];  // [parts][d]
  const auto d = static_cast<int>(unit.d);
  const auto rows = static_cast<int>(unit.rows);
  if (unit.d % kWide != 0 || unit.d > kThreads * kWide || !IsAligned(unit.keys, 16)) {
    for (int64_t c = threadIdx.x; c < unit.d; c += kThreads) use(c, unit.RangeOf(c));
    return;
  }
  const int lanes = d / kWide;
  const int most_parts = static_cast<int>(kThreads) / lanes;
  const int part_rows = (rows + most_parts - 1) / most_parts;
  const int parts = (rows + part_rows - 1) / part_rows;
  const int part = static_cast<int>(threadIdx.x) / lanes;
  const int channel = static_cast<int>(threadIdx.x) % lanes * kWide;
  if (part < parts) {
    const int first = part * part_rows;
    const int end = first + part_rows < rows ? first + part_rows : rows;
    const typename Key::Raw* keys = unit.keys + channel;
    Range mine[kWide];
    const auto begin = LoadAligned<Keys>(keys + int64_t{first} * d);
#pragma unroll
    for (int i = 0; i < kWide; ++i) mine[i] = RangeOfOne(Key::Widen(begin.at[i]));
#pragma unroll 4
    for (int r = first + 1; r < end; ++r) {
      const auto row = LoadAligned<Keys>(keys + int64_t{r} * d);
#pragma unroll
      for (int i = 0; i < kWide; ++i) {
        mine[i] = Joined(mine[i], RangeOfOne(Key::Widen(row.at[i])));
      }
    }
#pragma unroll
    for (int i = 0; i < kWide; ++i) ranges[part * d + channel + i] = mine[i];
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < d; c += static_cast<int>(kThreads)) {
    Range range = ranges[c];
    for (int i = 1; i < parts; ++i) range = Joined(range, ranges[i * d + c]);
    use(c, range);
  }
}

template <typename Key, typename Out>
__global__ void __launch_bounds__(kThreads, 8) DigestKernel(Shape shape) {
  const int64_t u = blockIdx.x;
  if (shape.jobs != nullptr) {
    shape.units = shape.jobs[blockIdx.y].units;
    shape.digests = shape.jobs[blockIdx.y].digests;
  }
  const int64_t rows = shape.valid_rows == nullptr ? shape.p : shape.valid_rows[u];
  if (rows < 1 || rows > shape.p) return;
  const Unit<Key, Out> unit{
      static_cast<const typename Key::Raw*>(shape.units) + u * shape.unit_stride,
      static_cast<typename Out::Raw*>(shape.digests) + u * shape.elements, rows, shape.d};
  if (IsMean(shape.kind)) {
    for (int64_t c = threadIdx.x; c < shape.d; c += kThreads) unit.StoreMean(c);
    return;
  }
  ForEachRange(unit, [&](int64_t c, Range range) {
    if (shape.kind == DigestKind::kMinMax) {
      unit.Store(c, range.low);
      unit.Store(shape.d + c, range.high);
    } else {
      unit.StoreCentre(c, range);
      if (shape.kind == DigestKind::kCentreDeviation) unit.StoreDeviation(c);
    }
  });
  __syncthreads();  // Radii are measured from centres that other threads have stored.
  if (shape.kind == DigestKind::kDisc) StoreDiscs(unit, shape);
  if (shape.kind == DigestKind::kCentreRadius) StoreBall(unit, shape);
}

template <typename Key, typename Out>
OpStatus LaunchDigest(const DigestArgs& args, const Shape& shape) {
  const int64_t jobs = args.jobs != nullptr ? args.n_jobs : 1;
  return Launch(DigestKernel<Key, Out>, Grid(args.n_units, jobs), Grid(kThreads), 0, args.stream,
                shape);
}

}  // namespace

OpStatus Digest(const DigestArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0 || (args.jobs != nullptr && args.n_jobs == 0)) return OpStatus::kOk;
  if (args.n_units > kMaxGridX || args.n_jobs > kMaxGridYZ) return OpStatus::kUnsupported;
  const Shape shape{
      args.units,   args.valid_rows,  args.digests,     args.unit_stride,
      args.n_units, args.page_tokens, args.head_dim,    DigestElements(args.kind, args.head_dim),
      args.kind,    args.rotary_dim,  args.interleaved, args.jobs};
  return WithFormat(args.dtype, [&](auto format) {
    using Key = decltype(format);
    if (args.out_dtype == DType::kF32) return LaunchDigest<Key, F32>(args, shape);
    return LaunchDigest<Key, Key>(args, shape);
  });
}

}  // namespace quire::kernels::cuda
