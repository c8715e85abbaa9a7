// SPDX-License-Identifier: Apache-2.0
//
// Pieces of a reply's part: the part with the beginning of its payload, and further messages with
// the rest (CallMessage::bytes_to_come). All transports that cut parts use it. Thread-safety: pure
// functions.
#ifndef QUIRE_TRANSPORT_PART_PIECES_H_
#define QUIRE_TRANSPORT_PART_PIECES_H_

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "transport/transport.h"

namespace quire {

/// Cuts `part` between slices. Each piece has at most `piece_bytes` of payload, or one slice.
/// REQUIRES: `part` has a place for each slice of its payload, or none.
std::vector<CallMessage> PiecesOf(CallMessage part, uint64_t piece_bytes);

/// Appends `piece` to the earlier pieces in `*part`, which is empty before the first.
/// INVALID_ARGUMENT if one has landed and the other has not.
[[nodiscard]] Status AddPiece(CallMessage piece, CallMessage* part);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_PART_PIECES_H_
