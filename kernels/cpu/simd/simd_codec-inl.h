// SPDX-License-Identifier: Apache-2.0
//
// The loops of simd_codec.h: whole vectors here, the rest of a row by codec_scalar.h.
// simd_highway.cc includes it once per instruction set, after simd_convert-inl.h.
#if defined(QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/cpu/simd/simd_codec.h"
#include "kernels/cpu/simd/simd_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {

using TagU32 = hn::Rebind<uint32_t, Tag>;
using TagI8 = hn::Rebind<int8_t, Tag>;
using TagU8 = hn::Rebind<uint8_t, Tag>;
using VecU32 = hn::Vec<TagU32>;

HWY_INLINE void StoreNarrow(Vec v, float* to) { hn::StoreU(v, Tag(), to); }
HWY_INLINE void StoreNarrow(Vec v, hwy::float16_t* to) {
  StoreHalfBits(HalfBits(v), reinterpret_cast<uint16_t*>(to));
}
/// Stores bf16, rounded to nearest even by integers. REQUIRES: NaN is quiet and positive.
HWY_INLINE void StoreNarrow(Vec v, hwy::bfloat16_t* to) {
  const hn::Rebind<uint16_t, Tag> tag16;
  const TagU32 tag32;
  const VecU32 bits = hn::BitCast(tag32, v);
  const VecU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(tag32, 1));
  const VecU32 rounded = hn::Add(bits, hn::Add(odd, hn::Set(tag32, 0x7fff)));
  const VecI32 high = hn::BitCast(TagI32(), hn::ShiftRight<16>(rounded));
  hn::StoreU(hn::DemoteTo(tag16, high), tag16, reinterpret_cast<uint16_t*>(to));
}

/// StoreDecoded for a vector.
template <typename T>
HWY_INLINE void StoreDecoded(Vec v, Vec largest, T* to) {
  const Vec clamped = hn::Max(hn::Min(v, largest), hn::Neg(largest));
  const Vec nan = hn::Set(Tag(), std::numeric_limits<float>::quiet_NaN());
  StoreNarrow(hn::IfThenElse(hn::IsNaN(v), nan, clamped), to);
}

HWY_INLINE int64_t LaneCount() { return static_cast<int64_t>(hn::Lanes(Tag())); }

template <typename T>
HWY_INLINE codec::Extremes ExtremesTyped(const T* from, DType dtype, int64_t n) {
  const Tag tag;
  codec::Extremes values;
  Vec low = hn::Set(tag, values.low);
  Vec high = hn::Set(tag, values.high);
  auto nan = hn::IsNaN(low);
  int64_t i = 0;
  for (; i + LaneCount() <= n; i += LaneCount()) {
    const Vec x = LoadWide(tag, from + i);
    const auto is_nan = hn::IsNaN(x);
    nan = hn::Or(nan, is_nan);
    low = hn::Min(low, hn::IfThenElse(is_nan, low, x));
    high = hn::Max(high, hn::IfThenElse(is_nan, high, x));
  }
  values.low = hn::GetLane(hn::MinOfLanes(tag, low));
  values.high = hn::GetLane(hn::MaxOfLanes(tag, high));
  values.has_nan = !hn::AllFalse(tag, nan);
  for (; i < n; ++i) values.Add(LoadElement(from, i, dtype));
  return values;
}

HWY_NOINLINE codec::Extremes FindExtremesImpl(const void* src, DType dtype, int64_t n) {
  codec::Extremes values;
  WithElements(src, dtype,
               [&](const auto* from) HWY_ATTR { values = ExtremesTyped(from, dtype, n); });
  return values;
}

