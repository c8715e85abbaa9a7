// SPDX-License-Identifier: Apache-2.0
//
// Products, sums and exponentials over f32: Dot, Dots, WeightedSum, MaxNumber, ExpInPlace, SiluMul,
// Add. Included once per instruction set by simd_highway.cc.
#if defined(QUIRE_KERNELS_CPU_SIMD_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_REDUCE_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_REDUCE_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_REDUCE_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/simd_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {

HWY_INLINE float Total(Vec v) { return hn::GetLane(hn::SumOfLanes(Tag(), v)); }

HWY_NOINLINE float DotImpl(const float* a, const float* b, int64_t n) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  Vec even = hn::Zero(tag);
  Vec odd = hn::Zero(tag);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::MulAdd(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i), even);
    odd = hn::MulAdd(hn::LoadU(tag, a + i + lanes), hn::LoadU(tag, b + i + lanes), odd);
  }
  ForVectors(n - i, [&](int64_t j, const auto& load, const auto&)
                        HWY_ATTR { even = hn::MulAdd(load(a + i + j), load(b + i + j), even); });
  return Total(hn::Add(even, odd));
}

/// out[0..3] = a . (four rows of b).
HWY_INLINE void FourDots(const float* a, const float* b, int64_t b_stride, int64_t d, float* out) {
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

/// FourDots of two rows of a, the same to the bit.
HWY_INLINE void TwiceFourDots(const float* a, const float* b, int64_t b_stride, int64_t d,
                              float* out, int64_t out_stride) {
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

/// Goes over b once: four rows of it are in the cache while all of a meet them.
HWY_NOINLINE void DotsImpl(const float* a, int64_t m, const float* b, int64_t b_stride, int64_t n,
                           int64_t d, float* out) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const float* const rows = b + j * b_stride;
    int64_t i = 0;
    for (; i + 2 <= m; i += 2) TwiceFourDots(a + i * d, rows, b_stride, d, out + i * n + j, n);
    if (i < m) FourDots(a + i * d, rows, b_stride, d, out + i * n + j);
  }
  for (; j < n; ++j) {
    for (int64_t i = 0; i < m; ++i) out[i * n + j] = DotImpl(a + i * d, b + j * b_stride, d);
  }
}

/// WeightedSum for kRows rows of w at once: each element of v is loaded once per kRows.
template <int kRows>
HWY_INLINE void WeightedSumRows(const float* w, const float* v, int64_t v_stride, int64_t n,
                                int64_t d, float* acc) {
  const Tag tag;
  ForVectors(d, [&](int64_t c, const auto& load, const auto& store) HWY_ATTR {
    Vec s0 = load(acc + c), s1 = s0, s2 = s0, s3 = s0;
    if constexpr (kRows == 4) {
      s1 = load(acc + d + c);
      s2 = load(acc + 2 * d + c);
      s3 = load(acc + 3 * d + c);
    }
    for (int64_t j = 0; j < n; ++j) {
      const Vec value = load(v + j * v_stride + c);
      s0 = hn::MulAdd(hn::Set(tag, w[j]), value, s0);
      if constexpr (kRows == 4) {
        s1 = hn::MulAdd(hn::Set(tag, w[n + j]), value, s1);
        s2 = hn::MulAdd(hn::Set(tag, w[2 * n + j]), value, s2);
        s3 = hn::MulAdd(hn::Set(tag, w[3 * n + j]), value, s3);
      }
    }
    store(s0, acc + c);
    if constexpr (kRows == 4) {
      store(s1, acc + d + c);
      store(s2, acc + 2 * d + c);
      store(s3, acc + 3 * d + c);
    }
  });
}

HWY_NOINLINE void WeightedSumImpl(const float* w, int64_t m, const float* v, int64_t v_stride,
                                  int64_t n, int64_t d, float* acc) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) WeightedSumRows<4>(w + i * n, v, v_stride, n, d, acc + i * d);
  for (; i < m; ++i) WeightedSumRows<1>(w + i * n, v, v_stride, n, d, acc + i * d);
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
  // Not MaxOfLanes, which says the lowest finite number of infinities where vectors are emulated.
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
    const Vec power = hn::Exp(tag, exponent);  // 0 for NaN, so the sum passes over it
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
    const Vec e = hn::Exp(tag, hn::Neg(hn::Abs(x)));  // in (0, 1]: no overflow
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

#endif  // QUIRE_KERNELS_CPU_SIMD_REDUCE_INL_H_
