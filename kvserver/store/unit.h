// SPDX-License-Identifier: Apache-2.0
//
// Names and bytes of units and extents inside the store. Values.
//
// Bytes and their checksum stay together from the arrival of a page until it is sent; types enforce
// that. A checksum is made once, over bytes that have just arrived, or were just encoded or decoded
// from verified ones. It is never made over kept bytes, since damage would then count as correct.
// UnitBytes gives its bytes in two ways only. Verify is for every use on the server (copy, compare,
// decode, derive, write back). ToSend adds the checksum, for the receiver to verify.
#ifndef QUIRE_KVSERVER_STORE_UNIT_H_
#define QUIRE_KVSERVER_STORE_UNIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "common/base/memory/checksum.h"
#include "kernels/api/digest.h"
#include "quire/key.h"
#include "quire/payload.h"
#include "quire/unit_codec.h"

namespace quire::kvserver {

/// Names a unit: extent (segment, layer) and the unit's index in it (layout.h, UnitIndex).
struct UnitAddress {
  SegmentKey segment;
  uint32_t layer = 0;
  uint32_t unit = 0;
};

/// A unit that a reader received with other bytes than its checksum says.
struct ReportedUnit {
  UnitAddress address;
  uint32_t crc32c =
      0;  ///< Checksum of what came, which may be a part of the unit. For messages only.
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

/// Bytes for a receiver that verifies them, and their checksum.
struct OutboundBytes {
  Slice slice;
  uint32_t crc32c = 0;
};

/// A unit's bytes in place, and their checksum. Valid while it lives; eviction works around it.
class UnitBytes {
 public:
  UnitBytes() = default;
  /// `crc32c` is the checksum of the bytes, in `codec`, at their arrival.
  UnitBytes(Slice slice, uint32_t crc32c, UnitCodec codec = UnitCodec::kRaw)
      : slice_(std::move(slice)), crc32c_(crc32c), codec_(codec) {}

  bool empty() const { return slice_.bytes.empty(); }
  uint64_t size_bytes() const { return slice_.bytes.size(); }
  uint32_t crc32c() const { return crc32c_; }
  UnitCodec codec() const { return codec_; }
  /// True when the bytes match their checksum now.
  bool Matches() const { return Crc32c(slice_.bytes) == crc32c_; }

  /// The bytes, for use on the server; nullopt when they do not match.
  std::optional<VerifiedBytes> Verify() const& { return UnitBytes(*this).Verify(); }
  std::optional<VerifiedBytes> Verify() && {
    if (!Matches()) return std::nullopt;
    return VerifiedBytes(std::move(slice_), crc32c_);
  }
  /// Returns the bytes unverified. The receiver verifies them.
  OutboundBytes ToSend() const& { return {slice_, crc32c_}; }
  OutboundBytes ToSend() && { return {std::move(slice_), crc32c_}; }

 private:
  Slice slice_;
  uint32_t crc32c_ = 0;
  UnitCodec codec_ = UnitCodec::kRaw;
};

/// Names an extent: one segment's payload at one layer.
struct ExtentId {
  SegmentKey segment;
  uint32_t layer = 0;
  friend auto operator<=>(const ExtentId&, const ExtentId&) = default;
};

/// "Layer" of the extent that holds a segment's minima and maxima on SSD. Its units are the digests
/// of one layer each.
inline constexpr uint32_t kDigestsLayer = UINT32_MAX;

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
