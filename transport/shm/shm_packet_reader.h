// SPDX-License-Identifier: Apache-2.0
//
// ShmPacketReader: cuts the bytes of a connection's socket into packets, however they arrive.
// Inline payload is read straight to its final place. It does no I/O: the caller reads into Room()
// and reports the size to Take().
//
// Memory: grows with the bytes received, not with the sizes that a header announces. The inline
// payload of one frame is the exception: at most max_frame_bytes, backed by the system when
// written.
// Thread-safety: none.
// Errors: INVALID_ARGUMENT for malformed packets, and those of the sink. Do not use the reader
// after an error.
#ifndef QUIRE_TRANSPORT_SHM_SHM_PACKET_READER_H_
#define QUIRE_TRANSPORT_SHM_SHM_PACKET_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "transport/shm/shm_wire.h"

namespace quire {

/// A complete packet.
struct ShmPacket {
  ShmHeader header;
  std::string head;
  std::vector<ShmDescriptor> slices;  ///< Checked against the header.
  std::vector<uint64_t> places;       ///< Empty, or one for each slice.
  std::shared_ptr<std::byte[]> inline_bytes;
};

class ShmPacketReader {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    /// Handles a packet, and may take its parts.
    [[nodiscard]] virtual Status OnPacket(ShmPacket& packet) = 0;
  };

  explicit ShmPacketReader(const ShmWireLimits& limits) : limits_(limits), buffer_(kBufferBytes) {}

  /// Where to put the next bytes: the first part, then the second. The second is never empty.
  std::array<std::span<std::byte>, 2> Room();
  /// Processes `bytes` bytes that were put into Room().
  [[nodiscard]] Status Take(size_t bytes, Sink& sink);

 private:
  static constexpr size_t kBufferBytes = 128 << 10;

  /// Reads one packet's parts from the buffer; false when they have not all arrived.
  [[nodiscard]] StatusOr<bool> ReadPrefix();
  void TakeInline();

  const ShmWireLimits limits_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // Unread range of the buffer.
  ShmPacket packet_;
  uint64_t missing_ = 0;  // Inline bytes of packet_ still to arrive.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_PACKET_READER_H_
