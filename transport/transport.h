// SPDX-License-Identifier: Apache-2.0
//
// Transport: the one way from a client to a server. A call carries a method name, a small control
// message (serialized protobuf; transports do not look into it) and a payload of bulk bytes. Its
// reply is one part, or several that arrive in the order in which the server wrote them. Transports
// carry no policy: no retries, no batching, no knowledge of pages.
//
// A transport is two things: a Transport, which the client calls, and something that hands calls to
// the server's CallHandler. Implementations: loopback (same process), gRPC, and connections
// (frame_client.h) over any FramePipe: shared memory, UCX, a gRPC stream. Every implementation
// passes transport_conformance.h.
#ifndef QUIRE_TRANSPORT_TRANSPORT_H_
#define QUIRE_TRANSPORT_TRANSPORT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/call_landing.h"
#include "common/base/clock.h"
#include "common/base/payload.h"
#include "common/base/priority.h"
#include "common/base/status.h"
#include "transport/owned_memory.h"

namespace quire {

/// Control bytes and payload of a request, or of one part of a reply. The control bytes are a
/// protobuf message without its `payload` field (number 15), which the payload stands for.
struct CallMessage {
  std::string control;
  Payload payload;
  /// Where in the call's landing each slice of a reply's payload goes, in bytes; empty when the
  /// payload has no place there. The server gives them whether or not there is a landing.
  std::vector<uint64_t> places = {};
  /// At the client: payload bytes that the server wrote into the landing; `payload` is empty then.
  uint64_t landed_bytes = 0;
  /// At the client, of a call that takes pieces: payload of the part that the next messages bring.
  /// Those have no control bytes.
  uint64_t bytes_to_come = 0;
};

/// Memory of the client, registered once with a transport, that the server writes replies into. It
/// must stay mapped until the landing is destroyed; no byte arrives after that.
class Landing {
 public:
  virtual ~Landing() = default;
  virtual std::span<std::byte> bytes() const = 0;
};

struct CallOptions {
  std::string tenant = "default";
  Duration timeout = std::chrono::seconds(30);  ///< From the start of the call; > 0.
  Priority priority = Priority::kNormal;
  /// Memory for reply parts that name places; of the same transport, and outlives the call. What
  /// the server does not write there comes as payload.
  Landing* landing = nullptr;
  /// For Start: the payload of a part comes in pieces of about so many bytes, cut between slices,
  /// where the transport cuts at all (CallMessage::bytes_to_come). 0: a part comes whole.
  uint32_t piece_bytes = 0;
};

/// What an endpoint can do; asked, not assumed.
struct TransportCapabilities {
  std::string_view name;           ///< "loopback", "grpc", "shm", "ucx": for logs and reports.
  uint64_t max_message_bytes = 0;  ///< Control and payload together, each direction and part.
  bool same_process = false;       ///< Payload slices are handed over, not copied.
  bool in_place = false;        ///< Reply payload lies where the server keeps it: no copy at all.
  bool direct_landing = false;  ///< The server's device writes into landings by itself.
  std::string detail = {};      ///< For people: lanes, addresses.
};

/// A call whose reply is awaited. Destroying it cancels what has not arrived.
/// Thread-safety: Next from one thread; Cancel from any.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  /// Waits for the next part, or piece of one; nullopt after the last one. DEADLINE_EXCEEDED when
  /// `deadline` (SystemClock()) passed first: the call goes on and Next may be called again, unless
  /// the call's own timeout has passed. Every other error ends the call: what the handler returned;
  /// CANCELLED after Cancel(); UNAVAILABLE when the peer died. When the call has a landing, Next
  /// has an error or nullopt to give only when no more bytes of the call will arrive there.
  [[nodiscard]] virtual StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) = 0;
  /// Tells the server that nobody waits any more.
  virtual void Cancel() = 0;
  /// After Cancel: whether it is certain that no more bytes of the call arrive in its landing.
  /// Never waits; the destructor waits until it is so.
  virtual bool IsQuiet() const { return true; }
};