template <typename T>
HWY_INLINE void RowAbsMaxTyped(const T* rows, DType dtype, int64_t n_rows, int64_t d,
                               float* absmax) {
  const Tag tag;
  for (int64_t r = 0; r < n_rows; ++r) {
    const T* row = rows + r * d;
    Vec top = hn::Zero(tag);
    auto nan = hn::IsNaN(top);
    int64_t i = 0;
    for (; i + LaneCount() <= d; i += LaneCount()) {
      const Vec x = LoadWide(tag, row + i);
      nan = hn::Or(nan, hn::IsNaN(x));
      top = hn::Max(top, hn::Abs(x));
    }
    codec::Extremes rest;
    rest.has_nan = !hn::AllFalse(tag, nan);
    for (; i < d; ++i) rest.Add(LoadElement(row, i, dtype));
    absmax[r] = rest.OrNaN(std::max(hn::GetLane(hn::MaxOfLanes(tag, top)), rest.AbsMax()));
  }
}

HWY_NOINLINE void RowAbsMaxImpl(const void* rows, DType dtype, int64_t n_rows, int64_t d,
                                float* absmax) {
  WithElements(rows, dtype,
               [&](const auto* from) HWY_ATTR { RowAbsMaxTyped(from, dtype, n_rows, d, absmax); });
}

HWY_NOINLINE void RowExtremesImpl(const void* rows, DType dtype, int64_t n_rows, int64_t d,
                                  float* low, float* high) {
  WithElements(rows, dtype, [&](const auto* from) HWY_ATTR {
    for (int64_t r = 0; r < n_rows; ++r) {
      const codec::Extremes values = ExtremesTyped(from + r * d, dtype, d);
      low[r] = values.OrNaN(values.low);
      high[r] = values.OrNaN(values.high);
    }
  });
}

/// F16NotBelow, as bits.
HWY_INLINE VecI32 F16NotBelow(Vec x) {
  const TagI32 tag32;
  const VecI32 half = HalfBits(hn::Add(x, hn::Zero(Tag())));
  const auto below = hn::RebindMask(tag32, hn::Lt(FromHalfBits(half), x));
  const VecI32 up = hn::IfThenElse(below, hn::Add(half, hn::Set(tag32, 1)), half);
  return hn::Min(up, hn::Set(tag32, int32_t{codec::kLargestF16Bits}));
}
HWY_INLINE Vec ClampToF16(Vec x) {
  const Vec bound = hn::Set(Tag(), codec::kLargestF16);
  return hn::Max(hn::Min(x, bound), hn::Neg(bound));
}
/// F16NotAbove, as bits.
HWY_INLINE VecI32 F16NotAbove(Vec x) {
  const TagI32 tag32;
  const Vec number = hn::Add(ClampToF16(x), hn::Zero(Tag()));
  const VecI32 half = HalfBits(number);
  const auto above = hn::RebindMask(tag32, hn::Gt(FromHalfBits(half), number));
  const auto negative = hn::Gt(half, hn::Set(tag32, 0x7fff));
  const VecI32 step = hn::IfThenElse(negative, hn::Set(tag32, 1), hn::Set(tag32, -1));
  return hn::IfThenElse(above, hn::Add(half, step), half);
}

HWY_NOINLINE void MakeInt8ParamsImpl(const float* absmax, int64_t n, uint16_t* scale,
                                     float* inverse) {
  const Tag tag;
  const TagI32 tag32;
  const Vec one = hn::Set(tag, 1.0f);
  int64_t i = 0;
  for (; i + LaneCount() <= n; i += LaneCount()) {
    const Vec top = hn::LoadU(tag, absmax + i);
    const auto nan = hn::IsNaN(top);
    const auto zero = hn::Eq(top, hn::Zero(tag));
    const VecI32 made = F16NotBelow(hn::Div(top, hn::Set(tag, codec::kInt8Max)));
    const VecI32 bits =
        hn::IfThenElse(hn::RebindMask(tag32, zero), hn::Set(tag32, int32_t{codec::kOneF16}), made);
    const VecI32 nan_bits = hn::Set(tag32, int32_t{codec::kNaNF16});
    StoreHalfBits(hn::IfThenElse(hn::RebindMask(tag32, nan), nan_bits, bits), scale + i);
    hn::StoreU(hn::IfThenZeroElse(nan, hn::Div(one, FromHalfBits(bits))), tag, inverse + i);
  }
  for (; i < n; ++i) {
    const codec::Int8Params params(absmax[i]);
    scale[i] = params.scale;
    inverse[i] = params.inverse;
  }
}

