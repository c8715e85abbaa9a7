// SPDX-License-Identifier: Apache-2.0
//
// UnitCodec: how the elements of a unit are encoded, and the size of an encoded unit. The size
// depends on codec and shape alone, so units of one codec lie at multiples of it.
// docs/formats/unit_codecs.md defines the bytes. Values; header-only, includable from CUDA sources.
#ifndef QUIRE_UNIT_CODEC_H_
#define QUIRE_UNIT_CODEC_H_

#include <cstdint>
#include <initializer_list>

#include "quire/dtype.h"

namespace quire {

/// Values are persistent (stored, and sent); never renumber.
enum class UnitCodec : uint8_t { kRaw = 1, kFp8E4M3 = 2, kInt8 = 3, kInt4 = 4 };

constexpr bool IsKnown(UnitCodec codec) {
  return codec >= UnitCodec::kRaw && codec <= UnitCodec::kInt4;
}

/// A set of codecs. kRaw is always in it.
class CodecSet {
 public:
  constexpr CodecSet() = default;
  constexpr CodecSet(std::initializer_list<UnitCodec> codecs) {
    for (const UnitCodec codec : codecs) Add(codec);
  }
  /// Every known codec.
  static constexpr CodecSet All() {
    return {UnitCodec::kFp8E4M3, UnitCodec::kInt8, UnitCodec::kInt4};
  }
  constexpr void Add(UnitCodec codec) { bits_ |= Bit(codec); }
  constexpr bool Has(UnitCodec codec) const { return (bits_ & Bit(codec)) != 0; }
  friend constexpr bool operator==(const CodecSet&, const CodecSet&) = default;

 private:
  static constexpr uint32_t Bit(UnitCodec codec) {
    return IsKnown(codec) ? 1u << static_cast<uint32_t>(codec) : 0;
  }
  uint32_t bits_ = Bit(UnitCodec::kRaw);
};

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

}  // namespace quire

#endif  // QUIRE_UNIT_CODEC_H_
