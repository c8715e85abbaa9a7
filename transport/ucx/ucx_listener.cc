// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_listener.h"

#include <netinet/in.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "transport/ucx/ucx_connection.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_pipe.h"
#include "transport/ucx/ucx_status.h"
#include "transport/ucx/ucx_wire.h"

namespace quire {
namespace {

/// Names the allowed transports for an error. UCX reaches a socket address only by a device that
/// has one; the other transports use what that device set up. UCX itself reports only
/// "unreachable".
std::string OverWhatIsAllowed(const UcxOptions& options) {
  if (options.transports.empty()) return {};
  return " over " + options.transports + ", of which one must have network devices, as tcp has";
}

}  // namespace

/// Used by the worker's thread only.
struct UcxListener::State : std::enable_shared_from_this<State> {
  UcxWorker* worker = nullptr;  ///< The listener's worker, which outlives `handle`.
  UcxOptions options;
  Accept accept;
  ucp_listener_h handle = nullptr;
  std::map<ucp_ep_h, std::shared_ptr<UcxConnection>> pending;

  Status Open(const SocketAddress& address);
  StatusOr<uint16_t> Port() const;
  void OnRequest(ucp_conn_request_h request);
  void OnHello(ucp_ep_h from, const UcxHello& hello);
  void Close();
};

Status UcxListener::State::Open(const SocketAddress& address) {
  ucp_listener_params_t params = {};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr = {address.get(), address.size()};
  params.conn_handler.cb = [](ucp_conn_request_h request, void* arg) {
    static_cast<State*>(arg)->OnRequest(request);
  };
  params.conn_handler.arg = this;
  QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_listener_create(worker->handle(), &params, &handle),
                                    "listen for UCX connections"));
  worker->SetHelloHandler([this](ucp_ep_h from, const UcxHello& hello) { OnHello(from, hello); });
  return OkStatus();
}

StatusOr<uint16_t> UcxListener::State::Port() const {
  ucp_listener_attr_t attributes = {};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_listener_query(handle, &attributes), "ask for a listener's address"));
  // IPv4 and IPv6 have the port at the same offset.
  sockaddr_in address;
  std::memcpy(&address, &attributes.sockaddr, sizeof address);
  return ntohs(address.sin_port);
}

void UcxListener::State::OnRequest(ucp_conn_request_h request) {
  if (pending.size() >= options.max_handshakes) {
    (void)ucp_listener_reject(handle, request);
    return;
  }
  auto connection = std::make_shared<UcxConnection>(UcxConnection::Role::kServer,
                                                    worker->shared_from_this(), options);
  // Ignores a client that has already gone.
  if (!connection->Accept(request).ok()) return;
  const ucp_ep_h endpoint = connection->endpoint_handle();
  pending[endpoint] = connection;
  worker->After(options.connect_timeout, [weak = weak_from_this(), endpoint,
                                          which = std::weak_ptr<UcxConnection>(connection)] {
    const auto self = weak.lock();
    const auto late = which.lock();
    if (self == nullptr || late == nullptr) return;
    const auto found = self->pending.find(endpoint);
    if (found == self->pending.end() || found->second != late) return;
    self->pending.erase(found);
    late->Close();
  });
}

void UcxListener::State::OnHello(ucp_ep_h from, const UcxHello& hello) {
  const auto found = pending.find(from);
  if (found == pending.end()) return;
  const std::shared_ptr<UcxConnection> connection = std::move(found->second);
  pending.erase(found);
  connection->Welcome(hello);
  accept(std::make_unique<UcxPipe>(connection));
}

void UcxListener::State::Close() {
  worker->SetHelloHandler(nullptr);
  if (handle != nullptr) ucp_listener_destroy(handle);
  for (const auto& [endpoint, connection] : std::exchange(pending, {})) connection->Close();
}

StatusOr<std::unique_ptr<UcxListener>> UcxListener::Listen(std::shared_ptr<UcxWorker> worker,
                                                           const SocketAddress& address,
                                                           const UcxOptions& options,
                                                           Accept accept) {
  auto state = std::make_shared<State>();
  state->worker = worker.get();
  state->options = options;
  state->accept = std::move(accept);
  StatusOr<uint16_t> port = uint16_t{0};
  worker->Run([&] {
    const Status opened = state->Open(address);
    port = opened.ok() ? state->Port() : StatusOr<uint16_t>(opened);
    if (!port.ok()) state->Close();
  });
  QUIRE_RETURN_IF_ERROR(Annotate(port.status(), address.WithPort(0)));
  return std::unique_ptr<UcxListener>(
      new UcxListener(std::move(worker), std::move(state), address.WithPort(*port)));
}

UcxListener::UcxListener(std::shared_ptr<UcxWorker> worker, std::shared_ptr<State> state,
                         std::string address)
    : worker_(std::move(worker)), state_(std::move(state)), address_(std::move(address)) {}

UcxListener::~UcxListener() {
  worker_->Run([this] { state_->Close(); });
}

bool UcxAvailable() { return true; }

StatusOr<std::unique_ptr<PipeListener>> ListenUcx(const std::string& address,
                                                  const UcxOptions& options,
                                                  PipeListener::Accept accept) {
  QUIRE_ASSIGN_OR_RETURN(const auto resolved, SocketAddress::Resolve(address));
  QUIRE_ASSIGN_OR_RETURN(auto worker, MakeUcxWorker(resolved, options));
  return UcxListener::Listen(std::move(worker), resolved, options, std::move(accept));
}

StatusOr<std::unique_ptr<FramePipe>> ConnectUcx(const std::string& address,
                                                const UcxOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto resolved, SocketAddress::Resolve(address));
  QUIRE_ASSIGN_OR_RETURN(const auto worker, MakeUcxWorker(resolved, options));
  const auto connection =
      std::make_shared<UcxConnection>(UcxConnection::Role::kClient, worker, options);
  Status connected;
  worker->Run([&] { connected = connection->Connect(resolved); });
  auto pipe = std::make_unique<UcxPipe>(connection);
  if (connected.ok()) connected = connection->WaitUntilOpen(options.connect_timeout);
  if (connected.ok()) return pipe;
  return Annotate(connected, "cannot connect to ", address, OverWhatIsAllowed(options));
}

StatusOr<std::shared_ptr<UcxWorker>> MakeUcxWorker(const SocketAddress& address,
                                                   const UcxOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(auto context, UcxContext::Create(options, address));
  return UcxWorker::Create(std::move(context), options);
}

}  // namespace quire