HWY_NOINLINE void MakeInt4ParamsImpl(const float* low, const float* high, int64_t n,
                                     uint16_t* minimum, uint16_t* scale, float* base,
                                     float* inverse) {
  const Tag tag;
  const TagI32 tag32;
  const VecI32 nan_bits = hn::Set(tag32, int32_t{codec::kNaNF16});
  int64_t i = 0;
  for (; i + LaneCount() <= n; i += LaneCount()) {
    const Vec least = hn::LoadU(tag, low + i);
    const Vec most = hn::LoadU(tag, high + i);
    const auto nan = hn::Or(hn::IsNaN(least), hn::IsNaN(most));
    const auto nan32 = hn::RebindMask(tag32, nan);
    const VecI32 min_bits = F16NotAbove(least);
    const Vec from = FromHalfBits(min_bits);
    const Vec range = hn::Sub(ClampToF16(most), from);
    const VecI32 scale_bits = F16NotBelow(hn::Div(range, hn::Set(tag, codec::kInt4Max)));
    const auto flat = hn::RebindMask(tag, hn::Eq(scale_bits, hn::Zero(tag32)));
    const Vec factor = hn::Div(hn::Set(tag, 1.0f), FromHalfBits(scale_bits));
    StoreHalfBits(hn::IfThenElse(nan32, nan_bits, min_bits), minimum + i);
    StoreHalfBits(hn::IfThenElse(nan32, nan_bits, scale_bits), scale + i);
    hn::StoreU(hn::IfThenZeroElse(nan, from), tag, base + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Or(nan, flat), factor), tag, inverse + i);
  }
  for (; i < n; ++i) {
    const codec::Int4Params params(low[i], high[i]);
    minimum[i] = params.minimum;
    scale[i] = params.scale;
    base[i] = params.base;
    inverse[i] = params.inverse;
  }
}

/// ToFp8, one code a lane.
HWY_INLINE VecU32 ToFp8(Vec x) {
  const Tag tag;
  const TagU32 tag32;
  const VecU32 bits = hn::BitCast(tag32, x);
  const VecU32 magnitude = hn::And(bits, hn::Set(tag32, 0x7fffffffu));
  const VecU32 odd = hn::And(hn::ShiftRight<20>(magnitude), hn::Set(tag32, 1));
  // Wraps for magnitudes below 2^-6, which take the other branch.
  const VecU32 rounded = hn::Sub(hn::Add(magnitude, hn::Add(odd, hn::Set(tag32, 0x7ffffu))),
                                 hn::Set(tag32, 120u << 23));
  const VecU32 normal =
      hn::Min(hn::ShiftRight<20>(rounded), hn::Set(tag32, uint32_t{codec::kFp8MaxCode}));
  const Vec aligned = hn::Add(hn::BitCast(tag, magnitude), hn::Set(tag, 16384.0f));
  const VecU32 subnormal = hn::Sub(hn::BitCast(tag32, aligned), hn::Set(tag32, 0x46800000u));
  const auto is_normal = hn::Ge(hn::BitCast(tag, magnitude), hn::Set(tag, 0x1p-6f));
  const VecU32 code = hn::IfThenElse(hn::RebindMask(tag32, is_normal), normal, subnormal);
  const VecU32 sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(tag32, 0x80u));
  return hn::IfThenElse(hn::RebindMask(tag32, hn::IsNaN(x)),
                        hn::Set(tag32, uint32_t{codec::kFp8NaN}), hn::Or(code, sign));
}

