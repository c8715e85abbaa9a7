// SPDX-License-Identifier: Apache-2.0
//
// The heads of frames: messages between a connection's ends, as bytes. The encoding is a fixed
// little-endian header followed by three lists. A request that is part of a trace ends with the ids
// of trace and span, and a byte of flags. Each head has one encoding, and Decode accepts nothing
// else. Payload bytes are not in it: pipes carry them separately.
//
//   client: hello(ticket, tenant, window) -> server: hello_reply(connection id, window) or a status
//   client: request(method, control)      -> server: (part(control, places), piece(places)*)*,
//                                                    end(status)
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

#include "common/base/trace/trace_context.h"
#include "quire/clock.h"
#include "quire/status.h"
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
  kPiece = 8,  ///< Further payload of the previous part.
};

/// Location of `bytes` bytes of a part's payload in the call's landing.
struct FramePlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;  ///< At least 1.
  bool operator==(const FramePlace&) const = default;
};

/// Fields that a kind does not use are zero or empty. Comments name the kinds that use a field.
struct FrameHead {
  FrameKind kind = FrameKind::kHello;
  Priority priority = Priority::kPrefetch;  ///< Request.
  StatusCode code = StatusCode::kOk;        ///< End, hello_reply.
  /// Frames of calls: the call's id, not 0, and never reused. Hello_reply: that of the connection.
  uint64_t id = 0;
  /// Request: timeout in ns. Credit: bytes. Hello and hello_reply: the window in bytes. At least 1.
  /// Part and piece: payload of the part in the next pieces; 0 in the last.
  uint64_t amount = 0;
  uint64_t landing = 0;        ///< Request: landing that parts may be put into; 0 for none.
  uint64_t landing_bytes = 0;  ///< Request: its size.
  uint32_t max_parts = 0;      ///< Request: at least 1.
  uint32_t piece_bytes = 0;    ///< Request: payload of a frame of a part; 0 for the pipe's choice.
  uint32_t retry_millis = 0;   ///< End, hello_reply: the retry hint of an error; 0 for none.
  std::string name = {};       ///< Request: method. Hello, hello_reply: tenant.
  std::string text = {};       ///< Request and part: control. Hello: ticket. End: message.
  /// Part and piece: the payload's slices in order, or none. Their sizes add up to the payload.
  std::vector<FramePlace> places = {};
  /// Request: the caller's span; invalid for none. Only for servers that offer to read it
  /// (TransportOffer.reads_traces).
  TraceContext trace = {};
  bool operator==(const FrameHead&) const = default;
};

inline constexpr size_t kMaxFrameNameBytes = 256;
inline constexpr size_t kMaxFrameTicketBytes = 256;
inline constexpr size_t kMaxFrameStatusBytes = 2048;
/// More than any pipe carries in one frame.
inline constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 40;
/// Bytes of a head in addition to `name`, `text` and the places.
inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr size_t kFramePlaceBytes = 16;
inline constexpr size_t kFrameTraceBytes = 25;

std::string EncodeFrameHead(const FrameHead& head);
/// INVALID_ARGUMENT unless EncodeFrameHead makes these bytes of a valid head.
StatusOr<FrameHead> DecodeFrameHead(std::string_view bytes);

/// Stores a status, with its retry hint, in an end or a hello_reply. Bytes that are not UTF-8 are
/// replaced, and a long message is cut.
void SetFrameStatus(const Status& status, FrameHead* head);
Status FrameStatus(const FrameHead& head);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAMES_FRAME_H_
