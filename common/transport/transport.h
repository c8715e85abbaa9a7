// SPDX-License-Identifier: Apache-2.0
//
// Transport: the one way from a client to a server. A call carries a method name, a small control
// message (serialized protobuf; transports do not look into it) and a payload of bulk bytes, and
// brings back the same. Transports carry no policy: no retries, no batching, no knowledge of pages.
//
// A transport is two things: a Transport, which the client calls, and something that hands calls to
// the server's CallHandler. Implementations: loopback (same process), gRPC. Every implementation
// passes transport_conformance.h.
#ifndef QUIRE_COMMON_TRANSPORT_TRANSPORT_H_
#define QUIRE_COMMON_TRANSPORT_TRANSPORT_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/payload.h"
#include "common/base/status.h"

namespace quire {

/// Control bytes and payload of one direction of a call. The control bytes are a protobuf message
/// without its `payload` field (number 15), which the payload stands for.
struct CallMessage {
  std::string control;
  Payload payload;
};

struct CallOptions {
  std::string tenant = "default";
  Duration timeout = std::chrono::seconds(30);  ///< From the start of the call; > 0.
};

/// What an endpoint can do; asked, not assumed.
struct TransportCapabilities {
  std::string_view name;           ///< "loopback", "grpc": for logs and for the session's report.
  uint64_t max_message_bytes = 0;  ///< Control and payload together, each direction.
  bool same_process = false;       ///< Payload slices are handed over, not copied.
};

/// Client end. Thread-safe: calls may run concurrently.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual TransportCapabilities capabilities() const = 0;

  /// Runs one call and blocks until its reply. `method` is "package.Service/Method". `*reply` is
  /// set only on OK. The request's slices must stay valid until Call returns. Errors: what the
  /// handler returned; UNAVAILABLE when the peer cannot be reached or died; DEADLINE_EXCEEDED when
  /// `options.timeout` passed; RESOURCE_EXHAUSTED when a message is larger than max_message_bytes;
  /// UNIMPLEMENTED for an unknown method.
  [[nodiscard]] virtual Status Call(std::string_view method, const CallMessage& request,
                                    CallMessage* reply, const CallOptions& options) = 0;
};

/// What the server end knows of a call.
struct CallContext {
  std::string tenant;
  TimePoint deadline;  ///< On SystemClock(); work past it is wasted.
};

/// Server end: implemented by the service layer. Thread-safe.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  /// Every method it answers, as "package.Service/Method".
  virtual std::vector<std::string> Methods() const = 0;
  /// Answers one call. Request slices are valid during the call only, unless their owner is kept.
  /// An unknown method is UNIMPLEMENTED.
  [[nodiscard]] virtual Status Handle(const CallContext& context, std::string_view method,
                                      const CallMessage& request, CallMessage* reply) = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_TRANSPORT_H_
