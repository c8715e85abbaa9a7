// SPDX-License-Identifier: Apache-2.0
//
// ShmPacketReader: cuts the bytes of a connection's socket into packets, however they arrive.
// Inline payload is read straight to where it stays. It does no I/O: the caller reads into Room()
// and says how much it was.
//
// Memory: it grows with the bytes that have arrived, not with what a header announces, except for
// the inline payload of one frame (at most max_frame_bytes, which the system backs when it is
// written). Thread-safety: none. Errors: INVALID_ARGUMENT for bytes that are no packets, whatever
// the sink returns; after an error it must not be used again.
#ifndef QUIRE_TRANSPORT_SHM_SHM_PACKET_READER_H_
#define QUIRE_TRANSPORT_SHM_SHM_PACKET_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quire/status.h"
#include "transport/shm/shm_wire.h"

namespace quire {

/// A packet that has arrived whole.
struct ShmPacket {
  ShmHeader header;
  std::string head;
  std::vector<ShmDescriptor> slices;  ///< Checked against the header.
  std::vector<uint64_t> places;       ///< None, or one for each slice.
  std::shared_ptr<std::byte[]> inline_bytes;
};

class ShmPacketReader {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    /// The sink may take the packet's parts.
    [[nodiscard]] virtual Status OnPacket(ShmPacket& packet) = 0;
  };

  explicit ShmPacketReader(const ShmWireLimits& limits) : limits_(limits), buffer_(kBufferBytes) {}

  /// Where the next bytes go: the first part, then the second. The second is never empty.
  std::array<std::span<std::byte>, 2> Room();
  /// Takes `bytes` bytes that were put into Room().
  [[nodiscard]] Status Take(size_t bytes, Sink& sink);

 private:
  static constexpr size_t kBufferBytes = 128 << 10;

  /// Reads one packet's parts out of the buffer; false when they have not all arrived.
  [[nodiscard]] StatusOr<bool> ReadPrefix();
  void TakeInline();

  const ShmWireLimits limits_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // What has arrived in the buffer and is not read.
  ShmPacket packet_;
  uint64_t missing_ = 0;  // Inline bytes of packet_ that have not arrived.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_PACKET_READER_H_
