// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/frame_parts.h"

#include <utility>
#include <vector>

#include "common/base/checksum.h"
#include "common/base/unit_copy.h"

namespace quire {
namespace {

/// The payload's bytes in slices of the places' sizes, which sum up to it. A slice that straddles
/// several received ones is copied.
Payload Cut(const Payload& payload, const std::vector<FramePlace>& places) {
  Payload cut;
  cut.AddLeases(payload);
  const std::vector<Slice>& slices = payload.slices();
  size_t slice = 0, offset = 0;
  for (const FramePlace& place : places) {
    if (slices[slice].bytes.size() - offset >= place.bytes) {
      cut.Append(Slice{slices[slice].bytes.subspan(offset, place.bytes), slices[slice].owner});
      offset += place.bytes;
    } else {
      std::vector<std::byte> joined;
      joined.reserve(place.bytes);
      while (joined.size() < place.bytes) {
        const std::span<const std::byte> rest = slices[slice].bytes.subspan(offset);
        const size_t take = std::min<size_t>(rest.size(), place.bytes - joined.size());
        joined.insert(joined.end(), rest.begin(), rest.begin() + static_cast<ptrdiff_t>(take));
        offset += take;
        if (offset == slices[slice].bytes.size() && joined.size() < place.bytes) {
          ++slice;
          offset = 0;
        }
      }
      cut.Append(std::move(joined));
    }
    if (offset == slices[slice].bytes.size() && slice + 1 < slices.size()) {
      ++slice;
      offset = 0;
    }
  }
  return cut;
}

/// The end of the slices from `first` on that make a piece: one of them if there are any, and more
/// as long as they fit.
size_t EndOfPiece(std::span<const Slice> slices, size_t first, uint64_t piece_bytes) {
  uint64_t bytes = 0;
  size_t end = first;
  for (; end < slices.size(); ++end) {
    bytes += slices[end].bytes.size();
    if (end > first && bytes > piece_bytes) break;
  }
  return end;
}

}  // namespace

Payload WithOwners(Payload payload) {
  Payload owned;
  owned.AddLeases(payload);
  owned.Reserve(payload.slices().size());
  for (Slice& slice : std::move(payload).TakeSlices()) {
    if (slice.owner != nullptr) {
      owned.Append(std::move(slice));
    } else {
      owned.Append(std::vector<std::byte>(slice.bytes.begin(), slice.bytes.end()));
    }
  }
  return owned;
}

StatusOr<CallMessage> PartOf(const FrameHead& head, Frame frame) {
  CallMessage part{head.text, {}};
  part.landed_bytes = frame.landed_bytes;
  if (head.places.empty()) {
    if (frame.landed_bytes != 0) return InvalidArgument("a part without places has landed");
    part.payload = std::move(frame.payload);
    return part;
  }
  uint64_t sum = 0;
  for (const FramePlace& place : head.places) {
    sum += place.bytes;
    if (sum > kMaxFrameBytes) return InvalidArgument("the places are larger than any frame");
    part.places.push_back(place.offset);
  }
  if (frame.landed_bytes != 0 && !frame.payload.empty()) {
    return InvalidArgument("a part has landed by half");
  }
  if (sum != frame.landed_bytes + frame.payload.size_bytes()) {
    return InvalidArgument("the places of a part do not sum up to its payload");
  }
  if (frame.landed_bytes == 0) part.payload = Cut(frame.payload, head.places);
  return part;
}

std::vector<Frame> FramesOfPart(uint64_t call_id, uint64_t landing, CallMessage part,
                                uint64_t piece_bytes) {
  std::vector<Slice> slices = WithOwners(std::move(part.payload)).TakeSlices();
  std::vector<Frame> frames;
  size_t next = 0;
  do {
    FrameHead head{.kind = FrameKind::kPart};
    head.id = call_id;
    Frame frame;
    const size_t end = EndOfPiece(slices, next, piece_bytes);
    frame.payload.Reserve(end - next);
    if (!part.places.empty()) head.places.reserve(end - next);
    if (!part.places.empty() && landing != 0) frame.places.reserve(end - next);
    for (; next < end; ++next) {
      const uint64_t bytes = slices[next].bytes.size();
      frame.payload.Append(std::move(slices[next]));
      if (part.places.empty()) continue;
      head.places.push_back({part.places[next], bytes});
      if (landing != 0) frame.places.push_back(part.places[next]);
    }
    if (!frame.places.empty()) frame.landing = landing;
    if (next < slices.size()) {
      head.kind = FrameKind::kPiece;
    } else {
      head.text = std::move(part.control);
    }
    frame.head = EncodeFrameHead(head);
    frames.push_back(std::move(frame));
  } while (next < slices.size());
  return frames;
}

Status ChecksumLanded(const LandingMemory& memory, std::span<const FramePlace> places,
                      CallMessage* part) {
  const std::span<const std::byte> bytes = memory.bytes;
  if (memory.is_host()) part->landed_crc32c.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const FramePlace& place = places[i];
    QUIRE_RETURN_IF_ERROR(CheckPlace(i, place.offset, place.bytes, bytes.size()));
    if (!memory.is_host()) continue;
    part->landed_crc32c.push_back(Crc32c(bytes.subspan(place.offset, place.bytes)));
  }
  return OkStatus();
}

Status AddPiece(CallMessage piece, CallMessage* part) {
  if ((part->landed_bytes != 0 && !piece.payload.empty()) ||
      (piece.landed_bytes != 0 && !part->payload.empty())) {
    return InvalidArgument("a part has landed by half");
  }
  part->control = std::move(piece.control);
  part->payload.Append(piece.payload);
  part->landed_bytes += piece.landed_bytes;
  part->places.insert(part->places.end(), piece.places.begin(), piece.places.end());
  part->landed_crc32c.insert(part->landed_crc32c.end(), piece.landed_crc32c.begin(),
                             piece.landed_crc32c.end());
  return OkStatus();
}

}  // namespace quire
