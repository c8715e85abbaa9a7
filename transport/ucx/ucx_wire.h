// SPDX-License-Identifier: Apache-2.0
//
// The wire format of a UCX pipe, and its checks. Covers message headers, the index of a payload's
// places, the handshake, and the envelope of a landing's key. Pure functions without UCX; all
// decoded bytes come from outside. Integers are little-endian.
#ifndef QUIRE_TRANSPORT_UCX_UCX_WIRE_H_
#define QUIRE_TRANSPORT_UCX_UCX_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "quire/status.h"

namespace quire {

/// Names one end of one connection. The end chooses it at random, so no other process can name it.
struct UcxToken {
  std::array<uint8_t, 16> bytes = {};
  friend auto operator<=>(const UcxToken&, const UcxToken&) = default;
};
UcxToken MakeUcxToken(Random& random);

enum class UcxKind : uint32_t {
  kHello = 1,          ///< Client to server: UcxHello.
  kWelcome = 2,        ///< Server to client: UcxWelcome.
  kFrame = 3,          ///< Payload, index, head.
  kCloseLanding = 4,   ///< Client to server: close `landing` with serial `argument`.
  kLandingClosed = 5,  ///< Server to client: nothing more arrives in `landing`.
  kTaken = 6,          ///< The receiver has taken frames that count as `argument` bytes.
  kEnd = 7,            ///< Server to client: the total of frames and pieces is `argument`.
  kEndReached = 8,     ///< Client to server: all of those have arrived.
  kPiece = 9,          ///< Payload alone: a piece of that of the next kFrame.
};

/// Least payload of a piece. It bounds how many pieces a frame can have.
inline constexpr uint64_t kLeastUcxPieceBytes = 4096;

/// The header before the data of every message. The data of a frame is its payload, then the index
/// of its places, then the head. A payload therefore starts where UCX aligned the data. A frame
/// for no landing that is too large for one message has pieces before it.
struct UcxHeader {
  static constexpr size_t kEncodedBytes = 72;
  UcxKind kind = UcxKind::kFrame;
  UcxToken to = {};       ///< The receiver's token; zero in a hello.
  uint64_t sequence = 0;  ///< Number of a frame or piece: 0, 1, 2, ...
  uint64_t payload_bytes = 0;
  uint64_t index_bytes = 0;
  uint64_t head_bytes = 0;
  uint64_t landing = 0;
  uint64_t argument = 0;  ///< For frames: the bytes that the sender wrote into the landing.

  /// Bytes that a frame counts as in the window, without those of its pieces.
  uint64_t WindowBytes() const { return payload_bytes + head_bytes + kEncodedBytes + argument; }
};
std::array<std::byte, UcxHeader::kEncodedBytes> EncodeUcxHeader(const UcxHeader& header);
/// INVALID_ARGUMENT unless it is a header whose lengths add up to `data_bytes`.
StatusOr<UcxHeader> DecodeUcxHeader(std::span<const std::byte> encoded, uint64_t data_bytes);

/// One slice of a payload that has places.
struct UcxPlace {
  static constexpr size_t kEncodedBytes = 16;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
void AppendUcxPlace(const UcxPlace& place, std::vector<std::byte>* out);
/// INVALID_ARGUMENT unless the places' bytes add up to `payload_bytes`.
StatusOr<std::vector<UcxPlace>> DecodeUcxIndex(std::span<const std::byte> encoded,
                                               uint64_t payload_bytes);

/// The client's first message. `direct_landings`: the client takes part in direct landings.
/// `window_bytes`: most bytes of frames that it may be sent and has not taken yet.
struct UcxHello {
  UcxToken client;
  bool direct_landings = false;
  uint64_t window_bytes = 0;
};
/// The server's reply. The client signs the keys of its landings with the secret. The other fields
/// are as in UcxHello.
using UcxSecret = std::array<uint8_t, 32>;
struct UcxWelcome {
  UcxToken server;
  UcxSecret secret = {};
  bool direct_landings = false;
  uint64_t window_bytes = 0;
};
std::vector<std::byte> EncodeUcxHello(const UcxHello& hello);
StatusOr<UcxHello> DecodeUcxHello(std::span<const std::byte> encoded);
std::vector<std::byte> EncodeUcxWelcome(const UcxWelcome& welcome);
StatusOr<UcxWelcome> DecodeUcxWelcome(std::span<const std::byte> encoded);

/// The key of a landing: what the server needs to write there, bound to one connection.
struct UcxLandingKey {
  static constexpr size_t kMaxRemoteKeyBytes = 4096;
  uint64_t serial = 0;   ///< Unique within a connection.
  uint64_t landing = 0;  ///< Id of the landing.
  uint64_t address = 0;
  uint64_t bytes = 0;
  std::string remote_key;  ///< As UCX packed it; empty when messages carry the payload.
};
std::string EncodeUcxLandingKey(const UcxLandingKey& key, const UcxSecret& secret);
/// INVALID_ARGUMENT unless the key is complete and signed with this secret.
StatusOr<UcxLandingKey> DecodeUcxLandingKey(std::string_view encoded, const UcxSecret& secret);

/// Remembers the used serials among the last 64. Thread-safety: none.
class ReplayWindow {
 public:
  /// Marks a serial; false when it was marked before, or is so old that it may have been.
  bool Take(uint64_t serial);

 private:
  uint64_t highest_ = 0;
  uint64_t seen_ = 0;  ///< Bit i stands for highest_ - i.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_WIRE_H_
