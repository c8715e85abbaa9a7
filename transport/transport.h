// SPDX-License-Identifier: Apache-2.0
//
// Transport: the way from a client to a server. A call carries a method name, a small control
// message and a payload of bulk bytes. The control message is serialized protobuf, which transports
// do not read. Its reply is one part, or several that arrive in the order of the server's writes.
// Transports carry no policy: no retries, no batching, no knowledge of pages.
//
// A transport has two ends: a Transport, which the client calls, and a server end that hands calls
// to a CallHandler. Implementations: loopback (same process), gRPC, and connections
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
#include "common/base/trace/trace_context.h"
#include "quire/clock.h"
#include "quire/payload.h"
#include "quire/priority.h"
#include "quire/status.h"
#include "transport/owned_memory.h"

namespace quire {

/// Control bytes and payload of a request, or of one part of a reply. The control bytes are a
/// protobuf message without its `payload` field (number 15), which the payload replaces.
struct CallMessage {
  std::string control;
  Payload payload;
  /// Byte offset in the call's landing for each slice of a reply's payload; empty without places.
  /// The server sets them with or without a landing.
  std::vector<uint64_t> places = {};
  /// At the client: payload bytes that the server wrote into the landing; `payload` is then empty.
  uint64_t landed_bytes = 0;
  /// At the client of a call that takes pieces: payload of the part in the next messages, which
  /// have no control bytes.
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
  /// Memory for reply parts that name places; belongs to the same transport, and outlives the call.
  /// Bytes that the server does not write there come as payload.
  Landing* landing = nullptr;
  /// For Start: size of the pieces of a part's payload, cut between slices
  /// (CallMessage::bytes_to_come). Transports that do not cut ignore it. 0: parts come whole.
  uint32_t piece_bytes = 0;
  TraceContext trace = {};  ///< The span that makes the call; invalid: none.
};

/// Abilities of an endpoint, to query rather than assume.
struct TransportCapabilities {
  std::string_view name;           ///< "loopback", "grpc", "shm", "ucx": for logs and reports.
  uint64_t max_message_bytes = 0;  ///< Control and payload together, in each direction and part.
  bool same_process = false;       ///< Payload slices are handed over, not copied.
  bool in_place = false;           ///< Reply payload lies in the server's memory: no copy at all.
  bool direct_landing = false;     ///< The server's device writes directly into landings.
  std::string detail = {};         ///< For people: lanes, addresses.
};

/// A call with a pending reply. The destructor cancels the rest of the reply.
/// Thread-safety: Next from one thread; Cancel from any.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  /// Waits for the next part, or piece of one; nullopt after the last one. DEADLINE_EXCEEDED if
  /// `deadline` (SystemClock()) passes first. The call then continues and Next may be called again,
  /// unless the call's own timeout has passed. Every other error ends the call: that of the
  /// handler; CANCELLED after Cancel(); UNAVAILABLE if the peer died. For a call with a landing, an
  /// error or nullopt means that no more bytes arrive there.
  [[nodiscard]] virtual StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) = 0;
  /// Tells the server that the reply is no longer wanted.
  virtual void Cancel() = 0;
  /// After Cancel: true if certainly no more bytes of the call arrive in its landing. Never waits;
  /// the destructor waits for it.
  virtual bool IsQuiet() const { return true; }
};

/// Client end. Thread-safe: calls may run concurrently.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual TransportCapabilities capabilities() const = 0;

  /// Sends a request and returns without waiting for the reply. `method` is
  /// "package.Service/Method". The request's slices must stay valid until the call has ended or
  /// Start failed. Errors: UNAVAILABLE if the peer cannot be reached; RESOURCE_EXHAUSTED for a
  /// request over max_message_bytes; INVALID_ARGUMENT for a landing of another transport.
  [[nodiscard]] virtual StatusOr<std::unique_ptr<PendingCall>> Start(
      std::string_view method, CallMessage request, const CallOptions& options) = 0;

  /// Runs one call of a single reply part and waits for it. Sets `*reply` only on OK. Errors: that
  /// of the handler; UNAVAILABLE if the peer cannot be reached or died; DEADLINE_EXCEEDED after
  /// `options.timeout`; RESOURCE_EXHAUSTED for a message over max_message_bytes. Also UNIMPLEMENTED
  /// for an unknown method, and INTERNAL if the reply is not one part.
  [[nodiscard]] virtual Status Call(std::string_view method, const CallMessage& request,
                                    CallMessage* reply, const CallOptions& options);

  /// Registers memory for the server to write replies into. UNIMPLEMENTED from a transport without
  /// connections, where units always come as payload.
  [[nodiscard]] virtual StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory);
  /// Memory for a landing, aligned to pages, of the kind that the server reaches best; it may
  /// outlive the transport. `bytes` at least 1. By default plain memory.
  [[nodiscard]] virtual StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes);
};

/// Set once when a call's reply is no longer wanted. Thread-safe.
class CancelFlag {
 public:
  void Set() { set_.store(true, std::memory_order_release); }
  bool IsSet() const { return set_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> set_{false};
};

/// A call as the server end sees it.
struct CallContext {
  std::string tenant;
  TimePoint deadline;  ///< On SystemClock(); later work is wasted.
  Priority priority = Priority::kNormal;
  /// Most parts of a reply, and the size that a part should have when it can be cut. For a call
  /// that takes its reply whole they are 1 and the message limit.
  uint32_t max_parts = 1;
  uint64_t part_bytes = UINT64_MAX;
  /// Null when the call cannot be cancelled; valid during the call.
  const CancelFlag* cancelled = nullptr;
  /// The call's landing on its connection; null if the server does not write there.
  std::shared_ptr<CallLanding> landing = nullptr;
  /// True if the call came over the control channel, where every call proves its tenant. False over
  /// a connection admitted by a ticket.
  bool is_control = false;
  /// True if the caller proved that it is a node of the server's cluster, and where callers prove
  /// nothing. False over a connection admitted by a ticket.
  bool is_node = false;
  TraceContext trace = {};  ///< The caller's span; invalid: none.

  bool IsCancelled() const { return cancelled != nullptr && cancelled->IsSet(); }
};

/// Receives the parts of a reply. Thread-safety: one thread at a time.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  /// Sends a part; may wait until the client has room. The handler returns any error:
  /// - CANCELLED or UNAVAILABLE if the reply is no longer wanted,
  /// - DEADLINE_EXCEEDED if the client made no room in time,
  /// - RESOURCE_EXHAUSTED for a part over the message limit,
  /// - INVALID_ARGUMENT for places outside the landing.
  [[nodiscard]] virtual Status Write(CallMessage part) = 0;
};

/// Server end: implemented by the service layer. Thread-safe.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  /// All methods that it answers, as "package.Service/Method".
  virtual std::vector<std::string> Methods() const = 0;
  /// Answers one call: writes at least one part, up to context.max_parts, and returns OK, or
  /// returns an error. Request slices are valid during the call only, unless their owner is kept.
  /// An unknown method is UNIMPLEMENTED.
  [[nodiscard]] virtual Status Handle(const CallContext& context, std::string_view method,
                                      const CallMessage& request, ReplyWriter& reply) = 0;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_TRANSPORT_H_
