// SPDX-License-Identifier: Apache-2.0
//
// encode_unit, decode_unit: compression of units (kernels/api/transpose.h).
// docs/formats/unit_codecs.md defines the bytes.
//
// The size of an encoded unit depends on codec and shape alone. Units of one shape therefore lie at
// multiples of it, and each can be decoded alone. `rows` below is valid_rows of the unit.
// Parameters are made from those rows only. The other rows are zero in the encoded unit and in the
// decoded one. Decode with the valid_rows that were encoded.
//
// Parameters and codes are defined to the bit, so every table gives the same bytes. Let step be the
// RoundingStep (tolerance.h) of `dtype` at |x| + bound. A decoded value differs from x by at most
// bound * (1 + kCodecSlack) + step / 2.
//
//   codec     parameters                                            bound
//   kRaw      none; the unit                                        0
//   kFp8E4M3  a scale for K and one for V, absmax / 448, f32        max(|x| / 16, scale / 1024)
//   kInt8     a scale per token of K and of V, absmax / 127, f16,   scale / 2
//             rounded up
//   kInt4     a minimum, f16, rounded down, and a scale,            scale / 2
//             (max - min) / 15, f16, rounded up; for K per channel
//             over the page's tokens, for V per token in groups of
//             kInt4Group channels
//
// Units without V (MLA) are all keys.
// Range: numbers beyond the codec's range become its largest. The range excludes infinities,
// numbers over 127 * 65504 for kInt8, and over 65504 for kInt4. Decoding never gives infinity: it
// stops at the largest number of `dtype`.
// NaN: kFp8E4M3 keeps each NaN. In kInt8 and kInt4 a NaN makes every value with the same scale NaN,
// so a NaN never becomes a number. Decoded NaNs are the positive quiet one.
//
// Pointers need the alignment of one element for units, none for encoded bytes. No byte pattern
// makes decoding read or write outside its arguments. Checksums are the caller's task.
// Errors: kBadShape for a size < 1 (n_units may be 0), encoded_bytes other than n_units *
// EncodedUnitBytes, valid_rows outside 1..p, a missing pointer; kUnsupported for an unknown codec.
#ifndef QUIRE_KERNELS_API_CODEC_H_
#define QUIRE_KERNELS_API_CODEC_H_

#include <cstdint>

#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"
#include "quire/unit_codec.h"

namespace quire::kernels {

using quire::EncodedLayout;
using quire::EncodedUnitBytes;
using quire::Int4Groups;
using quire::Int4RowBytes;
using quire::IsKnown;
using quire::kInt4Group;
using quire::LayoutOf;
using quire::UnitCodec;
using quire::UnitShape;

/// Relative error of the bound that computing codes in f32 adds.
inline constexpr Tolerance kCodecSlack{.relative = 1e-4};

struct EncodeUnitArgs {
  const void* units = nullptr;          ///< [n_units][sides][p][d] dtype
  const int32_t* valid_rows = nullptr;  ///< [n_units] in 1..p, or null: all p
  void* encoded = nullptr;              ///< Out [n_units][EncodedUnitBytes]
  int64_t encoded_bytes = 0;            ///< n_units * EncodedUnitBytes(codec, shape)
  int64_t n_units = 0;
  UnitShape shape = {};
  UnitCodec codec = UnitCodec::kRaw;
  void* stream = nullptr;
};
using EncodeUnitFn = OpStatus (*)(const EncodeUnitArgs&);

struct DecodeUnitArgs {
  const void* encoded = nullptr;        ///< [n_units][EncodedUnitBytes]
  int64_t encoded_bytes = 0;            ///< n_units * EncodedUnitBytes(codec, shape)
  const int32_t* valid_rows = nullptr;  ///< [n_units] in 1..p, or null: all p
  void* units = nullptr;                ///< Out [n_units][sides][p][d] dtype
  int64_t n_units = 0;
  UnitShape shape = {};
  UnitCodec codec = UnitCodec::kRaw;
  void* stream = nullptr;
};
using DecodeUnitFn = OpStatus (*)(const DecodeUnitArgs&);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_CODEC_H_
