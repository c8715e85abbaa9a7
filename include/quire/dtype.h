// SPDX-License-Identifier: Apache-2.0
//
// DType: the element types of KV pages, and exact conversions to and from float (round to nearest
// even). Plain C++ without dependencies, includable from CUDA sources.
#ifndef QUIRE_DTYPE_H_
#define QUIRE_DTYPE_H_

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define QUIRE_HOST_DEVICE __host__ __device__
#else
#define QUIRE_HOST_DEVICE
#endif

namespace quire {

/// Values are persistent (stored and sent); never renumber.
enum class DType : uint8_t { kF32 = 1, kF16 = 2, kBF16 = 3 };

QUIRE_HOST_DEVICE constexpr bool IsKnown(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

/// Bytes of one element.
QUIRE_HOST_DEVICE constexpr uint32_t ElementBytes(DType dtype) {
  return dtype == DType::kF32 ? 4 : 2;
}

constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
  }
  return "unknown";
}

QUIRE_HOST_DEVICE inline uint32_t FloatBits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
QUIRE_HOST_DEVICE inline float FloatFromBits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

QUIRE_HOST_DEVICE inline float BF16ToFloat(uint16_t bits) {
  return FloatFromBits(static_cast<uint32_t>(bits) << 16);
}
QUIRE_HOST_DEVICE inline uint16_t FloatToBF16(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40);  // quiet NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

QUIRE_HOST_DEVICE inline float F16ToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return FloatFromBits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return FloatFromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa * 2^-24 is exact in float.
  const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
  return FloatFromBits(sign | FloatBits(magnitude));
}
QUIRE_HOST_DEVICE inline uint16_t FloatToF16(float value) {
  const uint32_t bits = FloatBits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to infinity
  if (magnitude >= 0x38800000u) {                       // normal half
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  // Adding 0.5 aligns the mantissa so that the float adder rounds at 2^-24, the subnormal step.
  const float aligned = FloatFromBits(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (FloatBits(aligned) - 0x3f000000u));
}

/// Reads element `index` of an array of `dtype` as float.
QUIRE_HOST_DEVICE inline float LoadElement(const void* base, int64_t index, DType dtype) {
  if (dtype == DType::kF32) return static_cast<const float*>(base)[index];
  const uint16_t raw = static_cast<const uint16_t*>(base)[index];
  return dtype == DType::kF16 ? F16ToFloat(raw) : BF16ToFloat(raw);
}
/// Writes `value`, rounded to `dtype`, to element `index`.
QUIRE_HOST_DEVICE inline void StoreElement(void* base, int64_t index, DType dtype, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(base)[index] = value;
  } else {
    static_cast<uint16_t*>(base)[index] =
        dtype == DType::kF16 ? FloatToF16(value) : FloatToBF16(value);
  }
}

}  // namespace quire

#endif  // QUIRE_DTYPE_H_
