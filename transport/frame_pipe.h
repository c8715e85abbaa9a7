// SPDX-License-Identifier: Apache-2.0
//
// FramePipe: a reliable stream of frames between one client and one server. A transport provides
// it, and a way to connect. Calls, priorities, credit, deadlines and cancellation are built from
// frames, once for all pipes (frame_client.h, frame_server.h).
//
// Frames of one priority arrive in the order of sending, and so do any two that share a byte of a
// landing. Otherwise a pipe may send a more urgent frame before less urgent ones. All frames of a
// call have the call's priority, so its parts arrive in order, and its end after them. The ends of
// a connection rely on no order between calls.
//
// A frame is a head, opaque to pipes, and a payload of slices. A payload may have places in a
// landing, memory that the client registered. A pipe that can puts the slices there; any other
// delivers the payload.
//
// Implementations: in-process (tests), shm, UCX, gRPC stream. Every one passes
// frame_pipe_conformance.h.
#ifndef QUIRE_TRANSPORT_FRAME_PIPE_H_
#define QUIRE_TRANSPORT_FRAME_PIPE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/payload.h"
#include "quire/priority.h"
#include "quire/status.h"
#include "transport/owned_memory.h"

namespace quire {

/// Most bytes of a frame in addition to its message: the head, with a place for every slice.
inline constexpr uint64_t kMaxFrameHeadBytes = 1 << 20;

struct Frame {
  std::string head;  ///< Opaque to pipes; at most max_frame_bytes together with the payload.
  Payload payload = {};
  uint64_t landing = 0;  ///< Id of the landing of `places`; 0 for none. Server to client only.
  std::vector<uint64_t> places = {};  ///< Byte offset in the landing for each payload slice.
  /// At the sender: priority of the call. A server's frames without a call are least urgent.
  Priority priority = Priority::kPrefetch;
  /// At the receiver: payload bytes that the pipe put into the landing; `payload` is then empty.
  uint64_t landed_bytes = 0;
};

/// Called by a thread of the pipe, one call at a time. Must not block for long, and must not
/// destroy the pipe.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  /// Delivers the next frame, in the order above. The receiver may keep the payload's owners as
  /// long as needed; a pipe that lends memory counts them (shm: leases).
  virtual void OnFrame(Frame frame) = 0;
  /// Reports the end of the connection and its reason; the last call. UNAVAILABLE if the peer
  /// closed or died, INVALID_ARGUMENT if it sent malformed bytes.
  virtual void OnClosed(const Status& why) = 0;
  /// True for a receiver that neither waits nor calls the pipe. A pipe may then call it on its
  /// working thread.
  virtual bool NeverWaits() const { return false; }
};

struct PipeCapabilities {
  std::string_view name;  ///< "shm", "ucx", "grpc", "inproc".
  uint64_t max_frame_bytes = 0;
  /// Preferred payload size of a frame that can be cut.
  uint64_t piece_bytes = UINT64_MAX;
  bool in_place = false;        ///< Received payload lies in the sender's memory.
  bool direct_landing = false;  ///< Payload with places may land until its call has ended.
  /// True when Send, except from inside a receiver call, has read the payload once it returns,
  /// whatever its result: slices need no owner.
  bool takes_at_once = false;
  std::string detail = {};  ///< For people: lanes, addresses.
};

/// One end of a connection. Thread-safety: all methods from any thread.
class FramePipe {
 public:
  /// Closes.
  virtual ~FramePipe() = default;
  virtual PipeCapabilities capabilities() const = 0;

  /// Begins to deliver received frames; call it exactly once. `receiver` outlives the pipe or
  /// Close().
  virtual void Start(FrameReceiver* receiver) = 0;

  /// Queues a frame behind earlier ones, except less urgent ones. Waits while the pipe's short
  /// queue is full; a more urgent frame of another thread need not wait for it. The payload's
  /// slices are kept until they are sent. A slice without an owner must stay valid until Close(),
  /// or until the peer's answer shows its arrival. UNAVAILABLE once the connection has ended, which
  /// may lose accepted frames. RESOURCE_EXHAUSTED for a frame over max_frame_bytes.
  [[nodiscard]] virtual Status Send(Frame frame) = 0;

  /// Client end: allocates memory that the peer can write to with the least help; null without such
  /// memory. It may outlive the pipe.
  [[nodiscard]] virtual StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) {
    (void)bytes;
    return OwnedMemory();
  }
  /// Client end: registers memory under `id`, so that the peer may name it in frames. Returns the
  /// key for the server, to send over the control channel; empty if it needs none. RemoveLanding
  /// returns once no more bytes will arrive there.
  [[nodiscard]] virtual StatusOr<std::string> AddLanding(uint64_t id, std::span<std::byte> memory) {
    (void)id, (void)memory;
    return std::string();
  }
  virtual void RemoveLanding(uint64_t id) { (void)id; }
  /// Server end: accepts the key of a landing that the client announced over the control channel.
  /// INVALID_ARGUMENT for a malformed key. CloseLanding drops it, and returns once nothing more is
  /// written there. A client that prevents that loses the connection.
  [[nodiscard]] virtual Status OpenLanding(uint64_t id, std::string_view key, uint64_t bytes) {
    (void)id, (void)key, (void)bytes;
    return OkStatus();
  }
  virtual void CloseLanding(uint64_t id) { (void)id; }

  /// Ends the connection in both directions. After it returns no receiver call runs or follows. A
  /// server's end first sends accepted frames to a client that reads, for a moment at most.
  /// Idempotent. Not from inside a receiver call.
  virtual void Close() = 0;
};

/// Payload sent by the connections of a listener.
struct SentPayload {
  uint64_t lent_bytes = 0;    ///< Bytes that the client reads in the server's memory.
  uint64_t copied_bytes = 0;  ///< Bytes that the server copied for the client.
};

/// Server end of one kind of connection. It accepts until it is destroyed, and then closes accepted
/// pipes that have no owner yet.
class PipeListener {
 public:
  using Accept = std::function<void(std::unique_ptr<FramePipe>)>;
  virtual ~PipeListener() = default;
  virtual std::string_view kind() const = 0;  ///< "shm", "ucx", "grpc"
  /// The address for clients: a path, or "host:port". Never secret.
  virtual std::string address() const = 0;
  /// Bytes of the server's own memory that clients hold leases on; 0 without lending.
  virtual uint64_t leased_bytes() const { return 0; }
  /// Totals since the start; null for a listener that never lends.
  virtual std::optional<SentPayload> sent_payload() const { return std::nullopt; }
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAME_PIPE_H_
