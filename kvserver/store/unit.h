// SPDX-License-Identifier: Apache-2.0
//
// How units and extents are named and handed out inside the store. Values.
//
// Bytes and their checksum travel together from the moment a page arrives until it is handed out,
// and types see to it. A checksum is made once, over bytes that have just arrived (or were just
// encoded or decoded from verified ones), and never again over bytes that have been kept: that
// would declare damage to be what was put. UnitBytes shows its bytes in two ways only: verified,
// for every use on the server (copying, comparing, decoding, deriving, writing back), or on their
// way out together with the checksum, for whoever receives them to verify.
#ifndef QUIRE_KVSERVER_STORE_UNIT_H_
#define QUIRE_KVSERVER_STORE_UNIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "common/base/checksum.h"
#include "kernels/api/digest.h"
#include "quire/key.h"
#include "quire/payload.h"

namespace quire::kvserver {

/// Names a unit: extent (segment, layer) and the unit's index in it (layout.h, UnitIndex).
struct UnitAddress {
  SegmentKey segment;
  uint32_t layer = 0;
  uint32_t unit = 0;
};

/// A unit that somebody received with other bytes than it has a checksum for.
struct ReportedUnit {
  UnitAddress address;
  uint32_t crc32c = 0;  ///< Of what came, which may be a part of the unit. Only ever told.
};

/// Bytes that matched the checksum that they came with, kept alive by their owner.
class VerifiedBytes {
 public:
  std::span<const std::byte> bytes() const { return slice_.bytes; }
  const Slice& slice() const { return slice_; }
  uint32_t crc32c() const { return crc32c_; }

 private:
  friend class UnitBytes;
  VerifiedBytes(Slice slice, uint32_t crc32c) : slice_(std::move(slice)), crc32c_(crc32c) {}

  Slice slice_;
  uint32_t crc32c_;
};

/// Bytes on their way to somebody who verifies them, and what they have to match.
struct OutboundBytes {
  Slice slice;
  uint32_t crc32c = 0;
};

/// A unit's bytes in place, and their checksum. Valid while it lives; eviction works around it.
class UnitBytes {
 public:
  UnitBytes() = default;
  /// `crc32c` is the checksum that the bytes had when they arrived. `encoded`: inside the store;
  /// readers get what it decodes to.
  UnitBytes(Slice slice, uint32_t crc32c, bool encoded = false)
      : slice_(std::move(slice)), crc32c_(crc32c), encoded_(encoded) {}

  bool empty() const { return slice_.bytes.empty(); }
  uint64_t size_bytes() const { return slice_.bytes.size(); }
  uint32_t crc32c() const { return crc32c_; }
  bool encoded() const { return encoded_; }
  /// Whether the bytes match their checksum now.
  bool Matches() const { return Crc32c(slice_.bytes) == crc32c_; }

  /// The bytes, for use on the server; nullopt when they do not match.
  std::optional<VerifiedBytes> Verify() const& { return UnitBytes(*this).Verify(); }
  std::optional<VerifiedBytes> Verify() && {
    if (!Matches()) return std::nullopt;
    return VerifiedBytes(std::move(slice_), crc32c_);
  }
  /// Verified or not: whoever receives them verifies.
  OutboundBytes ToSend() const& { return {slice_, crc32c_}; }
  OutboundBytes ToSend() && { return {std::move(slice_), crc32c_}; }

 private:
  Slice slice_;
  uint32_t crc32c_ = 0;
  bool encoded_ = false;
};

/// Names an extent: one segment's payload at one layer.
struct ExtentId {
  SegmentKey segment;
  uint32_t layer = 0;
  friend auto operator<=>(const ExtentId&, const ExtentId&) = default;
};

struct ExtentIdHash {
  size_t operator()(const ExtentId& id) const {
    return SegmentKeyHash()(id.segment) ^ (size_t{id.layer} * 0x9e3779b97f4a7c15ull);
  }
};

/// Names the digests of one kind of the units of an extent.
struct DigestId {
  ExtentId extent;
  kernels::DigestKind kind = kernels::DigestKind::kMinMax;
  friend auto operator<=>(const DigestId&, const DigestId&) = default;
};

struct DigestIdHash {
  size_t operator()(const DigestId& id) const {
    return ExtentIdHash()(id.extent) + static_cast<size_t>(id.kind);
  }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_UNIT_H_
