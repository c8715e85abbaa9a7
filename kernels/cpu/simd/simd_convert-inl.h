// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores and conversions, and the loops that read KV elements: Widen, Narrow, MinMaxRows.
// simd_highway.cc includes it once per instruction set.
#if defined(QUIRE_KERNELS_CPU_SIMD_SIMD_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SIMD_CONVERT_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SIMD_CONVERT_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SIMD_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/cpu/simd/simd.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
using TagI32 = hn::Rebind<int32_t, Tag>;
using VecI32 = hn::Vec<TagI32>;

// Converts f16 as the bits of its lanes. Without F16C this uses integers: Highway's own conversions
// then neither round to nearest nor handle infinity and NaN.
#undef QUIRE_HAS_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define QUIRE_HAS_F16C 1
#else
#define QUIRE_HAS_F16C 0
#endif

/// F16ToFloat, one result a lane.
HWY_INLINE Vec FromHalfBits(VecI32 bits) {
  const Tag tag;
#if QUIRE_HAS_F16C
  const hn::Rebind<hwy::float16_t, Tag> tag16;
  const hn::Rebind<uint16_t, Tag> bits16;
  return hn::PromoteTo(tag, hn::BitCast(tag16, hn::DemoteTo(bits16, bits)));
#else
  const TagI32 tag32;
  const VecI32 magnitude = hn::And(bits, hn::Set(tag32, 0x7fff));
  const VecI32 sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(tag32, 0x8000)));
  const VecI32 shifted = hn::ShiftLeft<13>(magnitude);
  const VecI32 normal = hn::Add(shifted, hn::Set(tag32, 112 << 23));
  const VecI32 special = hn::Or(shifted, hn::Set(tag32, 0x7f800000));
  const VecI32 subnormal =
      hn::BitCast(tag32, hn::Mul(hn::ConvertTo(tag, magnitude), hn::Set(tag, 0x1p-24f)));
  VecI32 value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(tag32, 0x400)), subnormal, normal);
  value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(tag32, 0x7bff)), special, value);
  return hn::BitCast(tag, hn::Or(value, sign));
#endif
}
/// FloatToF16, one result a lane.
HWY_INLINE VecI32 HalfBits(Vec x) {
  const TagI32 tag32;
#if QUIRE_HAS_F16C
  const hn::Rebind<hwy::float16_t, Tag> tag16;
  const hn::Rebind<uint16_t, Tag> bits16;
  return hn::PromoteTo(tag32, hn::BitCast(bits16, hn::DemoteTo(tag16, x)));
#else
  const Tag tag;
  const VecI32 bits = hn::BitCast(tag32, x);
  const VecI32 magnitude = hn::And(bits, hn::Set(tag32, 0x7fffffff));
  const VecI32 sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(tag32, 0x8000));
  const VecI32 odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(tag32, 1));
  const VecI32 rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(tag32, 0xfff - 0x38000000)));
  const Vec aligned = hn::Add(hn::BitCast(tag, magnitude), hn::Set(tag, 0.5f));
  const VecI32 subnormal = hn::Sub(hn::BitCast(tag32, aligned), hn::Set(tag32, 0x3f000000));
  const auto is_subnormal = hn::Lt(magnitude, hn::Set(tag32, 0x38800000));
  VecI32 half = hn::IfThenElse(is_subnormal, subnormal, hn::ShiftRight<13>(rounded));
  half =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(tag32, 0x477fefff)), hn::Set(tag32, 0x7c00), half);
  half =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(tag32, 0x7f800000)), hn::Set(tag32, 0x7e00), half);
  return hn::Or(half, sign);
#endif
}
HWY_INLINE void StoreHalfBits(VecI32 bits, uint16_t* to) {
  const hn::Rebind<uint16_t, Tag> bits16;
  hn::StoreU(hn::DemoteTo(bits16, bits), bits16, to);
}

// Works for vectors of Tag's size or smaller.
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D tag, const float* from) {
  return hn::LoadU(tag, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D tag, const hwy::bfloat16_t* from) {
  return hn::PromoteTo(tag, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), from));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWide([[maybe_unused]] D tag, const hwy::float16_t* from) {
#if QUIRE_HAS_F16C
  return hn::PromoteTo(tag, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), from));
