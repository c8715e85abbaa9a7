// SPDX-License-Identifier: Apache-2.0
//
// Objects: opaque bytes under keys, stored as segments of bytes (docs/design/0060). An object is
// cut into extents and units by its size alone, so that client and server agree on the shape. Plain
// values and pure functions.
#ifndef QUIRE_OBJECTS_H_
#define QUIRE_OBJECTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "quire/destination.h"
#include "quire/payload.h"

namespace quire {

inline constexpr size_t kMaxObjectKeyBytes = 1024;
inline constexpr uint64_t kMaxObjectBytes = uint64_t{1} << 30;
/// Largest extent and unit of an object, in bytes.
inline constexpr uint64_t kObjectExtentBytes = uint64_t{4} << 20;
inline constexpr uint64_t kObjectUnitBytes = uint64_t{64} << 10;

/// Shape of an object of some size: `extents` extents of `units_per_extent` units of `unit_bytes`.
/// The object's bytes are followed by zeros up to stored_bytes().
struct ObjectShape {
  uint32_t extents = 1;
  uint32_t units_per_extent = 1;
  uint32_t unit_bytes = 1;

  /// REQUIRES: 1 <= size_bytes <= kMaxObjectBytes.
  static constexpr ObjectShape Of(uint64_t size_bytes) {
    const uint64_t extents = DivideUp(size_bytes, kObjectExtentBytes);
    const uint64_t units = DivideUp(DivideUp(size_bytes, extents), kObjectUnitBytes);
    return {.extents = static_cast<uint32_t>(extents),
            .units_per_extent = static_cast<uint32_t>(units),
            .unit_bytes = static_cast<uint32_t>(DivideUp(size_bytes, extents * units))};
  }

  constexpr uint32_t units() const { return extents * units_per_extent; }
  constexpr uint64_t extent_bytes() const { return uint64_t{units_per_extent} * unit_bytes; }
  constexpr uint64_t stored_bytes() const { return extents * extent_bytes(); }

 private:
  static constexpr uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
};

/// An object to store. `bytes` may lie in any number of slices.
struct ObjectToPut {
  std::string key;  ///< 1..kMaxObjectKeyBytes bytes, any values
  Payload bytes;    ///< 1..kMaxObjectBytes
};
struct PutObjectReply {
  bool existed = false;  ///< It was stored before, and is unchanged.
  bool differs = false;  ///< It was stored with other bytes, which stand: delete it to replace it.
};

/// Bytes of an object to read.
struct ObjectRange {
  std::string key;
  uint64_t offset = 0;  ///< Below the object's size.
  uint64_t bytes = 0;   ///< From `offset` on, at most to the object's end; 0: to its end.
};
/// Bytes that were read, verified against their checksums.
struct ObjectBytes {
  uint64_t object_bytes = 0;  ///< Size of the whole object.
  /// In the server's memory where the transport lends it; then valid while `payload.IsValid()`. One
  /// slice for each extent there.
  Payload payload;
};

/// Bytes of an object to read to memory of the caller.
struct ObjectInto {
  std::string key;
  uint64_t offset = 0;  ///< Below the object's size.
  Destination to;       ///< At least one byte; filled up to the object's end.
  /// True: an object that does not end where `to` does counts as one that is not stored.
  bool exact = false;
};

}  // namespace quire

#endif  // QUIRE_OBJECTS_H_
