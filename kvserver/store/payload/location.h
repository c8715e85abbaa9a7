// SPDX-License-Identifier: Apache-2.0
//
// Location: where one write lies in the volumes. Whoever wrote keeps it with its metadata; it is
// all that is needed to read, to give the space back and to mark it as used after a restart.
//
// Units: bytes. Runs start and end at blocks; only the last one is partly filled: `bytes` is what
// was written, the runs together are that rounded up to whole blocks.
// Thread-safety: value types.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_LOCATION_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_LOCATION_H_

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

namespace quire::kvserver {

/// What space is given out in, and the unit of every write to a volume.
inline constexpr uint64_t kBlockBytes = 4096;

constexpr uint64_t RoundDown(uint64_t bytes, uint64_t multiple) {
  return bytes / multiple * multiple;
}
/// REQUIRES: the result fits.
constexpr uint64_t RoundUp(uint64_t bytes, uint64_t multiple) {
  return RoundDown(bytes + multiple - 1, multiple);
}

/// Consecutive blocks of one volume.
struct BlockRun {
  uint32_t volume = 0;
  uint64_t offset = 0;  ///< Bytes from the start of the volume file; a multiple of kBlockBytes.
  uint64_t length = 0;  ///< Bytes; a multiple of kBlockBytes, not 0.
  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const BlockRun& run) {
  return out << "volume " << run.volume << " offset " << run.offset << " length " << run.length;
}

inline uint64_t TotalBytes(std::span<const BlockRun> runs) {
  uint64_t bytes = 0;
  for (const BlockRun& run : runs) bytes += run.length;
  return bytes;
}

struct Location {
  std::vector<BlockRun> runs;
  uint64_t bytes = 0;
  friend bool operator==(const Location&, const Location&) = default;
};

/// A part of a location that is contiguous in one volume.
struct LocatedPiece {
  uint32_t volume = 0;
  uint64_t file_offset = 0;
  uint64_t length = 0;
};

/// The first piece of `length` bytes at `offset` of `runs`; its length is 0 when `offset` lies past
/// their end.
inline LocatedPiece FirstPiece(std::span<const BlockRun> runs, uint64_t offset, uint64_t length) {
  for (const BlockRun& run : runs) {
    if (offset < run.length) {
      return {run.volume, run.offset + offset, std::min(length, run.length - offset)};
    }
    offset -= run.length;
  }
  return {};
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_LOCATION_H_
