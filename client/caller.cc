// SPDX-License-Identifier: Apache-2.0
#include "client/caller.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/random.h"
#include "transport/frames/message_limit.h"
#include "transport/single_reply.h"

namespace quire::internal {
namespace {

/// Calls in flight: one that is sent, one that the server works on, and two that wait for a core.
constexpr size_t kMostAhead = 4;

}  // namespace

Caller::Caller(Client::Options options)
    : options_(std::move(options)),
      next_jitter_seed_(SystemRandom().Next()),
      server_(options_.health),
      leases_(options_.transport, options_.tenant) {}

TimePoint Caller::NewDeadline(Duration timeout) const {
  return std::min(options_.clock->Now() + timeout, options_.limit);
}

Status Caller::CallWithRetries(Transport& transport, const CallSpec& spec,
                               const CallMessage& request, TimePoint deadline, CallMessage* reply) {
  const uint64_t limit = transport.capabilities().max_message_bytes;
  QUIRE_RETURN_IF_ERROR(Annotate(CheckMessageBytes(request, limit, "request"), spec.method));
  return WithRetries(spec, deadline, [&](Duration left, const TraceContext& trace) {
    return transport.Call(spec.method, request, reply,
                          {.tenant = options_.tenant, .timeout = left, .trace = trace});
  });
}

Status Caller::CallInPieces(const CallSpec& spec, const CallMessage& request, uint32_t piece_bytes,
                            TimePoint deadline, const TakePiece& take) {
  return WithRetries(spec, deadline, [&](Duration left, const TraceContext& trace) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const auto call, data_transport().Start(spec.method, request,
                                                                   {.tenant = options_.tenant,
                                                                    .timeout = left,
                                                                    .piece_bytes = piece_bytes,
                                                                    .trace = trace}));
    for (bool is_first = true;; is_first = false) {
      QUIRE_ASSIGN_OR_RETURN(auto message, call->Next(TimePoint::max()));
      if (!message) return OkStatus();
      QUIRE_RETURN_IF_ERROR(take(*std::move(message), is_first));
    }
  });
}

Status Caller::CallAhead(const CallSpec& spec, TimePoint deadline, const NextRequest& next,
                         const TakeReply& take) {
  std::deque<Ahead> in_flight;
  for (bool is_last = false; !is_last || !in_flight.empty();) {
    if (!is_last && in_flight.size() < kMostAhead) {
      QUIRE_ASSIGN_OR_RETURN(auto request, next());
      is_last = !request;
      if (is_last) continue;
      QUIRE_ASSIGN_OR_RETURN(Ahead call, StartAhead(spec, deadline, *std::move(request)));
      in_flight.push_back(std::move(call));
      continue;
    }
    Ahead oldest = std::move(in_flight.front());
    in_flight.pop_front();
    CallMessage reply;
    QUIRE_RETURN_IF_ERROR(FinishAhead(spec, deadline, std::move(oldest), &reply));
    QUIRE_RETURN_IF_ERROR(take(reply));
  }
  return OkStatus();
}

StatusOr<Caller::Ahead> Caller::StartAhead(const CallSpec& spec, TimePoint deadline,
                                           CallMessage request) {
  const uint64_t limit = data_transport().capabilities().max_message_bytes;
  QUIRE_RETURN_IF_ERROR(Annotate(CheckMessageBytes(request, limit, "request"), spec.method));
  Ahead call{.request = std::move(request),
             .span = ChildOfCurrent(spec.method, SpanKind::kClient),
             .started = Unavailable("not sent")};
  const Duration left = deadline - options_.clock->Now();
  if (left <= Duration::zero()) return call;
  call.started = data_transport().Start(
      spec.method, call.request,
      {.tenant = options_.tenant, .timeout = left, .trace = call.span.context()});
  return call;
}

Status Caller::FinishAhead(const CallSpec& spec, TimePoint deadline, Ahead call,
                           CallMessage* reply) {
  bool is_first = true;
  const auto attempt = [&](Duration left, const TraceContext& trace) -> Status {
    if (std::exchange(is_first, false)) {
      QUIRE_RETURN_IF_ERROR(call.started.status());
      return TakeSingleReply(**call.started, reply);
    }
    return data_transport().Call(spec.method, call.request, reply,
                                 {.tenant = options_.tenant, .timeout = left, .trace = trace});
  };
  const Status status = WithRetries(spec, deadline, call.span.context(), attempt);
  call.span.End(status);
  return status;
}

Status Caller::WithRetries(const CallSpec& spec, TimePoint deadline, const Attempt& attempt) {
  Span span = ChildOfCurrent(spec.method, SpanKind::kClient);
  const Status status = WithRetries(spec, deadline, span.context(), attempt);
  span.End(status);
  return status;
}

Status Caller::WithRetries(const CallSpec& spec, TimePoint deadline, const TraceContext& trace,
                           const Attempt& attempt) {
  SeededRandom random(NewJitterSeed());
  Clock& clock = *options_.clock;
  Attempts attempts(options_.retry, random, server_, deadline);
  const auto no_more = [&spec](const Status& why) {
    return IsDeadlineExceeded(why) ? Annotate(why, spec.method) : why;
  };
  for (;;) {
    const Duration left = deadline - clock.Now();
    if (left <= Duration::zero()) return no_more(attempts.DeadlineError());
    const Status status = attempt(left, trace);
    if (status.ok() || !IsRetriable(status, spec.repeat)) {
      server_.Note(status, clock.Now());
      return attempts.End(status);
    }
    const auto next = attempts.Next(status, clock.Now());
    if (!next.ok()) return no_more(next.status());
    clock.Sleep(*next - clock.Now());
  }
}

}  // namespace quire::internal
