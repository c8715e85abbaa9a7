// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/raw_ucx_sides.h"

#include <netinet/in.h>

#include <utility>

#include "quire/clock.h"
#include "transport/ucx/sockets/socket_address.h"
#include "transport/ucx/sockets/ucx_sockets.h"
#include "transport/ucx/ucx_endpoint.h"
#include "transport/ucx/ucx_status.h"

namespace quire::bench {
namespace {

struct ListenerCloser {
  void operator()(ucp_listener_h listener) const { ucp_listener_destroy(listener); }
};
using Listener = std::unique_ptr<ucp_listener, ListenerCloser>;

StatusOr<RawUcxSide> Open(const UcxOptions& options, const SocketAddress& address) {
  RawUcxSide side;
  QUIRE_ASSIGN_OR_RETURN(side.context, UcxContext::Create(options, address));
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_worker_create(side.context->handle(), &params, &worker),
                                    "make a UCX worker"));
  side.worker.reset(worker);
  return side;
}

/// Connects to the peer in `params`.
Status Connect(RawUcxSide& side, ucp_ep_params_t params, bool peer_mode) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.err_mode = peer_mode ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
  return UcxToStatus(ucp_ep_create(side.worker.get(), &params, &side.endpoint), "connect");
}

/// Tunes as the pipe does.
Status TuneConnections(const RawUcxSide& side) {
  int event_fd = -1;
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_worker_get_efd(side.worker.get(), &event_fd), "wait for a UCX worker"));
  TuneLocalConnections(event_fd);
  return OkStatus();
}

Status ConnectSides(RawUcxSide& sender, RawUcxSide& receiver, const UcxOptions& options,
                    const SocketAddress& any_port) {
  ucp_conn_request_h request = nullptr;
  ucp_listener_params_t listen = {};
  listen.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  listen.sockaddr = {any_port.get(), any_port.size()};
  listen.conn_handler.cb = [](ucp_conn_request_h incoming, void* arg) {
    *static_cast<ucp_conn_request_h*>(arg) = incoming;
  };
  listen.conn_handler.arg = &request;
  ucp_listener_h raw = nullptr;
  QUIRE_RETURN_IF_ERROR(
      UcxToStatus(ucp_listener_create(sender.worker.get(), &listen, &raw), "listen"));
  const Listener listener(raw);
  ucp_listener_attr_t attributes = {};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_listener_query(raw, &attributes), "listen"));

  ucp_ep_params_t connect = {};
  connect.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  connect.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  connect.sockaddr = {reinterpret_cast<const sockaddr*>(&attributes.sockaddr), sizeof(sockaddr_in)};
  QUIRE_RETURN_IF_ERROR(Connect(receiver, connect, options.peer_failure_detection));
  const TimePoint deadline = SystemClock().Now() + options.connect_timeout;
  bool flushed = false;
  const auto progress = [&] {
    sender.Progress();
    receiver.Progress();
    return SystemClock().Now() < deadline;
  };
  while (request == nullptr) {
    if (!progress()) return Unavailable("the two sides do not connect");
  }
  ucp_ep_params_t accept = {};
  accept.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  accept.conn_request = request;
  QUIRE_RETURN_IF_ERROR(Connect(sender, accept, options.peer_failure_detection));
  receiver.operations->Begin(
      [&](ucs_status_t) { flushed = true; },
      [&](ucp_request_param_t* param) { return ucp_ep_flush_nbx(receiver.endpoint, param); });
  // The flush refers to this frame, so it must end; it ends on failure too.
  while (!flushed) progress();
  QUIRE_RETURN_IF_ERROR(TuneConnections(sender));
  return TuneConnections(receiver);
}

}  // namespace

StatusOr<RawUcxSides> RawUcxSides::Connect(const UcxOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto loopback, SocketAddress::Resolve("127.0.0.1:0"));
  RawUcxSides sides;
  QUIRE_ASSIGN_OR_RETURN(sides.sender, Open(options, loopback));
  QUIRE_ASSIGN_OR_RETURN(sides.receiver, Open(options, loopback));
  QUIRE_RETURN_IF_ERROR(ConnectSides(sides.sender, sides.receiver, options, loopback));
  return sides;
}

}  // namespace quire::bench
