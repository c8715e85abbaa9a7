// SPDX-License-Identifier: Apache-2.0
//
// Caller: how the client's methods reach the wire. A typed request is serialised, sent with its
// payload, repeated where that is safe, and the reply parsed.
//
// Retries. A refusal with a retry hint (common/base/retry_hint.h) was made before anything
// was done, so every method may try again. UNAVAILABLE may mean that the call was carried out and
// only its reply was lost. Methods that are safe to repeat try again then:
//   reads
//   PutSegment: same bytes, same key
//   AppendPages, AppendLayers: the server skips what it has
//   Seal: the server remembers for a while what it sealed
//   RemoveSequence, Resync and Close of a session
// A recall asks again by itself (session_recall.h). Open*, AddSequence, Drop*, Register and Delete*
// return UNAVAILABLE at once. A repetition could leave a second context or version behind, or
// answer NOT_FOUND after a success.
//
// Thread-safety: all methods may be called concurrently. Ownership: a Client has one, which
// outlives the client's sessions.
#ifndef QUIRE_CLIENT_CALLER_H_
#define QUIRE_CLIENT_CALLER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "client/data/lease_keeper.h"
#include "client/reply.h"
#include "client/retry.h"
#include "client/sealed_contexts.h"
#include "common/base/trace/span.h"
#include "common/base/trace/trace_context.h"
#include "common/wire/message.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

struct CallSpec {
  std::string_view method;  ///< "quire.v1.Service/Method"
  Repeat repeat = Repeat::kSafe;
};

class Caller {
 public:
  /// `options` are complete and valid (Client::Create).
  explicit Caller(Client::Options options);

  const Client::Options& options() const { return options_; }
  Transport& data_transport() { return *options_.data_transport; }
  Reachability& server() { return server_; }
  LeaseKeeper& leases() { return leases_; }
  SealedContexts& sealed() { return sealed_; }
  uint64_t NewJitterSeed() { return next_jitter_seed_.fetch_add(1, std::memory_order_relaxed); }

  /// The end of a method that starts now.
  TimePoint NewDeadline() const { return NewDeadline(options_.deadline); }
  /// The end of one that may take `timeout`.
  TimePoint NewDeadline(Duration timeout) const;

  /// One call with the retries that `spec` allows, all of them before `deadline`. `payload` goes
  /// out. The reply's payload replaces `*reply_payload`, and must be empty when that is null.
  template <typename Request, typename Reply>
  Status Call(const CallSpec& spec, const Request& request, const Payload& payload,
              TimePoint deadline, Reply* reply, Payload* reply_payload) {
    return CallOver(*options_.transport, spec, request, payload, deadline, reply, reply_payload);
  }
  /// The same over the data connection. The reply's payload may be lent: it comes with its leases.
  template <typename Request, typename Reply>
  Status CallForData(const CallSpec& spec, const Request& request, const Payload& payload,
                     TimePoint deadline, Reply* reply, Payload* reply_payload) {
    return CallOver(data_transport(), spec, request, payload, deadline, reply, reply_payload);
  }

  /// Takes a message of a reply. The first one of an attempt has the control bytes, and makes what
  /// came of an earlier attempt void.
  using TakePiece = std::function<Status(CallMessage message, bool is_first)>;
  /// One call over the data connection. The reply's payload comes in pieces of `piece_bytes`, or
  /// whole when that is 0.
  Status CallInPieces(const CallSpec& spec, const CallMessage& request, uint32_t piece_bytes,
                      TimePoint deadline, const TakePiece& take);

  /// The next of several requests; nullopt after the last one.
  using NextRequest = std::function<StatusOr<std::optional<CallMessage>>()>;
  using TakeReply = std::function<Status(const CallMessage& reply)>;
  /// Calls of one method over the data connection, several in flight: a request is made while the
  /// server works on those before it. Replies are taken in the order of the requests, and each call
  /// has its own retries. After an error no more is sent, and what is in flight is cancelled.
  Status CallAhead(const CallSpec& spec, TimePoint deadline, const NextRequest& next,
                   const TakeReply& take);

 private:
  /// A call in flight, and what repeats it.
  struct Ahead {
    CallMessage request;  ///< Outlives the call.
    Span span;
    StatusOr<std::unique_ptr<PendingCall>> started;
  };
  StatusOr<Ahead> StartAhead(const CallSpec& spec, TimePoint deadline, CallMessage request);
  Status FinishAhead(const CallSpec& spec, TimePoint deadline, Ahead call, CallMessage* reply);

  template <typename Request, typename Reply>
  Status CallOver(Transport& transport, const CallSpec& spec, const Request& request,
                  const Payload& payload, TimePoint deadline, Reply* reply,
                  Payload* reply_payload) {
    CallMessage out;
    QUIRE_RETURN_IF_ERROR(
        Annotate(wire::Encode(request, &out.control), "the request to ", spec.method));
    out.payload = payload;
    CallMessage in;
    QUIRE_RETURN_IF_ERROR(CallWithRetries(transport, spec, out, deadline, &in));
    QUIRE_RETURN_IF_ERROR(DecodeReply(spec.method, in.control, reply));
    if (reply_payload != nullptr) {
      *reply_payload = std::move(in.payload);
    } else if (!in.payload.empty()) {
      return BadReply(spec.method, "it carries ", in.payload.size_bytes(),
                      " payload bytes instead of none");
    }
    return OkStatus();
  }

  /// An attempt within `left`, for the span at `trace`.
  using Attempt = std::function<Status(Duration left, const TraceContext& trace)>;
  /// Makes attempts as `spec` allows, within one span of the current one.
  Status WithRetries(const CallSpec& spec, TimePoint deadline, const Attempt& attempt);
  Status WithRetries(const CallSpec& spec, TimePoint deadline, const TraceContext& trace,
                     const Attempt& attempt);
  Status CallWithRetries(Transport& transport, const CallSpec& spec, const CallMessage& request,
                         TimePoint deadline, CallMessage* reply);

  const Client::Options options_;
  std::atomic<uint64_t> next_jitter_seed_;
  Reachability server_;
  LeaseKeeper leases_;
  SealedContexts sealed_;
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_CALLER_H_
