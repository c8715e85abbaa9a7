// SPDX-License-Identifier: Apache-2.0
//
// SegmentRecord: the extent header, all that is known of a segment except its payload. Its encoding
// is versioned and checksummed (docs/formats/segment_record.md).
#ifndef QUIRE_KVSERVER_STORE_METADATA_SEGMENT_RECORD_H_
#define QUIRE_KVSERVER_STORE_METADATA_SEGMENT_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvserver/store/codec/codec.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/status.h"

namespace quire::kvserver {

struct SegmentRecord {
  std::string tenant;  ///< 1..64 bytes
  KvSpec spec;
  SegmentKey parent;
  uint64_t first_token = 0;     ///< Context-local position of the first token; a multiple of p*g.
  std::vector<TokenId> tokens;  ///< 1..p*g, none negative
  CodecParams codec;            ///< Codec of its stored units.
  bool dram_only = false;       ///< Its extents are not on SSD and do not survive a restart.
  /// Belongs to a private context; deleted with it, or at the next open.
  bool private_pages = false;
  /// Distinguishes the stored bytes from earlier ones under the key (policy/segment_lives.h). 0 in
  /// records older than this field.
  uint64_t incarnation = 0;
  std::vector<uint32_t> unit_crc32c;  ///< CRC-32C of the encoded units, [layer][page][head].

  uint32_t num_pages() const { return PageCount(spec, tokens.size()); }
  /// Units of one extent.
  uint32_t units_per_layer() const { return num_pages() * spec.num_kv_heads; }
  /// Bytes as written and read by callers.
  uint64_t payload_bytes() const { return SegmentBytes(spec, num_pages()); }
  /// Bytes in a tier of one unit, and of one extent of `pages` pages, before the entropy coder.
  uint64_t stored_unit_bytes() const { return quire::UnitBytes(spec, codec.id); }
  uint64_t stored_extent_bytes(uint32_t pages) const {
    return uint64_t{pages} * spec.num_kv_heads * stored_unit_bytes();
  }
  uint64_t stored_bytes() const { return spec.num_layers * stored_extent_bytes(num_pages()); }
  /// True when another segment can follow.
  bool is_full() const { return tokens.size() == spec.segment_tokens(); }
  friend bool operator==(const SegmentRecord&, const SegmentRecord&) = default;
};

inline constexpr size_t kMaxTenantBytes = 64;
/// Most segments of one chain; bounds every walk along it.
inline constexpr uint64_t kMaxChainSegments = 65536;

/// REQUIRES: `record` is valid, as its comments say.
[[nodiscard]] std::string EncodeSegmentRecord(const SegmentRecord& record);

/// Decodes untrusted bytes safely. DATA_LOSS when EncodeSegmentRecord cannot have written them;
/// FAILED_PRECONDITION for a record of a newer version.
[[nodiscard]] StatusOr<SegmentRecord> DecodeSegmentRecord(std::string_view encoded);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_SEGMENT_RECORD_H_