HWY_INLINE Vec FromFp8(VecU32 code) {
  const Tag tag;
  const TagI32 tag32;
  const VecI32 bits = hn::BitCast(tag32, code);
  const VecI32 magnitude = hn::And(bits, hn::Set(tag32, 0x7f));
  const VecI32 normal = hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(tag32, 120 << 23));
  const Vec subnormal = hn::Mul(hn::ConvertTo(tag, magnitude), hn::Set(tag, 0x1p-9f));
  const auto is_subnormal = hn::RebindMask(tag, hn::Lt(magnitude, hn::Set(tag32, 8)));
  const Vec value = hn::IfThenElse(is_subnormal, subnormal, hn::BitCast(tag, normal));
  const VecI32 sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(tag32, 0x80)));
  const auto is_nan = hn::RebindMask(tag, hn::Eq(magnitude, hn::Set(tag32, codec::kFp8NaN)));
  return hn::IfThenElse(is_nan, hn::Set(tag, std::numeric_limits<float>::quiet_NaN()),
                        hn::Or(value, hn::BitCast(tag, sign)));
}

/// Stores the low bytes of codes, each below 256.
HWY_INLINE void StoreBytes(VecU32 codes, uint8_t* to) {
  hn::StoreU(hn::DemoteTo(TagU8(), hn::BitCast(TagI32(), codes)), TagU8(), to);
}
HWY_INLINE VecU32 LoadBytes(const uint8_t* from) {
  return hn::PromoteTo(TagU32(), hn::LoadU(TagU8(), from));
}

HWY_NOINLINE void EncodeFp8Impl(const void* src, DType dtype, int64_t n, float inverse,
                                uint8_t* codes) {
  WithElements(src, dtype, [&](const auto* from) HWY_ATTR {
    const Vec factor = hn::Set(Tag(), inverse);
    int64_t i = 0;
    for (; i + LaneCount() <= n; i += LaneCount()) {
      StoreBytes(ToFp8(hn::Mul(LoadWide(Tag(), from + i), factor)), codes + i);
    }
    for (; i < n; ++i) codes[i] = codec::ToFp8(LoadElement(from, i, dtype) * inverse);
  });
}

/// Calls body with `data` as a pointer for writing elements of `dtype`.
template <class Body>
HWY_INLINE void WithOutput(void* data, DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(static_cast<float*>(data));
    case DType::kF16:
      return body(static_cast<hwy::float16_t*>(data));
    case DType::kBF16:
      return body(static_cast<hwy::bfloat16_t*>(data));
  }
}

HWY_NOINLINE void DecodeFp8Impl(const uint8_t* codes, int64_t n, float scale, DType dtype,
                                void* dst) {
  WithOutput(dst, dtype, [&](auto* to) HWY_ATTR {
    const Vec factor = hn::Set(Tag(), scale);
    const Vec largest = hn::Set(Tag(), codec::LargestOf(dtype));
    int64_t i = 0;
    for (; i + LaneCount() <= n; i += LaneCount()) {
      StoreDecoded(hn::Mul(FromFp8(LoadBytes(codes + i)), factor), largest, to + i);
    }
    for (; i < n; ++i) codec::StoreDecoded(to, i, dtype, codec::FromFp8(codes[i]) * scale);
  });
}

HWY_NOINLINE void EncodeInt8Impl(const void* src, DType dtype, int64_t n, float inverse,
                                 int8_t* codes) {
  WithElements(src, dtype, [&](const auto* from) HWY_ATTR {
    const Tag tag;
    const Vec factor = hn::Set(tag, inverse);
    const Vec top = hn::Set(tag, codec::kInt8Max);
    int64_t i = 0;
    for (; i + LaneCount() <= n; i += LaneCount()) {
      const Vec scaled = hn::Mul(LoadWide(tag, from + i), factor);
      const Vec number = hn::IfThenElse(hn::IsNaN(scaled), hn::Zero(tag), scaled);
      const VecI32 code = hn::NearestInt(hn::Max(hn::Min(number, top), hn::Neg(top)));
      hn::StoreU(hn::DemoteTo(TagI8(), code), TagI8(), codes + i);
    }
    for (; i < n; ++i) codes[i] = codec::ToInt8(LoadElement(from, i, dtype), inverse);
  });
}

