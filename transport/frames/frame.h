// SPDX-License-Identifier: Apache-2.0
//
// The heads of frames: what a connection's two ends say to each other, as bytes. The encoding is a
// fixed little-endian header and three lists behind it; there is one encoding of each head, and
// Decode takes nothing else. Payload bytes are not in it: pipes carry them beside the head.
//
//   client: hello(ticket, tenant, window) -> server: hello_reply(connection id, window) or a status
//   client: request(method, control)      -> server: (part(control, places), piece(places)*)*,
//                                                     end(status)
//   client: credit(bytes of parts taken), cancel
//
// Thread-safety: pure functions over values.
#ifndef QUIRE_TRANSPORT_FRAMES_FRAME_H_
#define QUIRE_TRANSPORT_FRAMES_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "transport/transport.h"

namespace quire {

enum class FrameKind : uint8_t {
  kHello = 1,
  kHelloReply = 2,
  kRequest = 3,
  kPart = 4,
  kEnd = 5,
  kCancel = 6,
  kCredit = 7,
  kPiece = 8,  ///< Further payload of the part before it.
};

/// Where `bytes` bytes of a part's payload go in the call's landing.
struct FramePlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;  ///< At least 1.
  bool operator==(const FramePlace&) const = default;
};

/// Fields that a kind does not name are zero or empty.
struct FrameHead {
  FrameKind kind = FrameKind::kHello;
  Priority priority = Priority::kPrefetch;  ///< request
  StatusCode code = StatusCode::kOk;        ///< end, hello_reply
  /// The call's, in frames of calls: not 0, and never used again. hello_reply: the connection's.
  uint64_t id = 0;
  /// request: timeout in ns. credit: bytes. hello and hello_reply: the window in bytes. At least 1.
  /// part and piece: payload bytes of the part that the next pieces bring; 0 in the last.
  uint64_t amount = 0;
  uint64_t landing = 0;        ///< request: which one parts may be put into; 0 for none.
  uint64_t landing_bytes = 0;  ///< request: its size.
  uint32_t max_parts = 0;      ///< request: at least 1.
  uint32_t piece_bytes = 0;    ///< request: payload of a frame of a part; 0 for the pipe's choice.
  uint32_t retry_millis = 0;   ///< end, hello_reply: the retry hint of an error; 0 for none.
  std::string name = {};       ///< request: method. hello, hello_reply: tenant.
  std::string text = {};       ///< request and part: control. hello: ticket. end: message.
  /// part and piece: the payload's slices in order, or none. They sum up to the payload.
  std::vector<FramePlace> places = {};
  bool operator==(const FrameHead&) const = default;
};

inline constexpr size_t kMaxFrameNameBytes = 256;
inline constexpr size_t kMaxFrameTicketBytes = 256;
inline constexpr size_t kMaxFrameStatusBytes = 2048;
/// More than any pipe carries in one frame.
inline constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 40;
/// The head takes this much besides `name`, `text` and the places.
inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr size_t kFramePlaceBytes = 16;

std::string EncodeFrameHead(const FrameHead& head);
/// INVALID_ARGUMENT for anything that EncodeFrameHead does not make of a valid head.
StatusOr<FrameHead> DecodeFrameHead(std::string_view bytes);

/// Puts a status, with its retry hint, into an end or a hello_reply. Bytes that are not UTF-8
/// are replaced, and a long message is cut.
void SetFrameStatus(const Status& status, FrameHead* head);
Status FrameStatus(const FrameHead& head);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_FRAME_H_
