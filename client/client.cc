// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <utility>

#include "client/call.h"
#include "common/transport/message_limit.h"
#include "common/wire/convert.h"

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
    : options_(std::move(options)), next_jitter_seed_(SystemRandom().Next()) {}

TimePoint Client::NewDeadline() const { return options_.clock->Now() + options_.deadline; }

Status Client::CallWithRetries(const CallSpec& spec, const CallMessage& request, TimePoint deadline,
                               CallMessage* reply) {
  const uint64_t limit = options_.transport->capabilities().max_message_bytes;
  QUIRE_RETURN_IF_ERROR(Annotate(CheckMessageBytes(request, limit, "request"), spec.method));
  SeededRandom random(next_jitter_seed_.fetch_add(1, std::memory_order_relaxed));
  Status status = DeadlineExceeded(spec.method, ": the deadline passed before the first attempt");
  for (uint32_t attempt = 1;; ++attempt) {
    const Duration left = deadline - options_.clock->Now();
    if (left <= Duration::zero()) break;
    status = options_.transport->Call(spec.method, request, reply,
                                      {.tenant = options_.tenant, .timeout = left});
    if (status.ok() || !IsRetriable(status, spec.repeat) || attempt == options_.retry.max_attempts)
      return status;
    const Duration wait = WaitAfter(status, options_.retry, attempt, random);
    if (options_.clock->Now() + wait >= deadline) break;
    options_.clock->Sleep(wait);
  }
  return absl::IsDeadlineExceeded(status)
             ? status
             : DeadlineExceeded(
                   spec.method,
                   ": the deadline leaves no time for another attempt; the last said: ",
                   Message(status));
}

}  // namespace quire
