// SPDX-License-Identifier: Apache-2.0
//
// Loads, stores and conversions, and the loops that read KV elements: Widen, Narrow, MinMaxRows,
// Bounds. Included once per instruction set by simd_highway.cc.
#if defined(QUIRE_KERNELS_CPU_SIMD_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_CONVERT_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_CONVERT_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

HWY_INLINE Vec LoadWide(Tag tag, const float* from) { return hn::LoadU(tag, from); }
template <typename T16>
HWY_INLINE Vec LoadWide(Tag tag, const T16* from) {
  return hn::PromoteTo(tag, hn::LoadU(hn::Rebind<T16, Tag>(), from));
}
/// The first `n` lanes from memory, zeros above; reads no further.
template <typename T>
HWY_INLINE Vec LoadTail(Tag tag, const T* from, size_t n) {
  HWY_ALIGN T lanes[hn::MaxLanes(Tag())] = {};
  memcpy(lanes, from, n * sizeof(T));
  return LoadWide(tag, lanes);
}
HWY_INLINE void StoreTail(Vec v, Tag tag, float* to, size_t n) {
  HWY_ALIGN float lanes[hn::MaxLanes(Tag())];
  hn::Store(v, tag, lanes);
  memcpy(to, lanes, n * sizeof(float));
}

/// Calls body(i, load, store) for every vector of [0, n); load and store take a pointer to element
/// i and handle the short last vector.
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

/// f16 through the CPU's conversion; bf16 by integer rounding, since Highway's truncates.
HWY_NOINLINE void NarrowImpl(const float* src, int64_t n, DType dtype, void* dst) {
  const Tag tag;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(tag));
  int64_t i = 0;
  if (dtype == DType::kF16) {
    const hn::Rebind<hwy::float16_t, Tag> tag16;
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(hn::DemoteTo(tag16, hn::LoadU(tag, src + i)), tag16,
                 static_cast<hwy::float16_t*>(dst) + i);
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

/// sum_c q * (q >= 0 ? hi : lo), the scratch holding lo then hi.
HWY_INLINE float Bound(const float* q, const float* scratch, int64_t d) {
  const Tag tag;
  Vec sum = hn::Zero(tag);
  ForVectors(d, [&](int64_t c, const auto& load, const auto&) HWY_ATTR {
    const Vec query = load(q + c);
    const Vec corner =
        hn::IfThenElse(hn::Ge(query, hn::Zero(tag)), load(scratch + d + c), load(scratch + c));
    sum = hn::MulAdd(query, corner, sum);
  });
  return hn::GetLane(hn::SumOfLanes(tag, sum));
}

HWY_NOINLINE void BoundsImpl(const BoundsInput& in, float* scratch, float* out,
                             int64_t out_stride) {
  WithElements(in.digests, in.dtype, [&](const auto* digests) HWY_ATTR {
    for (int64_t j = 0; j < in.pages; ++j) {
      WidenTyped(digests + j * in.page_stride, 2 * in.d, scratch);
      for (int64_t h = 0; h < in.heads; ++h) {
        out[h * out_stride + j] = in.scale * Bound(in.q + h * in.d, scratch, in.d);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_CONVERT_INL_H_
