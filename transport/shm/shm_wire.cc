// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_wire.h"

#include <cstring>

namespace quire {
namespace {

template <typename T>
void AppendBytes(std::span<const T> values, std::vector<std::byte>* out) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  out->insert(out->end(), bytes.begin(), bytes.end());
}

Status Malformed(std::string_view what) {
  return InvalidArgument("shared-memory connection: the peer sent ", what);
}

Status CheckFrame(const ShmHeader& header, const ShmWireLimits& limits) {
  if (header.number != 0 || (header.flags & ~ShmHeader::kHasPlaces) != 0) {
    return Malformed("a frame with unknown flags");
  }
  if (header.num_slices > kMaxShmSlices) return Malformed("a frame of too many slices");
  if (header.head_bytes > limits.max_frame_bytes ||
      header.bytes > limits.max_frame_bytes - header.head_bytes) {
    return Malformed("a frame over max_frame_bytes");
  }
  return OkStatus();
}

/// True if all fields of frames are zero.
bool IsBare(const ShmHeader& header) {
  return header.head_bytes == 0 && header.num_slices == 0 && header.lease == 0 &&
         header.landing == 0;
}

Status CheckGreeting(const ShmHeader& header) {
  if (header.number != kShmVersion) {
    return FailedPrecondition("shared-memory connection: the server speaks version ", header.number,
                              ", this client ", kShmVersion, ": use the same release of both");
  }
  if ((header.flags & ~ShmHeader::kInPlace) != 0 || header.bytes > kLargestShmFrame) {
    return Malformed("a greeting that is none");
  }
  return OkStatus();
}

Status CheckClientPacket(const ShmHeader& header) {
  if (header.type != ShmPacketType::kRegion) return Malformed("a packet that only servers send");
  if (IsBare(header) && header.number == kShmClientRegion && header.flags == 0 &&
      header.bytes > 0 && header.bytes <= kLargestShmClientRegion) {
    return OkStatus();
  }
  return Malformed("a region that no client has");
}

Status CheckServerPacket(const ShmHeader& header) {
  if (header.type == ShmPacketType::kTaken) {
    ShmHeader bare = header;
    bare.lease = 0;
    const bool is_bare = IsBare(bare) && header.number == 0 && header.flags == 0;
    if (is_bare && header.bytes == 0 && header.lease != 0) return OkStatus();
    return Malformed("a return of a lease that is none");
  }
  if (!IsBare(header)) return Malformed("a packet with fields that it cannot have");
  switch (header.type) {
    case ShmPacketType::kGreeting:
      return CheckGreeting(header);
    case ShmPacketType::kLeaseChannel:
      if (header.number == 0 && header.flags == 0 && header.bytes > 0) return OkStatus();
      return Malformed("a lease channel that is none");
    case ShmPacketType::kRegion:
      if (header.number >= 1 && header.number <= kMaxShmRegions && header.flags == 0 &&
          header.bytes > 0) {
        return OkStatus();
      }
      return Malformed("a region that is none");
    case ShmPacketType::kFrame:
    case ShmPacketType::kTaken:
      break;
  }
  return Malformed("a packet of unknown type");
}

}  // namespace

void AppendShmPacket(ShmHeader header, std::string_view head, std::span<const ShmDescriptor> slices,
                     std::span<const uint64_t> places, std::vector<std::byte>* out) {
  header.head_bytes = static_cast<uint32_t>(head.size());
  header.num_slices = static_cast<uint32_t>(slices.size());
  if (!places.empty()) header.flags |= ShmHeader::kHasPlaces;
  out->reserve(out->size() + sizeof header + header.prefix_bytes());
  AppendBytes(std::span<const ShmHeader>(&header, 1), out);
  AppendBytes(std::span<const char>(head), out);
  AppendBytes(slices, out);
  AppendBytes(places, out);
}

StatusOr<ShmHeader> DecodeShmHeader(std::span<const std::byte> bytes, const ShmWireLimits& limits) {
  ShmHeader header;
  if (bytes.size() < sizeof header) return Malformed("half a header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != ShmHeader::kMagic) return Malformed("what is no packet");
  if (header.type == ShmPacketType::kFrame) {
    QUIRE_RETURN_IF_ERROR(CheckFrame(header, limits));
  } else if (limits.from_server) {
    QUIRE_RETURN_IF_ERROR(CheckServerPacket(header));
  } else {
    QUIRE_RETURN_IF_ERROR(CheckClientPacket(header));
  }
  return header;
}

Status CheckShmDescriptors(const ShmHeader& header, std::span<const ShmDescriptor> slices,
                           const ShmWireLimits& limits) {
  uint64_t inline_bytes = 0, region_bytes = 0;  // At most 2^20 times 2^32: no overflow.
  for (const ShmDescriptor& slice : slices) {
    if (slice.bytes == 0 || slice.region > kMaxShmRegions) return Malformed("a slice that is none");
    (slice.region == ShmDescriptor::kInline ? inline_bytes : region_bytes) += slice.bytes;
    if (slice.region == ShmDescriptor::kInline && slice.offset != 0) {
      return Malformed("an inline slice with an offset");
    }
  }
  if (inline_bytes != header.bytes) return Malformed("slices that do not add up");
  if (region_bytes > 0 && header.lease == 0) return Malformed("slices without a lease");
  if (header.head_bytes + inline_bytes + region_bytes > limits.max_frame_bytes) {
    return Malformed("a frame over max_frame_bytes");
  }
  return OkStatus();
}

}  // namespace quire