HWY_NOINLINE void DecodeInt8Impl(const int8_t* codes, int64_t n, float scale, DType dtype,
                                 void* dst) {
  WithOutput(dst, dtype, [&](auto* to) HWY_ATTR {
    const Tag tag;
    const Vec factor = hn::Set(tag, scale);
    const Vec largest = hn::Set(tag, codec::LargestOf(dtype));
    int64_t i = 0;
    for (; i + LaneCount() <= n; i += LaneCount()) {
      const VecI32 code = hn::PromoteTo(TagI32(), hn::LoadU(TagI8(), codes + i));
      StoreDecoded(hn::Mul(hn::ConvertTo(tag, code), factor), largest, to + i);
    }
    for (; i < n; ++i) {
      codec::StoreDecoded(to, i, dtype, static_cast<float>(codes[i]) * scale);
    }
  });
}

/// ToInt4, one code a lane.
HWY_INLINE VecU32 ToInt4(Vec x, const float* base, const float* inverse) {
  const Tag tag;
  const Vec bound = hn::Set(tag, codec::kLargestF16);
  const auto is_nan = hn::IsNaN(x);
  const Vec number = hn::IfThenElse(is_nan, hn::Zero(tag), x);
  const Vec clamped = hn::Max(hn::Min(number, bound), hn::Neg(bound));
  const Vec scaled = hn::Mul(hn::Sub(clamped, hn::LoadU(tag, base)), hn::LoadU(tag, inverse));
  const Vec code = hn::Max(hn::Min(scaled, hn::Set(tag, codec::kInt4Max)), hn::Zero(tag));
  return hn::BitCast(TagU32(), hn::NearestInt(hn::IfThenElse(is_nan, hn::Zero(tag), code)));
}

HWY_NOINLINE void EncodeInt4RowImpl(const void* src, DType dtype, int64_t d, const float* base,
                                    const float* inverse, uint8_t* codes) {
  const int64_t bytes = (d + 1) / 2;
  WithElements(src, dtype, [&](const auto* from) HWY_ATTR {
    int64_t j = 0;
    for (; j + bytes + LaneCount() <= d; j += LaneCount()) {
      const int64_t k = j + bytes;
      const VecU32 low = ToInt4(LoadWide(Tag(), from + j), base + j, inverse + j);
      const VecU32 high = ToInt4(LoadWide(Tag(), from + k), base + k, inverse + k);
      StoreBytes(hn::Or(low, hn::ShiftLeft<4>(high)), codes + j);
    }
    const auto code = [&](int64_t c) {
      return codec::ToInt4(LoadElement(from, c, dtype), base[c], inverse[c]);
    };
    for (; j < bytes; ++j) {
      codes[j] = static_cast<uint8_t>(code(j) | (j + bytes < d ? code(j + bytes) << 4 : 0));
    }
  });
}

HWY_INLINE Vec FromInt4(VecU32 code, const float* base, const float* scale) {
  const Tag tag;
  const Vec number = hn::ConvertTo(tag, hn::BitCast(TagI32(), code));
  return hn::Add(hn::LoadU(tag, base), hn::Mul(number, hn::LoadU(tag, scale)));
}

HWY_NOINLINE void DecodeInt4RowImpl(const uint8_t* codes, int64_t d, const float* base,
                                    const float* scale, DType dtype, void* dst) {
  const int64_t bytes = (d + 1) / 2;
  WithOutput(dst, dtype, [&](auto* to) HWY_ATTR {
    const Vec largest = hn::Set(Tag(), codec::LargestOf(dtype));
    int64_t j = 0;
    for (; j + bytes + LaneCount() <= d; j += LaneCount()) {
      const int64_t k = j + bytes;
      const VecU32 both = LoadBytes(codes + j);
      const VecU32 low = hn::And(both, hn::Set(TagU32(), 15));
      StoreDecoded(FromInt4(low, base + j, scale + j), largest, to + j);
      StoreDecoded(FromInt4(hn::ShiftRight<4>(both), base + k, scale + k), largest, to + k);
    }
    const auto store = [&](int64_t c, int code) {
      codec::StoreDecoded(to, c, dtype,
                          codec::FromInt4(static_cast<uint8_t>(code), base[c], scale[c]));
    };
    for (; j < bytes; ++j) {
      store(j, codes[j] & 15);
      if (j + bytes < d) store(j + bytes, codes[j] >> 4);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_INL_H_
