// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_frame.h"

#include <memory>
#include <span>
#include <utility>

namespace quire {

Status CheckShmFrame(const Frame& frame, uint64_t max_frame_bytes) {
  const size_t slices = frame.payload.slices().size();
  if (frame.head.size() > max_frame_bytes ||
      frame.payload.size_bytes() > max_frame_bytes - frame.head.size()) {
    return ResourceExhausted("a frame of ", frame.head.size() + frame.payload.size_bytes(),
                             " bytes is over the limit of ", max_frame_bytes);
  }
  if (slices > kMaxShmSlices) {
    return ResourceExhausted("a frame of ", slices, " slices is over the limit of ", kMaxShmSlices);
  }
  if (!frame.places.empty() && frame.places.size() != slices) {
    return InvalidArgument("a frame of ", slices, " slices has ", frame.places.size(), " places");
  }
  return OkStatus();
}

StatusOr<Frame> TakeShmFrame(ShmPacket& packet, ShmPeerMemory* lender) {
  Frame frame;
  frame.head = std::move(packet.head);
  frame.landing = packet.header.landing;
  frame.places = std::move(packet.places);
  std::shared_ptr<PayloadLease> lent;
  if (packet.header.lease != 0 && lender != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(lent, lender->Borrow(packet.header.lease));
    frame.payload.AddLease(lent);
  }
  const std::shared_ptr<const std::byte[]> here = std::move(packet.inline_bytes);
  uint64_t offset = 0;
  for (const ShmDescriptor& slice : packet.slices) {
    if (slice.region == ShmDescriptor::kInline) {
      frame.payload.Append(Slice{{here.get() + offset, slice.bytes}, here});
      offset += slice.bytes;
      continue;
    }
    const std::span<const std::byte> bytes =
        lender == nullptr ? std::span<const std::byte>() : lender->Bytes(slice);
    if (bytes.empty()) {
      return InvalidArgument("shared-memory connection: the peer sent a slice of region ",
                             slice.region, " that is not there");
    }
    frame.payload.Append(Slice{bytes, lent});
  }
  return frame;
}

}  // namespace quire
