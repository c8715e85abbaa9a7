// SPDX-License-Identifier: Apache-2.0
//
// Dispatcher: the server end of every transport. It checks the tenant and the deadline, finds the
// method, admits the call, parses the control bytes, calls the adapter and serializes its reply.
// Adapters turn one wire message into one call of the domain and back. They hold no logic of their
// own.
//
// A method answers whole (Add) or in parts (AddStreaming). A call gives up its place before it
// sends a whole reply, and during each part. A slow client therefore holds no place. Thread-safety:
// Add before the first Handle; then all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_SERVICE_DISPATCHER_H_
#define QUIRE_KVSERVER_SERVICE_DISPATCHER_H_

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/trace/tracer.h"
#include "common/wire/message.h"
#include "kvserver/service/admission/admission.h"
#include "kvserver/service/slow/slow_calls.h"
#include "kvserver/store/call_waits.h"
#include "kvserver/store/page_store.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::kvserver {

/// Arguments of an adapter besides the message.
struct Call {
  std::string_view tenant;  ///< Known to the store.
  const Payload& payload;   ///< Payload of the request; valid during the call.
  Payload* reply_payload;   ///< Null for a method that answers in parts.
  const CallContext& context;
  CallWaits* waits = nullptr;  ///< Told of what the call waits for.
};

/// Serializes the reply. INTERNAL when it cannot be sent: the server's fault, not the caller's.
[[nodiscard]] inline Status EncodeReply(const google::protobuf::Message& reply,
                                        std::string* bytes) {
  const Status encoded = wire::Encode(reply, bytes);
  if (encoded.ok()) return encoded;
  return Internal("the reply cannot be sent: ", Message(encoded));
}

/// Writes a part of a reply, a protobuf message without its `payload` field. Errors as
/// ReplyWriter::Write; `places` as in CallMessage.
[[nodiscard]] inline Status WritePart(ReplyWriter& out, const google::protobuf::Message& reply,
                                      Payload payload = {}, std::vector<uint64_t> places = {}) {
  CallMessage part{.control = {}, .payload = std::move(payload), .places = std::move(places)};
  QUIRE_RETURN_IF_ERROR(EncodeReply(reply, &part.control));
  return out.Write(std::move(part));
}

/// How a method reads the payload of its request.
enum class PayloadUse : uint8_t {
  kMany,  ///< As often as it likes: it gets a copy of payload that the caller could still change.
  kOnce   ///< In one pass that copies and checks the bytes: it gets the caller's memory.
};

class Dispatcher final : public CallHandler {
 public:
  /// Parts of the server; all outlive the dispatcher.
  struct Parts {
    const PageStore* store = nullptr;  ///< Knows the tenants.
    Admission* reads = nullptr;        ///< Admits methods that only read.
    Admission* writes = nullptr;       ///< Admits the others.
    const Clock* clock = nullptr;      ///< Clock of the latencies.
    Health* health = nullptr;          ///< Receives refused calls; may be null.
    SlowCalls* slow = nullptr;         ///< Receives calls that passed a door; may be null.
    const Tracer* tracer = nullptr;    ///< Begins the spans of calls; null: none.
  };
  explicit Dispatcher(const Parts& parts) : parts_(parts) {}

  /// Answers `method` with `adapter(call, request, reply)`; Request and Reply are protobuf
  /// messages.
  template <typename Request, typename Reply, typename Adapter>
  void Add(const std::string& method, Adapter adapter, PayloadUse use = PayloadUse::kMany) {
    AddMethod(
        method,
        WholeAdapter([adapter = std::move(adapter)](const Call& call, const std::string& control,
                                                    std::string* reply_control) {
          Request request;
          Reply reply;
          QUIRE_RETURN_IF_ERROR(Parse(control, &request));
          QUIRE_RETURN_IF_ERROR(adapter(call, request, &reply));
          return EncodeReply(reply, reply_control);
        }),
        use);
  }

  /// Answers `method` with `adapter(call, request, ReplyWriter&)`, which writes one part or more,
  /// as call.context says.
  template <typename Request, typename Adapter>
  void AddStreaming(const std::string& method, Adapter adapter) {
    AddMethod(method, StreamingAdapter([adapter = std::move(adapter)](
                                           const Call& call, const std::string& control,
                                           ReplyWriter& reply) -> Status {
                Request request;
                QUIRE_RETURN_IF_ERROR(Parse(control, &request));
                return adapter(call, request, reply);
              }));
  }

  std::vector<std::string> Methods() const override;
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override;

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  using WholeAdapter = std::function<Status(const Call&, const std::string&, std::string*)>;
  using StreamingAdapter = std::function<Status(const Call&, const std::string&, ReplyWriter&)>;
  using Adapter = std::variant<WholeAdapter, StreamingAdapter>;
  class CountedReply;
  /// One more than the largest code of StatusCode.
  static constexpr size_t kNumCodes = 17;
  struct Method {
    Adapter adapter;
    PayloadUse payload_use = PayloadUse::kMany;
    Admission* door = nullptr;  ///< Null: always admitted.
    LatencyHistogram latency;   ///< From the arrival of a call to the end of its reply.
    Counter request_bytes, reply_bytes;
    std::array<Counter, kNumCodes> errors;
  };

  template <typename Request>
  static Status Parse(const std::string& control, Request* request) {
    if (wire::Decode(control, request).ok()) return OkStatus();
    return InvalidArgument("the request is no ", request->GetTypeName(), " message");
  }

  void AddMethod(const std::string& name, Adapter adapter, PayloadUse use = PayloadUse::kMany);
  Status HandleKnown(Method& method, const CallContext& context, std::string_view name,
                     const CallMessage& request, ReplyWriter& reply) const;
  Status Check(const CallContext& context, std::string_view method) const;
  void TellRefusal(const CallContext& context, std::string_view method, const Status& why) const;
  StatusOr<std::optional<Admission::Pass>> Enter(const Method& method, const CallContext& context,
                                                 const CallMessage& request,
                                                 CallWaits* waits) const;
  void NoteSlow(const Method& method, const CallContext& context, std::string_view name,
                const Status& status, const CountedReply& reply, uint64_t request_bytes,
                Duration time) const;
  Status Run(const Method& method, const CallContext& context, const CallMessage& request,
             CountedReply& reply) const;

  const Parts parts_;
  std::map<std::string, std::unique_ptr<Method>, std::less<>> methods_;
  Counter calls_;
  Counter calls_failed_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_DISPATCHER_H_
