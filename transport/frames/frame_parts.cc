// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/frame_parts.h"

#include <utility>
#include <vector>

#include "transport/part_pieces.h"

namespace quire {

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
  part.bytes_to_come = head.amount;
  if (part.bytes_to_come > kMaxFrameBytes)
    return InvalidArgument("a part is larger than any frame");
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
  part.payload = std::move(frame.payload);
  return part;
}

namespace {

Frame FrameOfPiece(FrameKind kind, uint64_t call_id, uint64_t landing, CallMessage piece) {
  FrameHead head{.kind = kind, .id = call_id, .amount = piece.bytes_to_come};
  head.text = std::move(piece.control);
  head.places.reserve(piece.places.size());
  for (size_t i = 0; i < piece.places.size(); ++i) {
    head.places.push_back({piece.places[i], piece.payload.slices()[i].bytes.size()});
  }
  Frame frame{.head = EncodeFrameHead(head), .payload = std::move(piece.payload)};
  if (landing == 0 || piece.places.empty()) return frame;
  frame.landing = landing;
  frame.places = std::move(piece.places);
  return frame;
}

}  // namespace

std::vector<Frame> FramesOfPart(uint64_t call_id, uint64_t landing, CallMessage part,
                                uint64_t piece_bytes) {
  part.payload = WithOwners(std::move(part.payload));
  std::vector<Frame> frames;
  for (CallMessage& piece : PiecesOf(std::move(part), piece_bytes)) {
    const FrameKind kind = frames.empty() ? FrameKind::kPart : FrameKind::kPiece;
    frames.push_back(FrameOfPiece(kind, call_id, landing, std::move(piece)));
  }
  return frames;
}

}  // namespace quire
