// SPDX-License-Identifier: Apache-2.0
//
// FramePipe: a reliable stream of frames between one client and one server: what a transport has to
// provide besides a way to connect. Calls, priorities, credit, deadlines and cancellation are made
// from frames, once for all pipes (frame_client.h, frame_server.h).
//
// Frames of one priority arrive in the order in which they were sent, and so do any two that have a
// byte of a landing in common. Beyond that a pipe may let a more urgent frame go before less urgent
// ones that it has taken. All frames of a call have the call's priority, so that each call has its
// parts in order and its end behind them; no end of a connection counts on an order between calls.
//
// A frame is a head, which pipes carry and do not look into, and a payload of slices. A payload may
// have places in a landing, memory that the client registered: a pipe that can puts the slices
// there itself; any other delivers the payload.
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

#include "common/base/payload.h"
#include "common/base/priority.h"
#include "common/base/status.h"
#include "transport/owned_memory.h"

namespace quire {

/// What a frame may have beside the message that it carries: its head, with a place for every
/// slice.
inline constexpr uint64_t kMaxFrameHeadBytes = 1 << 20;

struct Frame {
  std::string head;  ///< Opaque to pipes; at most max_frame_bytes together with the payload.
  Payload payload = {};
  uint64_t landing = 0;  ///< Which landing `places` are in; 0 for none. Server to client only.
  std::vector<uint64_t> places = {};  ///< Byte offset in the landing of each payload slice.
  /// At the sender: its call's, for what a server sends. What is of no call is least urgent.
  Priority priority = Priority::kPrefetch;
  /// At the receiver: payload bytes that the pipe put into the landing; then `payload` is empty.
  uint64_t landed_bytes = 0;
};

/// Called by a pipe from a thread of its own, one call at a time. Must not block for long, and must
/// not destroy the pipe.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;
  /// The next frame, in the order that is said above. The payload's owners may be kept as long as
  /// needed; a pipe with memory to spare counts them (shm: leases).
  virtual void OnFrame(Frame frame) = 0;
  /// The connection is over, and why; the last call. UNAVAILABLE when the peer closed or died,
  /// INVALID_ARGUMENT when it sent what is no frame.
  virtual void OnClosed(const Status& why) = 0;
  /// True of a receiver whose calls wait for nobody and do not call the pipe. A pipe may make them
  /// on the thread that does its work.
  virtual bool NeverWaits() const { return false; }
};

struct PipeCapabilities {
  std::string_view name;  ///< "shm", "ucx", "grpc", "inproc".
  uint64_t max_frame_bytes = 0;
  /// The payload that a frame should have at most when it can be cut.
  uint64_t piece_bytes = UINT64_MAX;
  bool in_place = false;        ///< Received payload lies where the sender keeps it.
  bool direct_landing = false;  ///< Payload with places lands until its call has ended.
  std::string detail = {};      ///< For people: lanes, addresses.
};

/// One end of a connection. Thread-safety: all methods from any thread.
class FramePipe {
 public:
  /// Closes.
  virtual ~FramePipe() = default;
  virtual PipeCapabilities capabilities() const = 0;

  /// Begins to deliver what the peer sends; exactly once. `receiver` outlives the pipe or Close().
  virtual void Start(FrameReceiver* receiver) = 0;

  /// Takes a frame to send it after those before, but for less urgent ones; waits while the pipe's
  /// own short queue is full. One that waits here need not hold up a more urgent one on another
  /// thread. The payload's slices are kept until they are sent (slices without an owner are the
  /// caller's to keep until Close() or until the peer's answer shows that it has arrived).
  /// UNAVAILABLE once the connection is over: a frame that was taken may be lost then.
  /// RESOURCE_EXHAUSTED for a frame over max_frame_bytes.
  [[nodiscard]] virtual Status Send(Frame frame) = 0;

  /// Client end: memory that the peer can write to with less help than to any other; null without
  /// such. It may outlive the pipe.
  [[nodiscard]] virtual StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) {
    (void)bytes;
    return OwnedMemory();
  }
  /// Client end: makes memory known under `id` so that the peer may name it in frames. Answers the
  /// key to hand to the server over the control channel, empty when the server needs none.
  /// RemoveLanding returns when no more bytes will arrive there.
  [[nodiscard]] virtual StatusOr<std::string> AddLanding(uint64_t id, std::span<std::byte> memory) {
    (void)id, (void)memory;
    return std::string();
  }
  virtual void RemoveLanding(uint64_t id) { (void)id; }
  /// Server end: takes the key of a landing that the client announced over the control channel, and
  /// forgets it again. INVALID_ARGUMENT for a key that is none. CloseLanding returns when nothing
  /// more is written there: a client that keeps that from ending loses the connection.
  [[nodiscard]] virtual Status OpenLanding(uint64_t id, std::string_view key, uint64_t bytes) {
    (void)id, (void)key, (void)bytes;
    return OkStatus();
  }
  virtual void CloseLanding(uint64_t id) { (void)id; }

  /// Ends the connection in both directions; when it returns, no receiver call runs or will come.
  /// A server's end first lets a client that reads have what Send has taken, for a moment at most.
  /// Idempotent. Not from inside a receiver call.
  virtual void Close() = 0;
};

/// What became of the payload that the connections of a listener were given to send.
struct SentPayload {
  uint64_t lent_bytes = 0;    ///< The client reads it where the server keeps it.
  uint64_t copied_bytes = 0;  ///< The server copied it for the client.
};

/// Server end of one kind of connection: accepts until it is destroyed, which also closes what it
/// accepted and nobody took over.
class PipeListener {
 public:
  using Accept = std::function<void(std::unique_ptr<FramePipe>)>;
  virtual ~PipeListener() = default;
  virtual std::string_view kind() const = 0;  ///< "shm", "ucx", "grpc"
  /// What a client needs to connect: a path, "host:port". Never secret.
  virtual std::string address() const = 0;
  /// Bytes of the server's own memory that clients hold leases on; 0 where nothing is lent.
  virtual uint64_t leased_bytes() const { return 0; }
  /// Since the start; nullopt where nothing is ever lent.
  virtual std::optional<SentPayload> sent_payload() const { return std::nullopt; }
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_FRAME_PIPE_H_
