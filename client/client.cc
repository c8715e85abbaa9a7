// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <algorithm>
#include <utility>

#include "client/call.h"
#include "client/lease_keeper.h"
#include "common/wire/convert.h"
#include "transport/frames/message_limit.h"

namespace quire {
namespace {

Status Validate(const Client::Options& options) {
  if (options.transport == nullptr) {
    return InvalidArgument("Client::Options::transport is null; make one with ConnectGrpc");
  }
  QUIRE_RETURN_IF_ERROR(wire::CheckTenantName(options.tenant));
  if (options.deadline <= Duration::zero()) {
    return InvalidArgument("Client::Options::deadline must be positive");
  }
  const RetryOptions& retry = options.retry;
  if (retry.max_attempts == 0 || retry.first_backoff < Duration::zero() ||
      retry.max_backoff < retry.first_backoff || !(retry.multiplier >= 1) || !(retry.jitter >= 0) ||
      !(retry.jitter <= 1)) {
    return InvalidArgument(
        "RetryOptions need max_attempts >= 1, 0 <= first_backoff <= max_backoff, multiplier >= 1 "
        "and jitter in [0, 1]");
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Client>> Client::Create(Options options) {
  QUIRE_RETURN_IF_ERROR(Validate(options));
  if (options.clock == nullptr) options.clock = &SystemClock();
  if (options.data_transport == nullptr) options.data_transport = options.transport;
  return std::unique_ptr<Client>(new Client(std::move(options)));
}

Client::Client(Options options)
    : options_(std::move(options)),
      next_jitter_seed_(SystemRandom().Next()),
      server_(options_.health),
      leases_(std::make_unique<LeaseKeeper>(options_.transport, options_.tenant)) {}
Client::~Client() = default;

TimePoint Client::NewDeadline(Duration timeout) const {
  return std::min(options_.clock->Now() + timeout, options_.limit);
}

Status Client::CallWithRetries(const CallSpec& spec, const CallMessage& request, TimePoint deadline,
                               CallMessage* reply) {
  const uint64_t limit = options_.transport->capabilities().max_message_bytes;
  QUIRE_RETURN_IF_ERROR(Annotate(CheckMessageBytes(request, limit, "request"), spec.method));
  SeededRandom random(next_jitter_seed_.fetch_add(1, std::memory_order_relaxed));
  Clock& clock = *options_.clock;
  Attempts attempts(options_.retry, random, server_, deadline);
  const auto no_more = [&spec](const Status& why) {
    return absl::IsDeadlineExceeded(why) ? Annotate(why, spec.method) : why;
  };
  for (;;) {
    const Duration left = deadline - clock.Now();
    if (left <= Duration::zero()) return no_more(attempts.OutOfTime());
    const Status status = options_.transport->Call(spec.method, request, reply,
                                                   {.tenant = options_.tenant, .timeout = left});
    if (status.ok() || !IsRetriable(status, spec.repeat)) {
      server_.Note(status, clock.Now());
      return attempts.End(status);
    }
    const auto next = attempts.Next(status, clock.Now());
    if (!next.ok()) return no_more(next.status());
    clock.Sleep(*next - clock.Now());
  }
}

}  // namespace quire
