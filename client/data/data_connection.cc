// SPDX-License-Identifier: Apache-2.0
#include "client/data/data_connection.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "client/reply.h"
#include "common/base/retry_hint.h"
#include "common/base/trace/span.h"
#include "common/wire/message.h"
#include "quire/v1/data_plane.pb.h"
#include "transport/frames/frame_client.h"

namespace quire::internal {
namespace {

constexpr char kOffer[] = "quire.v1.DataPlane/Offer";
constexpr char kAddLanding[] = "quire.v1.DataPlane/AddLanding";
constexpr char kRemoveLanding[] = "quire.v1.DataPlane/RemoveLanding";
constexpr std::array<std::string_view, 3> kKinds = {"shm", "ucx", "grpc"};
/// Most offers of one server, which lists each way once.
constexpr int kMostOffers = 16;

/// How long a step may take that has `step` for itself, and until `deadline` with all others.
StatusOr<Duration> StepTime(Duration step, TimePoint deadline) {
  const TimePoint now = SystemClock().Now();
  if (now < deadline) return std::min<Duration>(step, deadline - now);
  return DeadlineExceeded("the deadline leaves no time to connect");
}

/// Calls of quire.v1.DataPlane. A value; may be kept by callbacks.
class ControlChannel {
 public:
  ControlChannel(std::shared_ptr<Transport> transport, const DataOptions& options)
      : transport_(std::move(transport)),
        tenant_(options.tenant),
        step_(options.timeout),
        limit_(options.limit) {}

  template <typename Request, typename Reply>
  Status Call(std::string_view method, const Request& request, Reply* reply,
              TimePoint deadline = TimePoint::max()) const {
    QUIRE_ASSIGN_OR_RETURN(const Duration timeout, StepTime(step_, std::min(deadline, limit_)));
    CallMessage message, answer;
    QUIRE_RETURN_IF_ERROR(wire::Encode(request, &message.control));
    Span span = ChildOfCurrent(method, SpanKind::kClient);
    const Status called = transport_->Call(
        method, message, &answer, {.tenant = tenant_, .timeout = timeout, .trace = span.context()});
    span.End(called);
    QUIRE_RETURN_IF_ERROR(called);
    return DecodeReply(method, answer.control, reply);
  }

 private:
  std::shared_ptr<Transport> transport_;
  std::string tenant_;
  Duration step_;
  TimePoint limit_;
};

FrameClient::Options ClientOptions(const ControlChannel& control, const v1::TransportOffer& offer,
                                   const DataOptions& options, Duration hello_timeout) {
  FrameClient::Options client{.tenant = options.tenant,
                              .ticket = offer.ticket(),
                              .max_message_bytes = options.max_message_bytes,
                              .window_bytes = options.window_bytes,
                              .hello_timeout = hello_timeout,
                              .spin = options.spin,
                              .sends_traces = offer.reads_traces()};
  client.announce = [control](uint64_t connection_id, uint64_t landing_id, uint64_t bytes,
                              std::string_view key) {
    v1::AddLandingRequest request;
    request.set_connection_id(connection_id);
    request.set_landing_id(landing_id);
    request.set_bytes(bytes);
    request.set_key(key.data(), key.size());
    v1::AddLandingReply reply;
    return control.Call(kAddLanding, request, &reply);
  };
  client.withdraw = [control](uint64_t connection_id, uint64_t landing_id) {
    v1::RemoveLandingRequest request;
    request.set_connection_id(connection_id);
    request.set_landing_id(landing_id);
    v1::RemoveLandingReply reply;
    // A server that cannot be reached is gone or loses the connection, and the landing with it.
    (void)control.Call(kRemoveLanding, request, &reply);
  };
  return client;
}

/// True when `options` ask for the offer. "ucx" means shm on the server's host.
bool IsAskedFor(const v1::TransportOffer& offer, const DataOptions& options,
                const DataSeams& seams) {
  if (options.transport == "auto" || offer.kind() == options.transport) return true;
  return options.transport == "ucx" && !options.ucx_within_host && offer.kind() == "shm" &&
         offer.host() == seams.host_id;
}

/// Why `offer` is not even tried; empty when it may be.
std::string ReasonToSkip(const v1::TransportOffer& offer, const DataOptions& options,
                         const DataSeams& seams) {
  if (!IsAskedFor(offer, options, seams)) return "not asked for";
  if (std::ranges::find(seams.dialers, offer.kind(), &PipeDialer::kind) == seams.dialers.end()) {
    return "this program was built without it";
  }
  if (!offer.host().empty() && offer.host() != seams.host_id) return "another host";
  return "";
}

/// The same way to connect, with a ticket that was not shown yet.
StatusOr<v1::TransportOffer> OfferAgain(const v1::TransportOffer& offer,
                                        const ControlChannel& control, TimePoint deadline) {
  v1::OfferReply reply;
  QUIRE_RETURN_IF_ERROR(control.Call(kOffer, v1::OfferRequest(), &reply, deadline));
  for (v1::TransportOffer& again : *reply.mutable_offers()) {
    if (again.kind() == offer.kind() && again.address() == offer.address()) {
      return std::move(again);
    }
  }
  return Unavailable("the server does not offer it any more");
}

/// `*shown` is set when the server may have seen the ticket, which uses up those of all the offers.
StatusOr<std::shared_ptr<FrameClient>> Connect(const v1::TransportOffer& offer,
                                               const ControlChannel& control,
                                               const DataOptions& options, const DataSeams& seams,
                                               TimePoint deadline, bool* shown) {
  QUIRE_ASSIGN_OR_RETURN(const Duration to_dial, StepTime(options.timeout, deadline));
  const auto dialer = std::ranges::find(seams.dialers, offer.kind(), &PipeDialer::kind);
  QUIRE_ASSIGN_OR_RETURN(
      auto pipe,
      dialer->dial({.address = ReachableAddress(offer.address(), options.control_address),
                    .max_message_bytes = options.max_message_bytes,
                    .timeout = to_dial,
                    .direct_landings = options.direct_landings,
                    .tenant = options.tenant,
                    .token = options.token}));
  QUIRE_ASSIGN_OR_RETURN(const Duration to_greet, StepTime(options.timeout, deadline));
  *shown = true;
  return FrameClient::Connect(std::move(pipe), ClientOptions(control, offer, options, to_greet));
}

/// Tries offers one after the other. Thread-safety: none.
class OfferTrier {
 public:
  OfferTrier(const ControlChannel* control, const DataOptions* options, const DataSeams* seams,
             TimePoint deadline)
      : control_(control), options_(options), seams_(seams), deadline_(deadline) {}

