// SPDX-License-Identifier: Apache-2.0
//
// SoftmaxWeights: the operations of kernels/cpu/softmax.cc a vector at a time. A lane's weights go
// to the partial sum of their page, so the width of vectors changes no bit. simd_highway.cc
// includes it once per instruction set.
#if defined(QUIRE_KERNELS_CPU_SIMD_SIMD_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SIMD_SOFTMAX_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SIMD_SOFTMAX_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SIMD_SOFTMAX_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/simd/simd_convert-inl.h"
#include "kernels/cpu/simd/simd_reduce-inl.h"
#include "kernels/cpu/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {

HWY_INLINE Vec ExpOf(Vec x) {
  const Tag tag;
  const hn::Rebind<uint32_t, Tag> bits;
  const Vec round = hn::Set(tag, kRoundToWhole);
  const Vec shifted = hn::Add(hn::Mul(x, hn::Set(tag, kLog2E)), round);
  const Vec whole = hn::Sub(shifted, round);
  Vec rest = hn::Sub(x, hn::Mul(whole, hn::Set(tag, kLn2High)));
  rest = hn::Sub(rest, hn::Mul(whole, hn::Set(tag, kLn2Low)));
  Vec series = hn::Set(tag, kExpTerm6);
  series = hn::Add(hn::Mul(series, rest), hn::Set(tag, kExpTerm5));
  series = hn::Add(hn::Mul(series, rest), hn::Set(tag, kExpTerm4));
  series = hn::Add(hn::Mul(series, rest), hn::Set(tag, kExpTerm3));
  series = hn::Add(hn::Mul(series, rest), hn::Set(tag, kExpTerm2));
  const Vec above_one = hn::Add(hn::Mul(series, hn::Mul(rest, rest)), rest);
  const Vec power = hn::Add(above_one, hn::Set(tag, 1.0f));
  const auto exponent = hn::ShiftLeft<kMantissaBits>(hn::BitCast(bits, shifted));
  const Vec two_to_whole = hn::BitCast(tag, hn::Add(exponent, hn::Set(bits, kBitsOfOne)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(tag, kExpLeast)), hn::Mul(power, two_to_whole));
}

/// Adds up the partial sums, and overwrites them.
HWY_INLINE float FoldSums(float* sums) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t distance = kSoftmaxSums / 2;
  for (; distance >= lanes; distance /= 2) {
    for (int64_t j = 0; j < distance; j += lanes) {
      hn::Store(hn::Add(hn::Load(tag, sums + j), hn::Load(tag, sums + j + distance)), tag,
                sums + j);
    }
  }
  for (; distance > 0; distance /= 2) {
    for (int64_t j = 0; j < distance; ++j) sums[j] += sums[j + distance];
  }
  return sums[0];
}

HWY_NOINLINE float SoftmaxWeightsImpl(const float* row, int64_t n, float factor, float* weights) {
  const Tag tag;
  static_assert(kSoftmaxSums % int64_t{hn::MaxLanes(Tag())} == 0);
  const Vec factors = hn::Set(tag, factor);
  const Vec top = hn::Set(tag, factor * MaxNumberImpl(row, n));
  HWY_ALIGN float sums[kSoftmaxSums] = {};
  for (int64_t first = 0; first < n; first += kSoftmaxSums) {
    const float* from = row + first;
    float* to = weights + first;
    ForVectors(std::min(n - first, kSoftmaxSums),
               [&](int64_t i, const auto& load, const auto& store) HWY_ATTR {
                 const Vec value = hn::Mul(factors, load(from + i));
                 const auto is_top = hn::Eq(value, top);
                 store(ExpOf(hn::IfThenZeroElse(is_top, hn::Sub(value, top))), to + i);
                 const Vec weight = load(to + i);  // With zeros after the last page.
                 const Vec number = hn::IfThenZeroElse(hn::IsNaN(weight), weight);
                 hn::Store(hn::Add(hn::Load(tag, sums + i), number), tag, sums + i);
               });
  }
  return FoldSums(sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_SOFTMAX_INL_H_
