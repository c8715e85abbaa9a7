// SPDX-License-Identifier: Apache-2.0
//
// Products, sums and exponentials over f32: Dot, Dots, WeightedSum, MaxNumber, ExpInPlace, SiluMul,
// Add. simd_highway.cc includes it once per instruction set.
#if defined(QUIRE_KERNELS_CPU_SIMD_SIMD_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SIMD_REDUCE_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SIMD_REDUCE_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SIMD_REDUCE_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/simd/simd_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {

HWY_INLINE float Total(Vec v) { return hn::GetLane(hn::SumOfLanes(Tag(), v)); }

/// Prefetches n elements, but not into the first-level cache: rows a power of two apart would evict
/// each other there.
template <typename T>
HWY_INLINE void Prefetch(const T* from, int64_t n) {
  const char* const bytes = reinterpret_cast<const char*>(from);
  for (int64_t i = 0; i < n * static_cast<int64_t>(sizeof(T)); i += 64) {
    __builtin_prefetch(bytes + i, /*rw=*/0, /*locality=*/2);
  }
}

template <typename T>
HWY_INLINE float DotTyped(const float* a, const T* b, int64_t n) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  Vec even = hn::Zero(tag);
  Vec odd = hn::Zero(tag);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::MulAdd(LoadWide(tag, a + i), LoadWide(tag, b + i), even);
    odd = hn::MulAdd(LoadWide(tag, a + i + lanes), LoadWide(tag, b + i + lanes), odd);
  }
  ForVectors(n - i, [&](int64_t j, const auto& load, const auto&)
                        HWY_ATTR { even = hn::MulAdd(load(a + i + j), load(b + i + j), even); });
  return Total(hn::Add(even, odd));
}

HWY_NOINLINE float DotImpl(const float* a, const float* b, int64_t n) { return DotTyped(a, b, n); }

/// Out[0..3] = a . (four rows of b).
template <typename T>
HWY_INLINE void FourDots(const float* a, const T* b, int64_t b_stride, int64_t d, float* out) {
  const Tag tag;
  Vec s0 = hn::Zero(tag), s1 = s0, s2 = s0, s3 = s0;
  ForVectors(d, [&](int64_t c, const auto& load, const auto&) HWY_ATTR {
    const Vec query = load(a + c);
    s0 = hn::MulAdd(query, load(b + c), s0);
    s1 = hn::MulAdd(query, load(b + b_stride + c), s1);
    s2 = hn::MulAdd(query, load(b + 2 * b_stride + c), s2);
    s3 = hn::MulAdd(query, load(b + 3 * b_stride + c), s3);
  });
  out[0] = Total(s0);
  out[1] = Total(s1);
  out[2] = Total(s2);
  out[3] = Total(s3);
}

/// FourDots for two rows of a; equal to it to the bit.
template <typename T>
HWY_INLINE void TwiceFourDots(const float* a, const T* b, int64_t b_stride, int64_t d, float* out,
                              int64_t out_stride) {
  const Tag tag;
  Vec s0 = hn::Zero(tag), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
  ForVectors(d, [&](int64_t c, const auto& load, const auto&) HWY_ATTR {
    const Vec first = load(a + c), second = load(a + d + c);
    const Vec b0 = load(b + c), b1 = load(b + b_stride + c);
    s0 = hn::MulAdd(first, b0, s0);
    t0 = hn::MulAdd(second, b0, t0);
    s1 = hn::MulAdd(first, b1, s1);
    t1 = hn::MulAdd(second, b1, t1);
    const Vec b2 = load(b + 2 * b_stride + c), b3 = load(b + 3 * b_stride + c);
    s2 = hn::MulAdd(first, b2, s2);
    t2 = hn::MulAdd(second, b2, t2);
    s3 = hn::MulAdd(first, b3, s3);
    t3 = hn::MulAdd(second, b3, t3);
  });
  out[0] = Total(s0);
  out[1] = Total(s1);
  out[2] = Total(s2);
  out[3] = Total(s3);
  out += out_stride;
  out[0] = Total(t0);
  out[1] = Total(t1);
  out[2] = Total(t2);
  out[3] = Total(t3);
}

/// Reads b once: four rows of it stay in the cache while all rows of a are multiplied with them.
template <typename T>
HWY_INLINE void DotsTyped(const float* a, int64_t m, const T* b, const StoredRows& rows, int64_t n,
                          int64_t d, float* out) {
  const auto* const next = static_cast<const T*>(rows.next);
  int64_t j = 0;
  for (; j + 4 <= n; j += 4, b += 4 * rows.stride) {
    if (next != nullptr) {
      for (int64_t r = j; r < j + 4; ++r) Prefetch(next + r * rows.stride, d);
    }
    int64_t i = 0;
    for (; i + 2 <= m; i += 2) TwiceFourDots(a + i * d, b, rows.stride, d, out + i * n + j, n);
    if (i < m) FourDots(a + i * d, b, rows.stride, d, out + i * n + j);
  }
  for (; j < n; ++j, b += rows.stride) {
    for (int64_t i = 0; i < m; ++i) out[i * n + j] = DotTyped(a + i * d, b, d);
  }
}

HWY_NOINLINE void DotsImpl(const float* a, int64_t m, const StoredRows& b, int64_t n, int64_t d,
                           float* out) {
  WithElements(b.data, b.dtype,
               [&](const auto* data) HWY_ATTR { DotsTyped(a, m, data, b, n, d, out); });
}