  StatusOr<std::shared_ptr<FrameClient>> Try(const v1::TransportOffer& offer) {
    v1::TransportOffer usable = offer;
    if (shown_) {
      QUIRE_ASSIGN_OR_RETURN(usable, OfferAgain(offer, *control_, deadline_));
    }
    return Connect(usable, *control_, *options_, *seams_, deadline_, &shown_);
  }

 private:
  const ControlChannel* const control_;
  const DataOptions* const options_;
  const DataSeams* const seams_;
  const TimePoint deadline_;
  bool shown_ = false;  ///< A ticket was.
};

std::vector<DataReport::PassedOver> NotOffered(const v1::OfferReply& reply) {
  std::vector<DataReport::PassedOver> missing;
  for (const std::string_view kind : kKinds) {
    if (std::ranges::none_of(reply.offers(), [&](const auto& o) { return o.kind() == kind; })) {
      missing.push_back({std::string(kind), "the server does not offer it"});
    }
  }
  return missing;
}

/// Notes the kind that was taken, and whether the server writes into landings, which it may have
/// been granted in vain.
void ReportTaken(const std::string& kind, const TransportCapabilities& can,
                 const DataOptions& options, DataReport* report) {
  const std::string direct = kind + "-direct";
  const bool writes = kind == "ucx" && can.direct_landing;
  report->taken = writes ? direct : kind;
  report->detail = can.detail;
  if (options.direct_landings && !writes && kind == "ucx") {
    report->passed_over.push_back(
        {direct,
         "the server does not write into landings (--ucx-direct-landings), or no lane "
         "writes remote memory"});
  }
}

/// The server's address for an error, after " at "; empty when it is not known.
std::string At(const DataOptions& options) {
  return options.control_address.empty() ? "" : " at " + options.control_address;
}

/// Kinds that did not work, each with its reason, for an error.
std::string Reasons(const DataReport& report) {
  std::string reasons;
  for (const auto& [kind, why] : report.passed_over) {
    reasons.append(reasons.empty() ? "" : "; ").append(kind).append(": ").append(why);
  }
  return reasons;
}

}  // namespace

StatusOr<DataConnection> ConnectDataOnce(const std::shared_ptr<Transport>& control,
                                         const DataOptions& options, TimePoint deadline,
                                         const DataSeams& seams) {
  deadline = std::min(deadline, options.limit);
  if (options.transport != "auto" && std::ranges::find(kKinds, options.transport) == kKinds.end()) {
    return InvalidArgument("there is no transport '", options.transport,
                           "': there are auto, grpc, shm and ucx");
  }
  const ControlChannel channel(control, options);
  v1::OfferReply offers;
  QUIRE_RETURN_IF_ERROR(channel.Call(kOffer, v1::OfferRequest(), &offers, deadline));
  if (offers.offers_size() > kMostOffers) {
    return BadReply(kOffer, offers.offers_size(), " offers, more than ", kMostOffers);
  }
  DataReport report{.taken = {}, .detail = {}, .passed_over = NotOffered(offers)};
  OfferTrier trier(&channel, &options, &seams, deadline);
  std::optional<Duration> retry_after;  // The shortest that a refusal names.
  for (const v1::TransportOffer& offer : offers.offers()) {
    std::string why_not = ReasonToSkip(offer, options, seams);
    if (why_not.empty()) {
      auto client = trier.Try(offer);
      if (client.ok()) {
        ReportTaken(offer.kind(), (*client)->capabilities(), options, &report);
        return DataConnection{*std::move(client), std::move(report)};
      }
      why_not = Message(client.status());
      const auto wait = RetryAfter(client.status());
      if (wait) retry_after = std::min<Duration>(*wait, retry_after.value_or(*wait));
    }
    report.passed_over.push_back({offer.kind(), std::move(why_not)});
  }
  if (SystemClock().Now() >= deadline) {
    return DeadlineExceeded("no data connection (", options.transport, ") to the server",
                            At(options), " until the deadline: ", Reasons(report));
  }
  Status none = Unavailable("no data connection (", options.transport, ") to the server",
                            At(options), ": ", Reasons(report));
  return retry_after ? WithRetryAfter(std::move(none), *retry_after) : none;
}

}  // namespace quire::internal
