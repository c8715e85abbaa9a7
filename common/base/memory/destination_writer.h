// SPDX-License-Identifier: Apache-2.0
//
// DestinationWriter: fills a destination in order, from some place on. Ownership: the destination
// outlives it. Thread-safety: none.
#ifndef QUIRE_COMMON_BASE_MEMORY_DESTINATION_WRITER_H_
#define QUIRE_COMMON_BASE_MEMORY_DESTINATION_WRITER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "quire/destination.h"
#include "quire/payload.h"

namespace quire {

class DestinationWriter {
 public:
  /// Begins at byte `at`. REQUIRES: at <= to.size_bytes().
  DestinationWriter(const Destination& to, uint64_t at) : pieces_(to.pieces()), offset_(at) {
    GoOn();
  }

  /// Takes the next `bytes` when they lie in one piece, for the caller to fill. Otherwise it
  /// returns null, and takes none. REQUIRES: bytes > 0, and there are that many more.
  std::byte* Take(uint64_t bytes) {
    const std::span<std::byte> piece = pieces_[next_];
    if (bytes > piece.size() - offset_) return nullptr;
    std::byte* const taken = piece.data() + offset_;
    offset_ += bytes;
    GoOn();
    return taken;
  }

  /// Copies all of `payload`. REQUIRES: there is room for it.
  void Write(const Payload& payload) {
    for (const Slice& slice : payload.slices()) {
      std::span<const std::byte> rest = slice.bytes;
      while (!rest.empty()) {
        const auto bytes = std::min<uint64_t>(rest.size(), pieces_[next_].size() - offset_);
        std::memcpy(Take(bytes), rest.data(), bytes);
        rest = rest.subspan(bytes);
      }
    }
  }

 private:
  /// Moves on to the piece that has the next byte, where there is one.
  void GoOn() {
    while (next_ < pieces_.size() && offset_ >= pieces_[next_].size()) {
      offset_ -= pieces_[next_++].size();
    }
  }

  std::span<const std::span<std::byte>> pieces_;
  size_t next_ = 0;
  uint64_t offset_ = 0;  ///< In the next piece.
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_DESTINATION_WRITER_H_
