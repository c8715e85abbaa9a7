// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic of units, extents, segments and pages. Header-only, plain C++.
//
//   unit    [2][p][d] elements: K rows, then V rows, of one page, layer and KV head (MLA:
//   [p][d_c+d_rope]) extent  [pages][n_kv] units: one segment's payload at one layer; pages = g
//   except in a short last segment segment g consecutive pages of a chain, all layers: L extents
//
// A short last page still takes a whole unit; rows past its last token are zero.
// Units: *_bytes are bytes, *_tokens tokens, page and segment numbers count from the chain's start.
#ifndef QUIRE_LAYOUT_H_
#define QUIRE_LAYOUT_H_

#include <cstdint>

#include "quire/kv_spec.h"
#include "quire/unit_codec.h"

namespace quire {

constexpr uint64_t DivideRoundUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/// Bytes of one unit.
inline uint64_t UnitBytes(const KvSpec& spec) {
  return uint64_t{spec.rows_per_unit()} * spec.key_dim() * ElementBytes(spec.dtype);
}
/// Byte offset of the V rows inside a unit. Equal to the unit's size for MLA, which has none.
inline uint64_t ValueOffsetBytes(const KvSpec& spec) {
  return uint64_t{spec.page_tokens} * spec.key_dim() * ElementBytes(spec.dtype);
}

/// The part of units to read: the whole, or the V rows for a reader that has the keys.
enum class UnitPart : uint8_t { kWhole, kValues };

/// Byte offset of the part inside a unit. The part extends to the unit's end.
inline uint64_t PartOffsetBytes(const KvSpec& spec, UnitPart part) {
  return part == UnitPart::kValues ? ValueOffsetBytes(spec) : 0;
}
/// Bytes of the part of one unit; 0 for the values of MLA.
inline uint64_t UnitBytes(const KvSpec& spec, UnitPart part) {
  return UnitBytes(spec) - PartOffsetBytes(spec, part);
}
/// Parameters that decide the size of an encoded unit.
inline UnitShape ShapeOf(const KvSpec& spec) {
  return {.page_tokens = spec.page_tokens,
          .head_dim = spec.key_dim(),
          .has_values = spec.attention != AttentionKind::kMla,
          .dtype = spec.dtype};
}
/// Bytes of one whole unit in `codec`, a known one.
inline uint64_t UnitBytes(const KvSpec& spec, UnitCodec codec) {
  return static_cast<uint64_t>(EncodedUnitBytes(codec, ShapeOf(spec)));
}
/// Bytes of `pages` pages at one layer.
inline uint64_t ExtentBytes(const KvSpec& spec, uint32_t pages) {
  return uint64_t{pages} * spec.num_kv_heads * UnitBytes(spec);
}
/// Bytes of `pages` pages at all layers.
inline uint64_t SegmentBytes(const KvSpec& spec, uint32_t pages) {
  return uint64_t{spec.num_layers} * ExtentBytes(spec, pages);
}
/// Index of a unit inside its extent; `page` counts from the segment's start.
inline uint32_t UnitIndex(const KvSpec& spec, uint32_t page, uint32_t head) {
  return page * spec.num_kv_heads + head;
}

/// Pages that `tokens` tokens take, the last one possibly short.
inline uint32_t PageCount(const KvSpec& spec, uint64_t tokens) {
  return static_cast<uint32_t>(DivideRoundUp(tokens, spec.page_tokens));
}
/// Segments that `tokens` tokens take, the last one possibly short.
inline uint32_t SegmentCount(const KvSpec& spec, uint64_t tokens) {
  return static_cast<uint32_t>(DivideRoundUp(tokens, spec.segment_tokens()));
}
/// Tokens of segment `index` in a chain of `tokens` tokens; 0 past its end.
inline uint32_t TokensInSegment(const KvSpec& spec, uint64_t tokens, uint32_t index) {
  const uint64_t first = uint64_t{index} * spec.segment_tokens();
  if (first >= tokens) return 0;
  const uint64_t rest = tokens - first;
  return static_cast<uint32_t>(rest < spec.segment_tokens() ? rest : spec.segment_tokens());
}
/// Tokens of page `index` in a chain of `tokens` tokens; 0 past its end.
inline uint32_t TokensInPage(const KvSpec& spec, uint64_t tokens, uint32_t index) {
  const uint64_t first = uint64_t{index} * spec.page_tokens;
  if (first >= tokens) return 0;
  const uint64_t rest = tokens - first;
  return static_cast<uint32_t>(rest < spec.page_tokens ? rest : spec.page_tokens);
}

}  // namespace quire

#endif  // QUIRE_LAYOUT_H_
