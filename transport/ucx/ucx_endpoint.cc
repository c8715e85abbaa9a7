// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_endpoint.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/ucx/ucx_status.h"

namespace quire {

/// Lives until UCX has closed the endpoint, possibly longer than the UcxEndpoint.
struct UcxEndpoint::State : std::enable_shared_from_this<State> {
  std::shared_ptr<UcxWorker> worker;
  OnError on_error;
  bool peer_mode = true;
  ucp_ep_h handle = nullptr;
  bool failed = false;
  bool closing = false;
  void* close = nullptr;  ///< Request of the close in progress.
  std::vector<std::shared_ptr<const void>> kept;

  void Fail(ucs_status_t status) {
    if (failed) return;
    failed = true;
    // Moved out, because the callback may drop the endpoint.
    const OnError notify = std::move(on_error);
    on_error = nullptr;
    if (notify) notify(Unavailable("the UCX peer is gone: ", ucs_status_string(status)));
  }

  /// Flushes; then closes.
  void Shut() {
    on_error = nullptr;
    if (failed) return CloseNow();
    worker->After(kUcxLinger, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->CloseNow();
    });
    worker->operations().Begin(
        [self = shared_from_this()](ucs_status_t) { self->CloseNow(); },
        [this](ucp_request_param_t* param) { return ucp_ep_flush_nbx(handle, param); });
  }

  void CloseNow() {
    if (closing) return;
    closing = true;
    // Posted, because UCX cannot close the endpoint inside a callback of its flush.
    worker->Post([self = shared_from_this()] {
      const auto start = [&](ucp_request_param_t* param) {
        if (self->peer_mode || self->failed) {
          param->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
          param->flags = UCP_EP_CLOSE_FLAG_FORCE;
        }
        return ucp_ep_close_nbx(self->handle, param);
      };
      const auto closed = [self](ucs_status_t) {
        self->close = nullptr;
        self->Release();
      };
      self->close = self->worker->operations().Begin(closed, start);
    });
    // Frees the worker from a peer that does not answer.
    worker->After(kUcxLinger, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Release();
    });
  }

  void Release() {
    kept.clear();
    if (close != nullptr) UcxOperations::Forget(std::exchange(close, nullptr));
    // The last reference may end the worker, which must not happen inside its own callback.
    if (worker == nullptr) return;
    UcxWorker* const raw = worker.get();
    raw->Post([last = std::move(worker)] {});
  }
};

UcxEndpoint::UcxEndpoint(std::shared_ptr<State> state) : state_(std::move(state)) {}
UcxEndpoint::~UcxEndpoint() { state_->Shut(); }

StatusOr<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Create(std::shared_ptr<UcxWorker> worker,
                                                           ucp_ep_params_t params,
                                                           const UcxOptions& options,
                                                           OnError on_error) {
  auto state = std::make_shared<State>();
  state->worker = std::move(worker);
  state->on_error = std::move(on_error);
  state->peer_mode = options.peer_failure_detection;
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.err_mode = state->peer_mode ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t status) {
    const std::shared_ptr<State> self = static_cast<State*>(arg)->shared_from_this();
    self->Fail(status);
  };
  params.err_handler.arg = state.get();
  QUIRE_RETURN_IF_ERROR(UcxToStatus(ucp_ep_create(state->worker->handle(), &params, &state->handle),
                                    "make a UCX endpoint"));
  return std::unique_ptr<UcxEndpoint>(new UcxEndpoint(std::move(state)));
}

StatusOr<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Connect(std::shared_ptr<UcxWorker> worker,
                                                            const SocketAddress& address,
                                                            const UcxOptions& options,
                                                            OnError on_error) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr = {address.get(), address.size()};
  return Create(std::move(worker), params, options, std::move(on_error));
}

StatusOr<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Accept(std::shared_ptr<UcxWorker> worker,
                                                           ucp_conn_request_h request,
                                                           const UcxOptions& options,
                                                           OnError on_error) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  return Create(std::move(worker), params, options, std::move(on_error));
}

ucp_ep_h UcxEndpoint::handle() const { return state_->handle; }

bool UcxEndpoint::WritesRemoteMemory() const {
  // Before 1.14 UCX describes lanes only in text for people. A lane that supports puts has a line
  // of thresholds for them, "put[1]: 0..<short>..(inf)". A text without one means messages.
  char* text = nullptr;
  size_t size = 0;
  FILE* const stream = open_memstream(&text, &size);
  if (stream == nullptr) return false;
  ucp_ep_print_info(handle(), stream);
  std::fclose(stream);
  const bool writes = std::string_view(text, size).find(" put[") != std::string_view::npos;
  std::free(text);
  return writes;
}

void UcxEndpoint::KeepUntilClosed(std::shared_ptr<const void> object) {
  state_->kept.push_back(std::move(object));
}

void UcxEndpoint::Send(std::span<const std::byte> header, std::span<const ucp_dt_iov_t> data,
                       bool is_hello, UcxDone done) {
  state_->worker->operations().Begin(std::move(done), [&](ucp_request_param_t* param) {
    if (is_hello) {
      param->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
      param->flags = UCP_AM_SEND_FLAG_REPLY;
    }
    if (data.size() > 1) {
      param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
      param->datatype = ucp_dt_make_iov();
      return ucp_am_send_nbx(state_->handle, kUcxMessageId, header.data(), header.size(),
                             data.data(), data.size(), param);
    }
    const ucp_dt_iov_t only = data.empty() ? ucp_dt_iov_t{} : data.front();
    return ucp_am_send_nbx(state_->handle, kUcxMessageId, header.data(), header.size(), only.buffer,
                           only.length, param);
  });
}

void UcxEndpoint::Put(std::span<const std::byte> bytes, uint64_t address, ucp_rkey_h key,
                      UcxDone done) {
  state_->worker->operations().Begin(std::move(done), [&](ucp_request_param_t* param) {
    return ucp_put_nbx(state_->handle, bytes.data(), bytes.size(), address, key, param);
  });
}

void UcxEndpoint::Flush(UcxDone done) {
  state_->worker->operations().Begin(std::move(done), [&](ucp_request_param_t* param) {
    return ucp_ep_flush_nbx(state_->handle, param);
  });
}

}  // namespace quire