/// Client end. Thread-safe: calls may run concurrently.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual TransportCapabilities capabilities() const = 0;

  /// Sends a request and returns without waiting for the reply. `method` is
  /// "package.Service/Method". The request's slices must stay valid until the call has ended or
  /// Start failed. Errors: UNAVAILABLE when the peer cannot be reached; RESOURCE_EXHAUSTED for a
  /// request over max_message_bytes; INVALID_ARGUMENT for a landing of another transport.
  [[nodiscard]] virtual StatusOr<std::unique_ptr<PendingCall>> Start(
      std::string_view method, CallMessage request, const CallOptions& options) = 0;

  /// Runs one call of a single reply part and blocks until it is there. `*reply` is set only on OK.
  /// Errors: what the handler returned; UNAVAILABLE when the peer cannot be reached or died;
  /// DEADLINE_EXCEEDED when `options.timeout` passed; RESOURCE_EXHAUSTED when a message is larger
  /// than max_message_bytes; UNIMPLEMENTED for an unknown method; INTERNAL when the reply is not
  /// one part.
  [[nodiscard]] virtual Status Call(std::string_view method, const CallMessage& request,
                                    CallMessage* reply, const CallOptions& options);

  /// Registers memory for the server to write replies into. UNIMPLEMENTED from a transport without
  /// connections, where units always come as payload.
  [[nodiscard]] virtual StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory);
  /// Memory for a landing, aligned to pages, of the kind that the server reaches with the least
  /// help; it may outlive the transport. `bytes` at least 1. By default plain memory.
  [[nodiscard]] virtual StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes);
};

/// Set once when nobody waits for a call any more. Thread-safe.
class CancelFlag {
 public:
  void Set() { set_.store(true, std::memory_order_release); }
  bool IsSet() const { return set_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> set_{false};
};

/// What the server end knows of a call.
struct CallContext {
  std::string tenant;
  TimePoint deadline;  ///< On SystemClock(); work past it is wasted.
  Priority priority = Priority::kNormal;
  /// How many parts a reply may have, and the payload bytes that a part should have at most when it
  /// can be cut: 1 and the message limit for a call that takes its reply whole.
  uint32_t max_parts = 1;
  uint64_t part_bytes = UINT64_MAX;
  /// Null when the call cannot be cancelled; valid during the call.
  const CancelFlag* cancelled = nullptr;
  /// What the call names of its connection's landings; null when the server does not write there.
  std::shared_ptr<CallLanding> landing = nullptr;
  /// It came over the control channel, where the caller proves its tenant with each call, and not
  /// over a connection that a ticket admitted.
  bool is_control = false;

  bool IsCancelled() const { return cancelled != nullptr && cancelled->IsSet(); }
};

/// Takes the parts of a reply. Thread-safety: one thread at a time.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  /// Sends a part; may wait until the client has room. CANCELLED or UNAVAILABLE when nobody waits
  /// any more, DEADLINE_EXCEEDED when the client made no room in time, RESOURCE_EXHAUSTED for a
  /// part over the message limit, INVALID_ARGUMENT for places outside the landing: the handler
  /// returns that error.
  [[nodiscard]] virtual Status Write(CallMessage part) = 0;
};

/// Server end: implemented by the service layer. Thread-safe.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  /// Every method it answers, as "package.Service/Method".
  virtual std::vector<std::string> Methods() const = 0;
  /// Answers one call: writes one part or more, up to context.max_parts, and returns OK, or returns
  /// what went wrong. Request slices are valid during the call only, unless their owner is kept. An
  /// unknown method is UNIMPLEMENTED.
  [[nodiscard]] virtual Status Handle(const CallContext& context, std::string_view method,
                                      const CallMessage& request, ReplyWriter& reply) = 0;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_TRANSPORT_H_
