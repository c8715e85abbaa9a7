// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_codec.h"

namespace quire::kernels::fast {
namespace {

using codec::Fp8Params;
using codec::Int4Params;
using codec::Int8Params;

template <typename T>
void Put(uint8_t* base, int64_t index, T value) {
  memcpy(base + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}
template <typename T>
T Get(const uint8_t* base, int64_t index) {
  T value;
  memcpy(&value, base + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}
float GetF16(const uint8_t* base, int64_t index) { return F16ToFloat(Get<uint16_t>(base, index)); }

/// One run of the encoder or the decoder over units of one shape, side by side.
class UnitCoder {
 public:
  UnitCoder(UnitCodec codec, const UnitShape& shape)
      : codec_(codec),
        p_(shape.page_tokens),
        d_(shape.head_dim),
        dtype_(shape.dtype),
        element_(ElementBytes(shape.dtype)) {
    if (codec != UnitCodec::kInt4) return;
    rows_.resize(2 * d_);
    stored_.resize(2 * std::max(d_, p_ * Int4Groups(d_)));
    wide_.resize(stored_.size());
  }

  void Encode(bool keys, const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) {
    switch (codec_) {
      case UnitCodec::kRaw:
        memcpy(codes, rows, valid * d_ * element_);
        break;
      case UnitCodec::kFp8E4M3: {
        const Fp8Params made(simd::FindExtremes(rows, dtype_, valid * d_));
        Put(params, 0, made.scale);
        simd::EncodeFp8(rows, dtype_, valid * d_, made.inverse, codes);
        break;
      }
      case UnitCodec::kInt8:
        EncodeTokens(rows, valid, params, codes);
        break;
      case UnitCodec::kInt4:
        keys ? EncodeChannels(rows, valid, params, codes)
             : EncodeGroups(rows, valid, params, codes);
        break;
    }
  }

  void Decode(bool keys, const uint8_t* params, const uint8_t* codes, int64_t valid,
              uint8_t* rows) {
    switch (codec_) {
      case UnitCodec::kRaw:
        memcpy(rows, codes, valid * d_ * element_);
        break;
      case UnitCodec::kFp8E4M3:
        simd::DecodeFp8(codes, valid * d_, Get<float>(params, 0), dtype_, rows);
        break;
      case UnitCodec::kInt8:
        for (int64_t t = 0; t < valid; ++t) {
          simd::DecodeInt8(reinterpret_cast<const int8_t*>(codes) + t * d_, d_, GetF16(params, t),
                           dtype_, rows + t * row_bytes());
        }
        break;
      case UnitCodec::kInt4:
        keys ? DecodeChannels(params, codes, valid, rows)
             : DecodeGroups(params, codes, valid, rows);
        break;
    }
  }

 private:
  int64_t row_bytes() const { return d_ * element_; }
  float* base() { return rows_.data(); }         ///< [d]
  float* factor() { return rows_.data() + d_; }  ///< [d] scales, or their inverses

  /// `count` stored f16 numbers, which need no alignment, as floats.
  const float* Widen(const uint8_t* params, int64_t count) {
    memcpy(stored_.data(), params, count * sizeof(uint16_t));
    simd::Widen(stored_.data(), DType::kF16, count, wide_.data());
    return wide_.data();
  }

  void EncodeTokens(const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) const {
    for (int64_t t = 0; t < valid; ++t) {
      const uint8_t* row = rows + t * row_bytes();
      const Int8Params made(simd::FindExtremes(row, dtype_, d_));
      Put(params, t, made.scale);
      simd::EncodeInt8(row, dtype_, d_, made.inverse, reinterpret_cast<int8_t*>(codes) + t * d_);
    }
  }

  void EncodeChannels(const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) {
    simd::MinMaxRows(rows, dtype_, valid, d_, base(), factor());
    for (int64_t c = 0; c < d_; ++c) {
      const Int4Params made(base()[c], factor()[c]);
      Put(params, c, made.minimum);
      Put(params, d_ + c, made.scale);
      base()[c] = made.base;
      factor()[c] = made.inverse;
    }
    for (int64_t t = 0; t < valid; ++t) {
      simd::EncodeInt4Row(rows + t * row_bytes(), dtype_, d_, base(), factor(),
                          codes + t * Int4RowBytes(d_));
    }
  }
  void DecodeChannels(const uint8_t* params, const uint8_t* codes, int64_t valid, uint8_t* rows) {
    const float* wide = Widen(params, 2 * d_);
    for (int64_t t = 0; t < valid; ++t) {
      simd::DecodeInt4Row(codes + t * Int4RowBytes(d_), d_, wide, wide + d_, dtype_,
                          rows + t * row_bytes());
    }
  }

  void EncodeGroups(const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) {
    const int64_t groups = Int4Groups(d_);
    for (int64_t t = 0; t < valid; ++t) {
      const uint8_t* row = rows + t * row_bytes();
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t first = g * kInt4Group;
        const int64_t n = std::min(kInt4Group, d_ - first);
        const Int4Params made(simd::FindExtremes(row + first * element_, dtype_, n));
        Put(params, t * groups + g, made.minimum);
        Put(params, (p_ + t) * groups + g, made.scale);
        std::fill_n(base() + first, n, made.base);
        std::fill_n(factor() + first, n, made.inverse);
      }
      simd::EncodeInt4Row(row, dtype_, d_, base(), factor(), codes + t * Int4RowBytes(d_));
    }
  }
  void DecodeGroups(const uint8_t* params, const uint8_t* codes, int64_t valid, uint8_t* rows) {
    const int64_t groups = Int4Groups(d_);
    const float* wide = Widen(params, 2 * p_ * groups);
    for (int64_t t = 0; t < valid; ++t) {
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t first = g * kInt4Group;
        const int64_t n = std::min(kInt4Group, d_ - first);
        std::fill_n(base() + first, n, wide[t * groups + g]);
        std::fill_n(factor() + first, n, wide[(p_ + t) * groups + g]);
      }
      simd::DecodeInt4Row(codes + t * Int4RowBytes(d_), d_, base(), factor(), dtype_,
                          rows + t * row_bytes());
    }
  }

  const UnitCodec codec_;
  const int64_t p_, d_;
  const DType dtype_;
  const int64_t element_;
  std::vector<float> rows_;       ///< base() and factor() of the row at hand
  std::vector<uint16_t> stored_;  ///< Parameters of a side, aligned
  std::vector<float> wide_;       ///< The same as floats
};

int64_t ValidRows(const int32_t* valid_rows, int64_t unit, const UnitShape& shape) {
  return valid_rows != nullptr ? valid_rows[unit] : shape.page_tokens;
}

}  // namespace

OpStatus EncodeUnit(const EncodeUnitArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  const EncodedLayout layout = LayoutOf(args.codec, args.shape);
  const int64_t side_bytes = args.shape.side_elements() * ElementBytes(args.shape.dtype);
  UnitCoder coder(args.codec, args.shape);
  const auto* rows = static_cast<const uint8_t*>(args.units);
  auto* unit = static_cast<uint8_t*>(args.encoded);
  for (int64_t i = 0; i < args.n_units; ++i, unit += layout.bytes) {
    const int64_t valid = ValidRows(args.valid_rows, i, args.shape);
    if (valid < args.shape.page_tokens) memset(unit, 0, layout.bytes);
    coder.Encode(true, rows, valid, unit + layout.key_params, unit + layout.key_codes);
    rows += side_bytes;
    if (!args.shape.has_values) continue;
    coder.Encode(false, rows, valid, unit + layout.value_params, unit + layout.value_codes);
    rows += side_bytes;
  }
  return OpStatus::kOk;
}

OpStatus DecodeUnit(const DecodeUnitArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  const EncodedLayout layout = LayoutOf(args.codec, args.shape);
  const int64_t side_bytes = args.shape.side_elements() * ElementBytes(args.shape.dtype);
  UnitCoder coder(args.codec, args.shape);
  const auto* unit = static_cast<const uint8_t*>(args.encoded);
  auto* rows = static_cast<uint8_t*>(args.units);
  for (int64_t i = 0; i < args.n_units; ++i, unit += layout.bytes) {
    const int64_t valid = ValidRows(args.valid_rows, i, args.shape);
    if (valid < args.shape.page_tokens) memset(rows, 0, args.shape.raw_bytes());
    coder.Decode(true, unit + layout.key_params, unit + layout.key_codes, valid, rows);
    rows += side_bytes;
    if (!args.shape.has_values) continue;
    coder.Decode(false, unit + layout.value_params, unit + layout.value_codes, valid, rows);
    rows += side_bytes;
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
