// SPDX-License-Identifier: Apache-2.0
#include "quire/client.h"

#include <utility>

#include "client/caller.h"
#include "common/wire/convert.h"

namespace quire {

using namespace internal;

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
  return std::unique_ptr<Client>(
      new Client(std::make_unique<internal::Caller>(std::move(options))));
}

Client::Client(std::unique_ptr<internal::Caller> caller) : caller_(std::move(caller)) {}
Client::~Client() = default;

StatusOr<Client*> Client::ForPut(const DocumentName&) { return this; }
StatusOr<Client*> Client::ForDocument(const DocumentName&) { return this; }
void Client::NoteChain(const SegmentKey&, const DocumentName&) {}

std::string_view Client::data_transport_name() const {
  return caller_->data_transport().capabilities().name;
}

bool Client::LandsDirectly() const {
  return caller_->data_transport().capabilities().direct_landing;
}

}  // namespace quire
