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

#include "common/page/dtype.h"
#include "kernels/api/status.h"
#include "kernels/api/tolerance.h"

namespace quire::kernels {

/// Values are persistent (stored); never renumber.
enum class UnitCodec : uint8_t { kRaw = 1, kFp8E4M3 = 2, kInt8 = 3, kInt4 = 4 };

constexpr bool IsKnown(UnitCodec codec) {
  return codec >= UnitCodec::kRaw && codec <= UnitCodec::kInt4;
}

/// Relative error of the bound that computing codes in f32 adds.
inline constexpr Tolerance kCodecSlack{.relative = 1e-4};

/// Channels of V with a common minimum and scale in kInt4; the last group may be shorter.
inline constexpr int64_t kInt4Group = 32;

/// The parameters that decide the size of a unit.
struct UnitShape {
  int64_t page_tokens = 0;  ///< `p`
  int64_t head_dim = 0;     ///< `d`; for MLA, latent and rope part together.
  bool has_values = true;   ///< False (MLA): [p][d], without V rows.
  DType dtype = DType::kF16;

  constexpr int64_t sides() const { return has_values ? 2 : 1; }
  constexpr int64_t side_elements() const { return page_tokens * head_dim; }
  constexpr int64_t raw_bytes() const { return sides() * side_elements() * ElementBytes(dtype); }
};

/// Byte offsets in an encoded unit: parameters of K and of V, then codes of K and of V. The two of
/// V are empty without V.
struct EncodedLayout {
  int64_t key_params = 0;
  int64_t value_params = 0;
  int64_t key_codes = 0;
  int64_t value_codes = 0;
  int64_t bytes = 0;
};

constexpr int64_t Int4Groups(int64_t head_dim) { return (head_dim + kInt4Group - 1) / kInt4Group; }
/// Bytes of one row of 4-bit codes.
constexpr int64_t Int4RowBytes(int64_t head_dim) { return (head_dim + 1) / 2; }

/// REQUIRES: a known codec and sizes >= 1.
constexpr EncodedLayout LayoutOf(UnitCodec codec, const UnitShape& shape) {
  const int64_t p = shape.page_tokens;
  const int64_t d = shape.head_dim;
  int64_t key_params = 0;
  int64_t value_params = 0;
  int64_t codes = shape.side_elements();  // Codes of one side.
  switch (codec) {
    case UnitCodec::kRaw:
      codes *= ElementBytes(shape.dtype);
      break;
    case UnitCodec::kFp8E4M3:
      key_params = value_params = 4;
      break;
    case UnitCodec::kInt8:
      key_params = value_params = 2 * p;
      break;
    case UnitCodec::kInt4:
      key_params = 4 * d;
      value_params = 4 * p * Int4Groups(d);
      codes = p * Int4RowBytes(d);
      break;
  }
  if (!shape.has_values) value_params = 0;
  EncodedLayout layout;
  layout.value_params = key_params;
  layout.key_codes = key_params + value_params;
  layout.value_codes = layout.key_codes + codes;
  layout.bytes = layout.key_codes + shape.sides() * codes;
  return layout;
}

/// Bytes of one encoded unit.
constexpr int64_t EncodedUnitBytes(UnitCodec codec, const UnitShape& shape) {
  return LayoutOf(codec, shape).bytes;
}

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