#else
  static_assert(std::is_same_v<D, Tag>);
  const hn::Rebind<uint16_t, Tag> bits16;
  const auto bits = hn::LoadU(bits16, reinterpret_cast<const uint16_t*>(from));
  return FromHalfBits(hn::PromoteTo(TagI32(), bits));
#endif
}
/// Loads the first `n` lanes from memory, zeros above; reads no further.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadTail(D tag, const T* from, size_t n) {
  HWY_ALIGN T lanes[hn::MaxLanes(D())] = {};
  memcpy(lanes, from, n * sizeof(T));
  return LoadWide(tag, lanes);
}
HWY_INLINE void StoreTail(Vec v, Tag tag, float* to, size_t n) {
  HWY_ALIGN float lanes[hn::MaxLanes(Tag())];
  hn::Store(v, tag, lanes);
  memcpy(to, lanes, n * sizeof(float));
}

/// Calls body(i, load, store) for every vector of [0, n). `load` and `store` take a pointer to
/// element i and handle the short last vector.
template <class Body>
HWY_INLINE void ForVectors(int64_t n, const Body& body) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    body(
        i, [tag](const auto* from) HWY_ATTR { return LoadWide(tag, from); },
        [tag](Vec v, float* to) HWY_ATTR { hn::StoreU(v, tag, to); });
  }
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    body(
        i, [tag, rest](const auto* from) HWY_ATTR { return LoadTail(tag, from, rest); },
        [tag, rest](Vec v, float* to) HWY_ATTR { StoreTail(v, tag, to, rest); });
  }
}

/// Calls body with `data` as a pointer to Highway's type for `dtype`.
template <class Body>
HWY_INLINE void WithElements(const void* data, DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(static_cast<const float*>(data));
    case DType::kF16:
      return body(static_cast<const hwy::float16_t*>(data));
    case DType::kBF16:
      return body(static_cast<const hwy::bfloat16_t*>(data));
  }
}

template <typename T>
HWY_INLINE void WidenTyped(const T* from, int64_t n, float* dst) {
  ForVectors(n, [&](int64_t i, const auto& load, const auto& store)
                    HWY_ATTR { store(load(from + i), dst + i); });
}

HWY_NOINLINE void WidenImpl(const void* src, DType dtype, int64_t n, float* dst) {
  WithElements(src, dtype, [&](const auto* from) HWY_ATTR { WidenTyped(from, n, dst); });
}

HWY_NOINLINE void WidenRowsImpl(const void* src, int64_t stride, DType dtype, int64_t rows,
                                int64_t d, float* dst) {
  WithElements(src, dtype, [&](const auto* from) HWY_ATTR {
    for (int64_t r = 0; r < rows; ++r) WidenTyped(from + r * stride, d, dst + r * d);
  });
}

/// Converts f16 a vector at a time, and bf16 by integer rounding, since Highway's truncates.
HWY_NOINLINE void NarrowImpl(const float* src, int64_t n, DType dtype, void* dst) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  if (dtype == DType::kF16) {
    for (; i + lanes <= n; i += lanes) {
      StoreHalfBits(HalfBits(hn::LoadU(tag, src + i)), static_cast<uint16_t*>(dst) + i);
    }
  }
  for (; i < n; ++i) StoreElement(dst, i, dtype, src[i]);
}

template <typename T>
HWY_INLINE void MinMaxTyped(const T* rows, int64_t n_rows, int64_t d, float* lo, float* hi) {
  ForVectors(d, [&](int64_t c, const auto& load, const auto& store) HWY_ATTR {
    Vec low = load(rows + c);
    Vec high = low;
    auto nan = hn::IsNaN(low);
    for (int64_t r = 1; r < n_rows; ++r) {
      const Vec key = load(rows + r * d + c);
      nan = hn::Or(nan, hn::IsNaN(key));
      low = hn::Min(low, key);
      high = hn::Max(high, key);
    }
    const Vec poison = hn::Set(Tag(), std::numeric_limits<float>::quiet_NaN());
    store(hn::IfThenElse(nan, poison, low), lo + c);
    store(hn::IfThenElse(nan, poison, high), hi + c);
  });
}

HWY_NOINLINE void MinMaxRowsImpl(const void* rows, DType dtype, int64_t n_rows, int64_t d,
                                 float* lo, float* hi) {
  WithElements(rows, dtype,
               [&](const auto* from) HWY_ATTR { MinMaxTyped(from, n_rows, d, lo, hi); });
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_CONVERT_INL_H_
