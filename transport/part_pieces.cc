// SPDX-License-Identifier: Apache-2.0
#include "transport/part_pieces.h"

#include <span>
#include <utility>

namespace quire {
namespace {

/// The end of the piece that begins at slice `first`: at least one slice if there is any, and more
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

std::vector<CallMessage> PiecesOf(CallMessage part, uint64_t piece_bytes) {
  std::vector<CallMessage> pieces;
  uint64_t to_come = part.payload.size_bytes();
  if (to_come <= piece_bytes) {
    pieces.push_back(std::move(part));
    return pieces;
  }
  Payload leases;
  leases.AddLeases(part.payload);
  std::vector<Slice> slices = std::move(part.payload).TakeSlices();
  for (size_t next = 0; next < slices.size();) {
    CallMessage& piece = pieces.emplace_back();
    if (next == 0) piece.control = std::move(part.control);
    const size_t end = EndOfPiece(slices, next, piece_bytes);
    if (!part.places.empty()) {
      piece.places.assign(part.places.begin() + static_cast<ptrdiff_t>(next),
                          part.places.begin() + static_cast<ptrdiff_t>(end));
    }
    piece.payload.Reserve(end - next);
    for (; next < end; ++next) piece.payload.Append(std::move(slices[next]));
    piece.payload.AddLeases(leases);
    to_come -= piece.payload.size_bytes();
    piece.bytes_to_come = to_come;
  }
  return pieces;
}

Status AddPiece(CallMessage piece, CallMessage* part) {
  if ((part->landed_bytes != 0 && !piece.payload.empty()) ||
      (piece.landed_bytes != 0 && !part->payload.empty())) {
    return InvalidArgument("a part has landed by half");
  }
  part->bytes_to_come = piece.bytes_to_come;
  if (part->control.empty() && part->payload.empty() && part->landed_bytes == 0) {
    *part = std::move(piece);
    return OkStatus();
  }
  part->payload.Append(piece.payload);
  part->landed_bytes += piece.landed_bytes;
  part->places.insert(part->places.end(), piece.places.begin(), piece.places.end());
  return OkStatus();
}

}  // namespace quire
