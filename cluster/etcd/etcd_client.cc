// SPDX-License-Identifier: Apache-2.0
#include "cluster/etcd/etcd_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "cluster/etcd/etcd_requests.h"
#include "common/base/threads/mutex.h"
#include "common/wire/limits.h"
#include "etcd/etcd.grpc.pb.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"

namespace quire::cluster {

namespace pb = etcdserverpb;

struct EtcdClient::Endpoint {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::KV::Stub> kv;
  std::unique_ptr<pb::Lease::Stub> lease;
  std::unique_ptr<pb::Watch::Stub> watch;
};

struct EtcdClient::WatchCall::Rep {
  explicit Rep(TimePoint its_deadline) : deadline(its_deadline) {}

  const TimePoint deadline;
  Mutex mutex;
  bool cancelled QUIRE_GUARDED_BY(mutex) = false;
  grpc::ClientContext* running QUIRE_GUARDED_BY(mutex) = nullptr;

  /// False when the call was cancelled.
  bool Begin(grpc::ClientContext* context) {
    MutexLock lock(mutex);
    running = context;
    return !cancelled;
  }
  /// False when the call was cancelled.
  bool End() {
    MutexLock lock(mutex);
    running = nullptr;
    return !cancelled;
  }
};

EtcdClient::WatchCall::WatchCall(TimePoint deadline) : rep_(std::make_unique<Rep>(deadline)) {}
EtcdClient::WatchCall::~WatchCall() = default;

void EtcdClient::WatchCall::Cancel() {
  MutexLock lock(rep_->mutex);
  rep_->cancelled = true;
  if (rep_->running != nullptr) rep_->running->TryCancel();
}

namespace {

/// Shortest time for one endpoint, and the time after which another one is tried.
constexpr Duration kEndpointTimeout = std::chrono::seconds(1);
/// Pause before an endpoint is tried again.
constexpr Duration kEndpointPause = std::chrono::milliseconds(20);

bool MayHelpElsewhere(const Status& status) {
  return IsUnavailable(status) || IsDeadlineExceeded(status);
}

using WatchStream = grpc::ClientReaderWriter<pb::WatchRequest, pb::WatchResponse>;

/// Reads a response with all of its pieces. False when the stream has broken.
bool ReadWhole(WatchStream& stream, pb::WatchResponse* response) {
  if (!stream.Read(response)) return false;
  while (response->fragment()) {
    pb::WatchResponse piece;
    if (!stream.Read(&piece)) return false;
    response->set_fragment(piece.fragment());
    response->mutable_events()->MergeFrom(piece.events());
  }
  return true;
}

/// Begins a watch and hands its responses on. OK when the stream has broken.
Status Follow(std::string_view prefix, int64_t first_revision, WatchStream& stream,
              const EtcdClient::OnWatchResponse& on_response) {
  pb::WatchRequest request;
  pb::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_key(std::string(prefix));
  create.set_range_end(PrefixEnd(prefix));
  create.set_start_revision(first_revision);
  create.set_progress_notify(true);
  create.set_fragment(true);
  if (!stream.Write(request)) return OkStatus();
  pb::WatchResponse response;
  while (ReadWhole(stream, &response)) {
    if (response.compact_revision() > 0) {
      return Status(StatusCode::kOutOfRange, "etcd has compacted the history");
    }
    if (response.canceled()) return Unavailable("etcd ended it: ", response.cancel_reason());
    QUIRE_RETURN_IF_ERROR(on_response(response));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Create(const EtcdOptions& options) {
  if (options.endpoints.empty()) return InvalidArgument("no endpoint of etcd is given");
  std::unique_ptr<EtcdClient> client(new EtcdClient(options));
  for (const std::string& address : options.endpoints) {
    auto channel = MakeGrpcChannel(address, wire::kDefaultMaxMessageBytes);
    if (!channel.ok()) return Annotate(channel.status(), "etcd at ", address);
    client->all_.push_back(
        std::make_unique<Endpoint>(Endpoint{.address = address,
                                            .channel = *channel,
                                            .kv = pb::KV::NewStub(*channel),
                                            .lease = pb::Lease::NewStub(*channel),
                                            .watch = pb::Watch::NewStub(*channel)}));
    client->endpoints_.append(client->endpoints_.empty() ? "" : ",").append(address);
  }
  return client;
}

EtcdClient::EtcdClient(const EtcdOptions& options) : options_(options) {}
EtcdClient::~EtcdClient() = default;

void EtcdClient::LeaveEndpoint(size_t failed) {
  current_.compare_exchange_strong(failed, failed + 1);
}

Status EtcdClient::Call(const OneCall& call) {
  const TimePoint deadline = SystemClock().Now() + options_.call_timeout;
  for (size_t attempt = 1;; ++attempt) {
    const size_t number = current_;
    Endpoint& endpoint = *all_[number % all_.size()];
    grpc::ClientContext context;
    const Duration left = deadline - SystemClock().Now();
    context.set_deadline(DeadlineAfter(all_.size() > 1 ? std::min(left, kEndpointTimeout) : left));
    context.set_wait_for_ready(all_.size() == 1);
    const Status status = UnreachedAtDeadline(FromGrpc(call(endpoint, context)), *endpoint.channel);
    if (status.ok()) return status;
    if (!MayHelpElsewhere(status)) return Annotate(status, "etcd at ", endpoint.address);
    LeaveEndpoint(number);
    LetConnect(*all_[(number + 1) % all_.size()]->channel, deadline);
    if (SystemClock().Now() + kEndpointPause >= deadline) {
      return Unavailable("etcd at ", endpoints_, " does not answer: ", Message(status));
    }
    if (attempt % all_.size() == 0) SystemClock().Sleep(kEndpointPause);
  }
}

StatusOr<pb::RangeResponse> EtcdClient::Read(const pb::RangeRequest& request) {
  pb::RangeResponse response;
  QUIRE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.kv->Range(&context, request, &response);
  }));
  return response;
}

StatusOr<pb::RangeResponse> EtcdClient::ReadPrefix(std::string_view prefix) {
  pb::RangeRequest request;
  request.set_key(std::string(prefix));
  request.set_range_end(PrefixEnd(prefix));
  return Read(request);
}

StatusOr<pb::TxnResponse> EtcdClient::Commit(const pb::TxnRequest& txn) {
  pb::TxnResponse response;
  QUIRE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.kv->Txn(&context, txn, &response);
  }));
  return response;
}

