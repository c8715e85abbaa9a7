// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of the unit codecs. The rules of simd.h hold, and results equal those of
// codec_scalar.h to the bit. `dtype` is the type of values; codes need no alignment.
#ifndef QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_H_
#define QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_H_

#include <cstdint>

#include "kernels/cpu/codec_scalar.h"
#include "quire/dtype.h"

namespace quire::kernels::simd {

/// Extremes of src [n] dtype.
codec::Extremes FindExtremes(const void* src, DType dtype, int64_t n);

/// Largest magnitude of each row of rows [n_rows][d] dtype; NaN if the row has one.
void RowAbsMax(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* absmax);
/// Smallest and largest of each row of rows [n_rows][d] dtype (d >= 1); NaN if the row has one.
void RowExtremes(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* low, float* high);

/// codec::Int8Params of n tokens: f16 scales and inverses, which may be absmax.
void MakeInt8Params(const float* absmax, int64_t n, uint16_t* scale, float* inverse);
/// codec::Int4Params of n groups. base and inverse may be low and high.
void MakeInt4Params(const float* low, const float* high, int64_t n, uint16_t* minimum,
                    uint16_t* scale, float* base, float* inverse);

/// Codes[i] = ToFp8(src[i] * inverse)
void EncodeFp8(const void* src, DType dtype, int64_t n, float inverse, uint8_t* codes);
/// dst[i] = FromFp8(codes[i]) * scale, written by StoreDecoded like all decoded values below.
void DecodeFp8(const uint8_t* codes, int64_t n, float scale, DType dtype, void* dst);

/// Codes[i] = ToInt8(src[i], inverse)
void EncodeInt8(const void* src, DType dtype, int64_t n, float inverse, int8_t* codes);
/// dst[i] = codes[i] * scale
void DecodeInt8(const int8_t* codes, int64_t n, float scale, DType dtype, void* dst);

/// One row of d channels, each with its own base and inverse (or scale), to or from (d + 1) / 2
/// bytes. Byte j holds channel j in its low half and channel j + (d + 1) / 2 in its high half.
void EncodeInt4Row(const void* src, DType dtype, int64_t d, const float* base, const float* inverse,
                   uint8_t* codes);
void DecodeInt4Row(const uint8_t* codes, int64_t d, const float* base, const float* scale,
                   DType dtype, void* dst);

}  // namespace quire::kernels::simd

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_CODEC_H_