/// WeightedSum for kRows rows of w, and for the kVectors vectors of channels at `v` and `acc`, in
/// registers. Rows of v, and of `next` unless it is null, are n elements apart.
template <int kRows, int kVectors, typename T>
HWY_INLINE void WeightedSumBlock(const float* w, const T* v, const T* next, int64_t stride,
                                 int64_t n, int64_t d, float* acc) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  Vec sums[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int x = 0; x < kVectors; ++x) sums[i][x] = hn::LoadU(tag, acc + i * d + x * lanes);
  }
  for (int64_t j = 0; j < n; ++j) {
    if (next != nullptr) Prefetch(next + j * stride, kVectors * lanes);
    Vec values[kVectors];
    for (int x = 0; x < kVectors; ++x) values[x] = LoadWide(tag, v + j * stride + x * lanes);
    for (int i = 0; i < kRows; ++i) {
      const Vec weight = hn::Set(tag, w[i * n + j]);
      for (int x = 0; x < kVectors; ++x) sums[i][x] = hn::MulAdd(weight, values[x], sums[i][x]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int x = 0; x < kVectors; ++x) hn::StoreU(sums[i][x], tag, acc + i * d + x * lanes);
  }
}

/// WeightedSum for kRows rows of w, by four vectors of channels. With eight lanes and 16-bit
/// elements those are one cache line of each row of v, read once.
template <int kRows, typename T>
HWY_INLINE void WeightedSumRows(const float* w, const T* v, const T* next, int64_t stride,
                                int64_t n, int64_t d, float* acc) {
  constexpr int kVectors = 4;
  const Tag tag;
  const int64_t step = kVectors * static_cast<int64_t>(hn::Lanes(tag));
  int64_t c = 0;
  for (; c + step <= d; c += step) {
    WeightedSumBlock<kRows, kVectors>(w, v + c, next == nullptr ? nullptr : next + c, stride, n, d,
                                      acc + c);
  }
  ForVectors(d - c, [&](int64_t e, const auto& load, const auto& store) HWY_ATTR {
    for (int i = 0; i < kRows; ++i) {
      Vec sum = load(acc + i * d + c + e);
      for (int64_t j = 0; j < n; ++j) {
        sum = hn::MulAdd(hn::Set(tag, w[i * n + j]), load(v + j * stride + c + e), sum);
      }
      store(sum, acc + i * d + c + e);
    }
  });
}

HWY_NOINLINE void WeightedSumImpl(const float* w, int64_t m, const StoredRows& v, int64_t n,
                                  int64_t d, float* acc) {
  WithElements(v.data, v.dtype, [&](const auto* data) HWY_ATTR {
    const auto* next = static_cast<decltype(data)>(v.next);
    int64_t i = 0;
    for (; i + 2 <= m; i += 2, next = nullptr) {
      WeightedSumRows<2>(w + i * n, data, next, v.stride, n, d, acc + i * d);
    }
    if (i < m) WeightedSumRows<1>(w + i * n, data, next, v.stride, n, d, acc + i * d);
  });
}

HWY_NOINLINE float MaxNumberImpl(const float* x, int64_t n) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const Vec lowest = hn::Set(tag, -std::numeric_limits<float>::infinity());
  Vec top = lowest;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec value = hn::LoadU(tag, x + i);
    top = hn::Max(top, hn::IfThenElse(hn::IsNaN(value), lowest, value));
  }
  // Avoids MaxOfLanes: where Highway emulates vectors, it returns the lowest finite number for
  // infinities.
  HWY_ALIGN float tops[hn::MaxLanes(Tag())];
  hn::Store(top, tag, tops);
  float result = *std::max_element(tops, tops + lanes);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

HWY_NOINLINE float ExpInPlaceImpl(float* x, int64_t n, float shift) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  const Vec minus = hn::Set(tag, shift);
  Vec sum = hn::Zero(tag);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec exponent = hn::Sub(hn::LoadU(tag, x + i), minus);
    const Vec power = hn::Exp(tag, exponent);  // 0 for NaN, so the sum ignores it.
    sum = hn::Add(sum, power);
    hn::StoreU(hn::IfThenElse(hn::IsNaN(exponent), exponent, power), tag, x + i);
  }
  float total = Total(sum);
  for (; i < n; ++i) {
    x[i] = std::exp(x[i] - shift);
    if (!std::isnan(x[i])) total += x[i];
  }
  return total;
}

HWY_NOINLINE void SiluMulImpl(const float* gate, const float* up, int64_t n, float* y) {
  const Tag tag;
  const Vec one = hn::Set(tag, 1.0f);
  ForVectors(n, [&](int64_t i, const auto& load, const auto& store) HWY_ATTR {
    const Vec x = load(gate + i);
    const Vec e = hn::Exp(tag, hn::Neg(hn::Abs(x)));  // In (0, 1]: no overflow.
    const Vec numerator = hn::IfThenElse(hn::Ge(x, hn::Zero(tag)), x, hn::Mul(x, e));
    store(hn::Mul(hn::Div(numerator, hn::Add(one, e)), load(up + i)), y + i);
  });
}

HWY_NOINLINE void AddImpl(const float* a, const float* b, int64_t n, float* y) {
  ForVectors(n, [&](int64_t i, const auto& load, const auto& store)
                    HWY_ATTR { store(hn::Add(load(a + i), load(b + i)), y + i); });
}

HWY_NOINLINE const char* TargetNameImpl() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_REDUCE_INL_H_
