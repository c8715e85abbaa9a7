// SPDX-License-Identifier: Apache-2.0
//
// Scalar arithmetic of the unit codecs (kernels/api/codec.h). The reference consists of it. The
// SIMD loops do the same operations in the same order and use it for remainders, so their bytes are
// equal. Everything is f32, rounded to nearest even.
#ifndef QUIRE_KERNELS_CPU_CODEC_SCALAR_H_
#define QUIRE_KERNELS_CPU_CODEC_SCALAR_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/page/dtype.h"

namespace quire::kernels::codec {

inline constexpr float kLargestF16 = 65504.0f;
inline constexpr uint16_t kNaNF16 = 0x7e00;
inline constexpr uint16_t kOneF16 = 0x3c00;
inline constexpr uint16_t kLargestF16Bits = 0x7bff;
inline constexpr float kFp8Max = 448.0f;
inline constexpr uint8_t kFp8MaxCode = 0x7e;
inline constexpr uint8_t kFp8NaN = 0x7f;
inline constexpr float kInt8Max = 127.0f;
inline constexpr float kInt4Max = 15.0f;

/// Smallest and largest of some values; infinities count, NaN is ignored.
struct Extremes {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
  bool has_nan = false;

  void Add(float x) {
    has_nan = has_nan || std::isnan(x);
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  /// Largest magnitude; 0 without numbers.
  float AbsMax() const { return low > high ? 0.0f : std::max(-low, high); }
  /// `value`, or NaN if the values include one.
  float OrNaN(float value) const {
    return has_nan ? std::numeric_limits<float>::quiet_NaN() : value;
  }
};

/// The least f16 that is not below x >= 0, at most the largest number.
inline uint16_t F16NotBelow(float x) {
  uint16_t half = FloatToF16(x + 0.0f);  // Makes a negative zero positive.
  if (F16ToFloat(half) < x) ++half;
  return std::min(half, kLargestF16Bits);
}
/// The greatest f16 that is not above x, of magnitude at most 65504. Zero is positive.
inline uint16_t F16NotAbove(float x) {
  x = std::clamp(x, -kLargestF16, kLargestF16) + 0.0f;
  const uint16_t half = FloatToF16(x);
  if (!(F16ToFloat(half) > x)) return half;
  return static_cast<uint16_t>((half & 0x8000u) != 0 ? half + 1 : half - 1);
}

/// Largest number of `dtype`.
inline float LargestOf(DType dtype) {
  if (dtype == DType::kF16) return kLargestF16;
  if (dtype == DType::kBF16) return FloatFromBits(0x7f7f0000u);
  return std::numeric_limits<float>::max();
}
/// Writes a decoded value: NaN as the positive quiet one, the rest within the numbers of `dtype`.
inline void StoreDecoded(void* base, int64_t index, DType dtype, float value) {
  const float largest = LargestOf(dtype);
  if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
  if (value > largest) value = largest;
  if (value < -largest) value = -largest;
  StoreElement(base, index, dtype, value);
}

/// Scale of a side in fp8, and the factor that encodes values.
struct Fp8Params {
  explicit Fp8Params(const Extremes& values)
      : scale(values.AbsMax() == 0
                  ? 1.0f
                  : std::max(std::min(values.AbsMax(), std::numeric_limits<float>::max()) / kFp8Max,
                             std::numeric_limits<float>::min())),
        inverse(1.0f / scale) {}
  float scale;
  float inverse;
};
/// Encodes x, which is already divided by the scale.
inline uint8_t ToFp8(float x) {
  if (std::isnan(x)) return kFp8NaN;
  const uint32_t bits = FloatBits(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t code;
  if (magnitude >= 0x3c800000u) {  // 2^-6, the least normal number: keep 3 bits of the mantissa
    code = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u) - (120u << 23)) >> 20;
    code = std::min<uint32_t>(code, kFp8MaxCode);
  } else {  // Adding 2^14 makes the float adder round at 2^-9, the subnormal step.
    code = FloatBits(FloatFromBits(magnitude) + 16384.0f) - 0x46800000u;
  }
  return static_cast<uint8_t>(code | ((bits >> 24) & 0x80u));
}
inline float FromFp8(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == kFp8NaN) return std::numeric_limits<float>::quiet_NaN();
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : FloatFromBits((magnitude << 20) + (120u << 23));
  return FloatFromBits(FloatBits(value) | (static_cast<uint32_t>(code & 0x80u) << 24));
}

/// Scale of a token in int8, as f16, and the factor that encodes values. Codes of a NaN scale are
/// 0.
struct Int8Params {
  /// `absmax`: largest magnitude of the token; NaN if it has one.
  explicit Int8Params(float absmax) {
    if (std::isnan(absmax)) {
      scale = kNaNF16;
    } else {
      scale = absmax == 0 ? kOneF16 : F16NotBelow(absmax / kInt8Max);
      inverse = 1.0f / F16ToFloat(scale);
    }
  }
  uint16_t scale = 0;
  float inverse = 0;
};
inline int8_t ToInt8(float x, float inverse) {
  const float scaled = x * inverse;
  if (std::isnan(scaled)) return 0;
  return static_cast<int8_t>(std::nearbyint(std::clamp(scaled, -kInt8Max, kInt8Max)));
}

/// Minimum and scale of a group in int4, as f16, and the conversion to codes. With a NaN in the
/// group, the parameters are NaN and the codes 0.
struct Int4Params {
  /// `low`, `high`: extremes of the group; NaN if it has one.
  Int4Params(float low, float high) {
    if (std::isnan(low) || std::isnan(high)) {
      minimum = scale = kNaNF16;
      return;
    }
    minimum = F16NotAbove(low);
    base = F16ToFloat(minimum);
    scale = F16NotBelow((std::clamp(high, -kLargestF16, kLargestF16) - base) / kInt4Max);
    if (scale != 0) inverse = 1.0f / F16ToFloat(scale);
  }
  uint16_t minimum = 0;
  uint16_t scale = 0;
  float base = 0;
  float inverse = 0;
};
inline uint8_t ToInt4(float x, float base, float inverse) {
  if (std::isnan(x)) return 0;
  const float scaled = (std::clamp(x, -kLargestF16, kLargestF16) - base) * inverse;
  return static_cast<uint8_t>(std::nearbyint(std::clamp(scaled, 0.0f, kInt4Max)));
}
/// Decodes. `code * scale` is exact in f32, so the result is rounded once.
inline float FromInt4(uint8_t code, float base, float scale) {
  return base + static_cast<float>(code) * scale;
}

}  // namespace quire::kernels::codec

#endif  // QUIRE_KERNELS_CPU_CODEC_SCALAR_H_
