// SPDX-License-Identifier: Apache-2.0
//
// Implements simd_codec.h without a library.
#include "kernels/cpu/simd/simd_codec.h"

namespace quire::kernels::simd {

codec::Extremes FindExtremes(const void* src, DType dtype, int64_t n) {
  codec::Extremes values;
  for (int64_t i = 0; i < n; ++i) values.Add(LoadElement(src, i, dtype));
  return values;
}

void RowAbsMax(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* absmax) {
  for (int64_t r = 0; r < n_rows; ++r) {
    codec::Extremes values;
    for (int64_t c = 0; c < d; ++c) values.Add(LoadElement(rows, r * d + c, dtype));
    absmax[r] = values.OrNaN(values.AbsMax());
  }
}

void RowExtremes(const void* rows, DType dtype, int64_t n_rows, int64_t d, float* low,
                 float* high) {
  for (int64_t r = 0; r < n_rows; ++r) {
    codec::Extremes values;
    for (int64_t c = 0; c < d; ++c) values.Add(LoadElement(rows, r * d + c, dtype));
    low[r] = values.OrNaN(values.low);
    high[r] = values.OrNaN(values.high);
  }
}

void MakeInt8Params(const float* absmax, int64_t n, uint16_t* scale, float* inverse) {
  for (int64_t i = 0; i < n; ++i) {
    const codec::Int8Params params(absmax[i]);
    scale[i] = params.scale;
    inverse[i] = params.inverse;
  }
}

void MakeInt4Params(const float* low, const float* high, int64_t n, uint16_t* minimum,
                    uint16_t* scale, float* base, float* inverse) {
  for (int64_t i = 0; i < n; ++i) {
    const codec::Int4Params params(low[i], high[i]);
    minimum[i] = params.minimum;
    scale[i] = params.scale;
    base[i] = params.base;
    inverse[i] = params.inverse;
  }
}

void EncodeFp8(const void* src, DType dtype, int64_t n, float inverse, uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = codec::ToFp8(LoadElement(src, i, dtype) * inverse);
}

void DecodeFp8(const uint8_t* codes, int64_t n, float scale, DType dtype, void* dst) {
  for (int64_t i = 0; i < n; ++i) {
    codec::StoreDecoded(dst, i, dtype, codec::FromFp8(codes[i]) * scale);
  }
}

void EncodeInt8(const void* src, DType dtype, int64_t n, float inverse, int8_t* codes) {
  for (int64_t i = 0; i < n; ++i) codes[i] = codec::ToInt8(LoadElement(src, i, dtype), inverse);
}

void DecodeInt8(const int8_t* codes, int64_t n, float scale, DType dtype, void* dst) {
  for (int64_t i = 0; i < n; ++i) {
    codec::StoreDecoded(dst, i, dtype, static_cast<float>(codes[i]) * scale);
  }
}

void EncodeInt4Row(const void* src, DType dtype, int64_t d, const float* base, const float* inverse,
                   uint8_t* codes) {
  const int64_t bytes = (d + 1) / 2;
  const auto code = [&](int64_t c) {
    return codec::ToInt4(LoadElement(src, c, dtype), base[c], inverse[c]);
  };
  for (int64_t j = 0; j < bytes; ++j) {
    codes[j] = static_cast<uint8_t>(code(j) | (j + bytes < d ? code(j + bytes) << 4 : 0));
  }
}

void DecodeInt4Row(const uint8_t* codes, int64_t d, const float* base, const float* scale,
                   DType dtype, void* dst) {
  const int64_t bytes = (d + 1) / 2;
  for (int64_t c = 0; c < d; ++c) {
    const uint8_t code = c < bytes ? codes[c] & 15 : codes[c - bytes] >> 4;
    codec::StoreDecoded(dst, c, dtype, codec::FromInt4(code, base[c], scale[c]));
  }
}

}  // namespace quire::kernels::simd
