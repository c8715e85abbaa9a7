// SPDX-License-Identifier: Apache-2.0
//
// The element types of KV pages on the device. Conversions equal those of quire/dtype.h and of the
// codecs. Moves take 8 elements at a time.
#ifndef QUIRE_KERNELS_CUDA_ELEMENTS_CUH_
#define QUIRE_KERNELS_CUDA_ELEMENTS_CUH_

#include <cstdint>

#include "kernels/cuda/runtime.cuh"
#include "quire/dtype.h"

namespace quire::kernels::cuda {

__device__ inline bool IsNaN(float x) { return !(x == x); }
__device__ inline float QuietNaN() { return FloatFromBits(0x7fc00000u); }
__device__ inline float Infinity() { return FloatFromBits(0x7f800000u); }

__device__ inline float HalfToFloat(uint16_t half) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(half));
#else
  return F16ToFloat(half);
#endif
}
__device__ inline uint16_t FloatToHalf(float value) {
#if defined(__CUDA_ARCH__)
  if (IsNaN(value)) return static_cast<uint16_t>(((FloatBits(value) >> 16) & 0x8000u) | 0x7e00u);
  return __half_as_ushort(__float2half_rn(value));
#else
  return FloatToF16(value);
#endif
}

/// Decodes e4m3 as kernels/cpu/codec_scalar.h does. The bits are those of an f16 with another
/// exponent.
__device__ inline float Fp8ToFloat(uint8_t code) {
  if ((code & 0x7fu) == 0x7fu) return QuietNaN();
  const unsigned half = ((code & 0x80u) << 8) | ((code & 0x7fu) << 7);
  return HalfToFloat(static_cast<uint16_t>(half)) * 256.0f;
}

/// Decodes 8 codes to the numbers of Fp8ToFloat; NaN becomes any NaN. Two at a time if the
/// processor has an instruction for it.
__device__ inline void Fp8ToFloats(uint2 codes, float* to) {
  const uint32_t words[2] = {codes.x, codes.y};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto pair = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
    to[2 * i] = HalfToFloat(halves.x);
    to[2 * i + 1] = HalfToFloat(halves.y);
#else
    to[2 * i] = Fp8ToFloat(static_cast<uint8_t>(pair));
    to[2 * i + 1] = Fp8ToFloat(static_cast<uint8_t>(pair >> 8));
#endif
  }
}

// One type per format; Raw is the form in memory.
struct F32 {
  using Raw = float;
  __device__ static float Widen(Raw raw) { return raw; }
  __device__ static Raw Narrow(float value) { return value; }
  __device__ static float Largest() { return FloatFromBits(0x7f7fffffu); }
};
struct F16 {
  using Raw = uint16_t;
  __device__ static float Widen(Raw raw) { return HalfToFloat(raw); }
  __device__ static Raw Narrow(float value) { return FloatToHalf(value); }
  __device__ static float Largest() { return 65504.0f; }
};
struct BF16 {
  using Raw = uint16_t;
  __device__ static float Widen(Raw raw) { return BF16ToFloat(raw); }
  __device__ static Raw Narrow(float value) { return FloatToBF16(value); }
  __device__ static float Largest() { return FloatFromBits(0x7f7f0000u); }
};
struct Fp8 {
  using Raw = uint8_t;
  __device__ static float Widen(Raw raw) { return Fp8ToFloat(raw); }
};

/// Calls launch with the format as a value. REQUIRES: IsKnown(dtype).
template <typename Launcher>
OpStatus WithFormat(DType dtype, const Launcher& launch) {
  if (dtype == DType::kF16) return launch(F16{});
  if (dtype == DType::kBF16) return launch(BF16{});
  return launch(F32{});
}
template <typename Launcher>
OpStatus WithFormat(DType dtype, bool fp8, const Launcher& launch) {
  return fp8 ? launch(Fp8{}) : WithFormat(dtype, launch);
}

/// The value of a decoded element: a number of the type, or the positive quiet NaN.
template <typename T>
__device__ typename T::Raw Bounded(float value) {
  if (IsNaN(value)) return T::Narrow(QuietNaN());
  const float largest = T::Largest();
  return T::Narrow(value > largest ? largest : value < -largest ? -largest : value);
}

template <typename To, typename From>
__device__ To BitsAs(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

/// An array of kWidth elements.
template <typename Raw, int kWidth>
struct Chunk {
  Raw at[kWidth];
};

// A type that moves kBytes at once: one instruction, or two for 32.
struct Pair16 {
  uint4 low, high;
};
template <int kBytes>
struct VectorOf;
template <>
struct VectorOf<32> {
  using Type = Pair16;
};
template <>
struct VectorOf<16> {
  using Type = uint4;
};
template <>
struct VectorOf<8> {
  using Type = uint2;
};
template <>
struct VectorOf<4> {
  using Type = uint32_t;
};
template <>
struct VectorOf<2> {
  using Type = uint16_t;
};
template <>
struct VectorOf<1> {
  using Type = uint8_t;
};

__device__ inline bool IsAligned(const void* address, size_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

/// Loads or stores at an address with the alignment of the vector.
template <typename Value>
__device__ Value LoadAligned(const void* from) {
  using Vector = typename VectorOf<static_cast<int>(sizeof(Value))>::Type;
  // Copies first: bytes read through a reference would be loaded one by one.
  const Vector vector = *static_cast<const Vector*>(from);
  return BitsAs<Value>(vector);
}
template <typename Value>
__device__ void StoreAligned(void* to, const Value& value) {
  using Vector = typename VectorOf<static_cast<int>(sizeof(Value))>::Type;
  *static_cast<Vector*>(to) = BitsAs<Vector>(value);
}
/// Loads or stores at any address.
template <typename Value>
__device__ Value LoadAny(const uint8_t* from) {
  using Vector = typename VectorOf<static_cast<int>(sizeof(Value))>::Type;
  if (IsAligned(from, alignof(Vector))) return LoadAligned<Value>(from);
  Chunk<uint8_t, static_cast<int>(sizeof(Value))> bytes;
  for (int i = 0; i < static_cast<int>(sizeof(Value)); ++i) bytes.at[i] = from[i];
  return BitsAs<Value>(bytes);
}

/// Widens 8 elements at an address that is a multiple of their size or of 16. For fp8 see
/// Fp8ToFloats.
template <typename T>
__device__ void Widen8(const typename T::Raw* from, float* to) {
  if constexpr (sizeof(typename T::Raw) == 1) {
    Fp8ToFloats(LoadAligned<uint2>(from), to);
  } else {
    const auto raws = LoadAligned<Chunk<typename T::Raw, 8>>(from);
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = T::Widen(raws.at[i]);
  }
}

}  // namespace quire::kernels::cuda

#endif  // QUIRE_KERNELS_CUDA_ELEMENTS_CUH_
