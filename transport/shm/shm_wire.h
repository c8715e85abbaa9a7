// SPDX-License-Identifier: Apache-2.0
//
// The wire format on the socket of a shared-memory connection. A packet is a fixed header, the
// frame's head, descriptors of its payload's slices, places, and the inline payload bytes. Both
// ends run on one machine, so integers are in its byte order.
//
//   greeting       server, first: version and limits
//   lease channel  server, with a descriptor: the socket on which leases are released, renewed
//                  and ended, as an array of words (uint64_t) in each message (ShmLeaseWord)
//   region         both, with a descriptor: memory that later descriptors name; one of a client
//   frame          both; carries a lease when it names regions
//   taken          server: payload that a client's frame lent is no longer used
//
// Decoding trusts nothing: an accepted packet is within the limits and its sizes add up. Pure
// functions.
#ifndef QUIRE_TRANSPORT_SHM_SHM_WIRE_H_
#define QUIRE_TRANSPORT_SHM_SHM_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire {

inline constexpr uint16_t kShmVersion = 3;
inline constexpr uint32_t kMaxShmSlices = 1 << 20;  ///< Most slices of one frame.
/// Most regions of one connection; numbers from 1.
inline constexpr uint16_t kMaxShmRegions = 32;
/// The only region of a client, and its largest size.
inline constexpr uint16_t kShmClientRegion = 1;
inline constexpr uint64_t kLargestShmClientRegion = uint64_t{64} << 20;
inline constexpr uint64_t kLargestShmFrame = 0xffffffff;  ///< Largest max_frame_bytes.

enum class ShmPacketType : uint8_t {
  kGreeting = 1,
  kLeaseChannel = 2,
  kRegion = 3,
  kFrame = 4,
  kTaken = 5
};

struct ShmHeader {
  static constexpr uint32_t kMagic = 0x4d485351;
  static constexpr uint8_t kHasPlaces = 1;  ///< Frame: a place follows for each slice.
  static constexpr uint8_t kInPlace = 2;    ///< Greeting: payload may be lent in place.

  uint32_t magic = kMagic;
  ShmPacketType type = ShmPacketType::kFrame;
  uint8_t flags = 0;
  uint16_t number = 0;      ///< Greeting: the version. Region: its number.
  uint32_t head_bytes = 0;  ///< Frame.
  uint32_t num_slices = 0;  ///< Frame.
  /// Greeting: max_frame_bytes. Lease channel: microseconds that a lease lasts. Region: its size.
  /// Frame: inline payload.
  uint64_t bytes = 0;
  /// Frame: lease to release when the slices in regions are no longer used. Taken: such a lease of
  /// the client.
  uint64_t lease = 0;
  uint64_t landing = 0;  ///< Frame.

  bool has_places() const { return (flags & kHasPlaces) != 0; }
  /// Size of head, descriptors and places, which lie between the header and the inline payload.
  uint64_t prefix_bytes() const {
    return head_bytes + uint64_t{num_slices} * (has_places() ? 24 : 16);
  }
};
static_assert(sizeof(ShmHeader) == 40);

/// Messages about a lease, in the bits above its number.
enum class ShmLeaseWord : uint64_t {
  kGivenBack = 0,                ///< Client: release the lease.
  kRenew = uint64_t{1} << 62,    ///< Client: restart the lease's time.
  kEnded = uint64_t{1} << 62,    ///< Server: the lease was held for too long and has ended.
  kRenewed = uint64_t{1} << 63,  ///< Server: the lease's time was restarted.
  /// Server: not renewed; the lease has ended, or ends at its old time.
  kRefused = uint64_t{3} << 62,
};
inline constexpr uint64_t kShmLeaseNumberMask = (uint64_t{1} << 62) - 1;
constexpr uint64_t ShmWordOf(uint64_t lease, ShmLeaseWord word) {
  return lease | static_cast<uint64_t>(word);
}
constexpr bool Says(uint64_t word, ShmLeaseWord what) {
  return (word & ~kShmLeaseNumberMask) == static_cast<uint64_t>(what);
}

/// Location of a slice.
struct ShmDescriptor {
  static constexpr uint32_t kInline = 0;

  uint64_t offset = 0;  ///< Offset in the region; 0 for inline slices, which follow each other.
  uint32_t bytes = 0;   ///< > 0.
  uint32_t region = kInline;
};
static_assert(sizeof(ShmDescriptor) == 16);

/// Limits of the packets that one end accepts.
struct ShmWireLimits {
  uint64_t max_frame_bytes = 0;  ///< Head and payload; at most kLargestShmFrame.
  /// True for packets from a server, which may have several regions and other types.
  bool from_server = false;
};

/// Appends a packet without its inline payload. Sets `header`'s sizes from the other arguments.
/// REQUIRES: places.empty() or one for each slice.
void AppendShmPacket(ShmHeader header, std::string_view head, std::span<const ShmDescriptor> slices,
                     std::span<const uint64_t> places, std::vector<std::byte>* out);

/// Decodes a header. INVALID_ARGUMENT for one that no peer of this version sends, or that exceeds
/// the limits.
[[nodiscard]] StatusOr<ShmHeader> DecodeShmHeader(std::span<const std::byte> bytes,
                                                  const ShmWireLimits& limits);

/// Checks that a frame's descriptors add up to its header's sizes and stay within the limits.
[[nodiscard]] Status CheckShmDescriptors(const ShmHeader& header,
                                         std::span<const ShmDescriptor> slices,
                                         const ShmWireLimits& limits);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_WIRE_H_
