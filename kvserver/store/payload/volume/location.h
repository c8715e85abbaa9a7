// SPDX-License-Identifier: Apache-2.0
//
// Location: the place of one write in the volumes. Its writer keeps it with its metadata. It
// suffices to read, to free the space and to mark it as used after a restart.
//
// Units: bytes. Runs start and end at blocks. Only the last block is partly filled: `bytes` is the
// size written, and the runs cover it rounded up to whole blocks. Thread-safety: value types.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_LOCATION_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_LOCATION_H_

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

namespace quire::kvserver {

/// Unit of allocation and of every write to a volume.
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

/// A contiguous part of a location, in one volume.
struct LocatedPiece {
  uint32_t volume = 0;
  uint64_t file_offset = 0;
  uint64_t length = 0;
};

/// Returns the first contiguous piece of `length` bytes at `offset` of `runs`. Its length is 0 when
/// `offset` is past their end.
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

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_VOLUME_LOCATION_H_
