// SPDX-License-Identifier: Apache-2.0
//
// UnitCoder: applies the vector loops of simd_codec.h to whole sides (K or V rows) of a unit.
// Results equal those of reference::EncodeUnit and DecodeUnit, to the bit.
#ifndef QUIRE_KERNELS_CPU_UNIT_CODER_H_
#define QUIRE_KERNELS_CPU_UNIT_CODER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/api/codec.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/simd_codec.h"

namespace quire::kernels::fast {

/// Stores or loads parameters in encoded bytes, which have no alignment.
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
inline float GetF16(const uint8_t* base, int64_t index) {
  return F16ToFloat(Get<uint16_t>(base, index));
}

/// Scratch for one call of the encoder or the decoder over units of one shape.
class UnitCoder {
 public:
  UnitCoder(UnitCodec codec, const UnitShape& shape)
      : codec_(codec),
        p_(shape.page_tokens),
        d_(shape.head_dim),
        dtype_(shape.dtype),
        element_(ElementBytes(shape.dtype)) {
    const int64_t groups = codec == UnitCodec::kInt4 ? std::max(d_, p_ * Int4Groups(d_)) : p_;
    low_.resize(groups);
    high_.resize(groups);
    base_.resize(d_);
    factor_.resize(d_);
    stored_.resize(2 * groups);
  }

  void Encode(bool keys, const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) {
    switch (codec_) {
      case UnitCodec::kRaw:
        memcpy(codes, rows, valid * d_ * element_);
        break;
      case UnitCodec::kFp8E4M3: {
        const codec::Fp8Params made(simd::FindExtremes(rows, dtype_, valid * d_));
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

  void EncodeTokens(const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) {
    simd::RowAbsMax(rows, dtype_, valid, d_, high_.data());
    simd::MakeInt8Params(high_.data(), valid, stored_.data(), high_.data());
    memcpy(params, stored_.data(), valid * sizeof(uint16_t));
    for (int64_t t = 0; t < valid; ++t) {
      simd::EncodeInt8(rows + t * row_bytes(), dtype_, d_, high_[t],
                       reinterpret_cast<int8_t*>(codes) + t * d_);
    }
  }

  /// Makes the stored parameters of `n` groups from the extremes in low_ and high_. Writes minima
  /// to `minima` and scales to `scales`; bases and inverses replace the extremes.
  void MakeInt4Params(int64_t n, uint8_t* minima, uint8_t* scales) {
    uint16_t* stored = stored_.data();
    simd::MakeInt4Params(low_.data(), high_.data(), n, stored, stored + n, low_.data(),
                         high_.data());
    memcpy(minima, stored, n * sizeof(uint16_t));
    memcpy(scales, stored + n, n * sizeof(uint16_t));
  }
  /// Reads stored parameters: bases to low_, scales to high_.
  void LoadInt4Params(int64_t n, const uint8_t* minima, const uint8_t* scales) {
    uint16_t* stored = stored_.data();  // Aligned, unlike parameters in a unit.
    memcpy(stored, minima, n * sizeof(uint16_t));
    memcpy(stored + n, scales, n * sizeof(uint16_t));
    simd::Widen(stored, DType::kF16, n, low_.data());
    simd::Widen(stored + n, DType::kF16, n, high_.data());
  }

  void EncodeChannels(const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) {
    simd::MinMaxRows(rows, dtype_, valid, d_, low_.data(), high_.data());
    MakeInt4Params(d_, params, params + 2 * d_);
    for (int64_t t = 0; t < valid; ++t) {
      simd::EncodeInt4Row(rows + t * row_bytes(), dtype_, d_, low_.data(), high_.data(),
                          codes + t * Int4RowBytes(d_));
    }
  }
  void DecodeChannels(const uint8_t* params, const uint8_t* codes, int64_t valid, uint8_t* rows) {
    LoadInt4Params(d_, params, params + 2 * d_);
    for (int64_t t = 0; t < valid; ++t) {
      simd::DecodeInt4Row(codes + t * Int4RowBytes(d_), d_, low_.data(), high_.data(), dtype_,
                          rows + t * row_bytes());
    }
  }

  /// Extremes of the groups of each row.
  void FindGroupExtremes(const uint8_t* rows, int64_t valid) {
    const int64_t groups = Int4Groups(d_);
    if (d_ % kInt4Group == 0) {  // Groups of all rows follow each other.
      simd::RowExtremes(rows, dtype_, valid * groups, kInt4Group, low_.data(), high_.data());
      return;
    }
    const int64_t whole = groups - 1;
    for (int64_t t = 0; t < valid; ++t) {
      const uint8_t* row = rows + t * row_bytes();
      const int64_t at = t * groups;
      simd::RowExtremes(row, dtype_, whole, kInt4Group, &low_[at], &high_[at]);
      simd::RowExtremes(row + whole * kInt4Group * element_, dtype_, 1, d_ - whole * kInt4Group,
                        &low_[at + whole], &high_[at + whole]);
    }
  }
  /// Spreads low_ and high_ of the groups of row t over its channels.
  void SpreadGroups(int64_t t) {
    const int64_t groups = Int4Groups(d_);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = g * kInt4Group;
      const int64_t n = std::min(kInt4Group, d_ - first);
      std::fill_n(base_.data() + first, n, low_[t * groups + g]);
      std::fill_n(factor_.data() + first, n, high_[t * groups + g]);
    }
  }

  void EncodeGroups(const uint8_t* rows, int64_t valid, uint8_t* params, uint8_t* codes) {
    const int64_t groups = Int4Groups(d_);
    FindGroupExtremes(rows, valid);
    MakeInt4Params(valid * groups, params, params + 2 * p_ * groups);
    for (int64_t t = 0; t < valid; ++t) {
      SpreadGroups(t);
      simd::EncodeInt4Row(rows + t * row_bytes(), dtype_, d_, base_.data(), factor_.data(),
                          codes + t * Int4RowBytes(d_));
    }
  }
  void DecodeGroups(const uint8_t* params, const uint8_t* codes, int64_t valid, uint8_t* rows) {
    const int64_t groups = Int4Groups(d_);
    LoadInt4Params(valid * groups, params, params + 2 * p_ * groups);
    for (int64_t t = 0; t < valid; ++t) {
      SpreadGroups(t);
      simd::DecodeInt4Row(codes + t * Int4RowBytes(d_), d_, base_.data(), factor_.data(), dtype_,
                          rows + t * row_bytes());
    }
  }

  const UnitCodec codec_;
  const int64_t p_, d_;
  const DType dtype_;
  const int64_t element_;
  std::vector<float> low_, high_;     ///< By group: extremes, then the values that codes need.
  std::vector<float> base_, factor_;  ///< [d], the same for each channel of a row.
  std::vector<uint16_t> stored_;      ///< Parameters in stored form.
};

}  // namespace quire::kernels::fast

#endif  // QUIRE_KERNELS_CPU_UNIT_CODER_H_