StatusOr<int64_t> EtcdClient::GrantLease(Duration ttl) {
  pb::LeaseGrantRequest request;
  request.set_ttl(std::chrono::ceil<std::chrono::seconds>(ttl).count());
  pb::LeaseGrantResponse response;
  QUIRE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.lease->LeaseGrant(&context, request, &response);
  }));
  if (!response.error().empty()) return Internal("etcd grants no lease: ", response.error());
  return response.id();
}

Status EtcdClient::KeepAlive(int64_t lease) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse response;
  QUIRE_RETURN_IF_ERROR(Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    const auto stream = endpoint.lease->LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->Read(&response);
    if (!answered) return stream->Finish();
    stream->WritesDone();
    return grpc::Status::OK;
  }));
  if (response.ttl() > 0) return OkStatus();
  return NotFound("the lease has ended in etcd");
}

Status EtcdClient::RevokeLease(int64_t lease) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  pb::LeaseRevokeResponse response;
  return Call([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.lease->LeaseRevoke(&context, request, &response);
  });
}

Status EtcdClient::Watch(std::string_view prefix, int64_t first_revision, WatchCall& call,
                         const OnWatchResponse& on_response) {
  const size_t number = current_;
  Endpoint& endpoint = *all_[number % all_.size()];
  grpc::ClientContext context;
  // A member without a leader ends the watch then, instead of waiting for changes that cannot come.
  context.AddMetadata("hasleader", "true");
  const TimePoint deadline = call.rep_->deadline;
  if (deadline != TimePoint::max()) {
    context.set_deadline(DeadlineAfter(deadline - SystemClock().Now()));
  }
  if (!call.rep_->Begin(&context)) return Status(StatusCode::kCancelled, "the watch was ended");
  const auto stream = endpoint.watch->Watch(&context);
  Status status = Follow(prefix, first_revision, *stream, on_response);
  if (!status.ok()) context.TryCancel();
  const Status end = UnreachedAtDeadline(FromGrpc(stream->Finish()), *endpoint.channel);
  if (!call.rep_->End()) return Status(StatusCode::kCancelled, "the watch was ended");
  if (status.ok() && IsDeadlineExceeded(end)) return end;
  if (status.ok()) status = Unavailable("the watch ended: ", Message(end));
  if (MayHelpElsewhere(status)) LeaveEndpoint(number);
  return Annotate(status, "etcd at ", endpoint.address);
}

}  // namespace quire::cluster
