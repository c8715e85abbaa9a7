// SPDX-License-Identifier: Apache-2.0
//
// UcxEndpoint: one end of a UCX connection. Thread-safety: for its worker's thread only.
#ifndef QUIRE_TRANSPORT_UCX_UCX_ENDPOINT_H_
#define QUIRE_TRANSPORT_UCX_UCX_ENDPOINT_H_

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "quire/clock.h"
#include "quire/status.h"
#include "transport/ucx/sockets/socket_address.h"
#include "transport/ucx/ucx_operation.h"
#include "transport/ucx/ucx_worker.h"

namespace quire {

/// How long closing waits for data in flight.
inline constexpr Duration kUcxLinger = std::chrono::seconds(1);

class UcxEndpoint {
 public:
  /// Called once when the connection failed or the peer went away. UCX is on the stack, so the
  /// callback must not close the endpoint itself.
  using OnError = std::function<void(const Status&)>;

  static StatusOr<std::unique_ptr<UcxEndpoint>> Connect(std::shared_ptr<UcxWorker> worker,
                                                        const SocketAddress& address,
                                                        const UcxOptions& options,
                                                        OnError on_error);
  static StatusOr<std::unique_ptr<UcxEndpoint>> Accept(std::shared_ptr<UcxWorker> worker,
                                                       ucp_conn_request_h request,
                                                       const UcxOptions& options, OnError on_error);
  /// Closes the endpoint. Sent data goes out first, as far as the peer takes it within a second.
  /// The remaining operations end with an error.
  ~UcxEndpoint();
  UcxEndpoint(const UcxEndpoint&) = delete;
  UcxEndpoint& operator=(const UcxEndpoint&) = delete;

  ucp_ep_h handle() const;
  /// True if a lane writes remote memory natively; for other lanes UCX emulates writes by messages.
  /// Final once a message of the peer has arrived.
  bool WritesRemoteMemory() const;
  /// Keeps `object` until the endpoint is closed.
  void KeepUntilClosed(std::shared_ptr<const void> object);

  /// Sends a message: a header and the pieces in `data`, all of which must stay valid until `done`.
  /// A hello tells the receiver which of its endpoints carried it.
  void Send(std::span<const std::byte> header, std::span<const ucp_dt_iov_t> data, bool is_hello,
            UcxDone done);
  /// Writes into the peer's memory. The bytes have arrived when a later Flush is done.
  void Put(std::span<const std::byte> bytes, uint64_t address, ucp_rkey_h key, UcxDone done);
  void Flush(UcxDone done);

 private:
  struct State;
  explicit UcxEndpoint(std::shared_ptr<State> state);
  static StatusOr<std::unique_ptr<UcxEndpoint>> Create(std::shared_ptr<UcxWorker> worker,
                                                       ucp_ep_params_t params,
                                                       const UcxOptions& options, OnError on_error);

  const std::shared_ptr<State> state_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_ENDPOINT_H_
