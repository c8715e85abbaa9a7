// SPDX-License-Identifier: Apache-2.0
//
// SegmentRecord: the extent header, all that is known of a segment except its payload. Its encoding
// is versioned and checksummed (docs/formats/segment_record.md). A segment has pages of a KvSpec,
// or the bytes of an object. Code that moves extents and units asks the record for their shape, and
// does not need to know which.
#ifndef QUIRE_KVSERVER_STORE_METADATA_SEGMENT_RECORD_H_
#define QUIRE_KVSERVER_STORE_METADATA_SEGMENT_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvserver/store/codec/codec.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/objects.h"
#include "quire/status.h"

namespace quire::kvserver {

/// The object whose bytes a segment holds.
struct StoredObject {
  std::string key;          ///< 1..kMaxObjectKeyBytes bytes
  uint64_t size_bytes = 0;  ///< 1..kMaxObjectBytes
  friend bool operator==(const StoredObject&, const StoredObject&) = default;
  ObjectShape shape() const { return ObjectShape::Of(size_bytes); }
};

/// Slot that an extent of an object takes in DRAM: one of four sizes between two powers of two, so
/// that objects of any size share slabs.
uint64_t ObjectSlotBytes(uint64_t extent_bytes);

struct SegmentRecord {
  std::string tenant;  ///< 1..64 bytes
  /// Set for an object, which has no spec, parent, position, tokens or codec.
  std::optional<StoredObject> object;
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

  /// Extents: one for each layer, or those of the object.
  uint32_t num_layers() const { return object ? object->shape().extents : spec.num_layers; }
  /// Layers that have digests: none of an object.
  uint32_t num_digest_layers() const { return object ? 0 : spec.num_layers; }
  /// Pages of one extent. A unit of an object is a page of one head.
  uint32_t num_pages() const {
    return object ? object->shape().units_per_extent : PageCount(spec, tokens.size());
  }
  uint32_t num_heads() const { return object ? 1 : spec.num_kv_heads; }
  /// Units of one extent.
  uint32_t units_per_layer() const { return num_pages() * num_heads(); }
  /// Bytes of one unit as written and read by callers.
  uint64_t unit_bytes() const {
    return object ? object->shape().unit_bytes : quire::UnitBytes(spec);
  }
  /// Bytes as written and read by callers.
  uint64_t payload_bytes() const { return num_layers() * (units_per_layer() * unit_bytes()); }
  /// Bytes in a tier of one unit, and of one extent, before the entropy coder.
  uint64_t stored_unit_bytes() const {
    return object ? unit_bytes() : quire::UnitBytes(spec, codec.id);
  }
  uint64_t stored_extent_bytes() const { return units_per_layer() * stored_unit_bytes(); }
  uint64_t stored_bytes() const { return num_layers() * stored_extent_bytes(); }
  /// Bytes of the slot in DRAM that each extent takes.
  uint64_t slot_bytes() const {
    return object ? ObjectSlotBytes(stored_extent_bytes())
                  : uint64_t{spec.segment_pages} * spec.num_kv_heads * stored_unit_bytes();
  }
  /// Tokens whose prefill an eviction costs. An object counts as one.
  uint64_t cost_tokens() const { return object ? 1 : tokens.size(); }
  /// True when another segment can follow.
  /// Look-ups find it: it is neither private nor an object.
  bool listed() const { return !private_pages && !object; }
  bool is_full() const { return !object && tokens.size() == spec.segment_tokens(); }
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
