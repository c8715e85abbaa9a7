// SPDX-License-Identifier: Apache-2.0
//
// UcxListener: the server end of UCX pipes, on a given worker that may serve several of them.
// ListenUcx and ConnectUcx (ucx.h) make a worker for each end.
// Thread-safety: all methods from any thread.
#ifndef QUIRE_TRANSPORT_UCX_UCX_LISTENER_H_
#define QUIRE_TRANSPORT_UCX_UCX_LISTENER_H_

#include <memory>
#include <string>
#include <string_view>

#include "transport/frame_pipe.h"
#include "transport/ucx/sockets/socket_address.h"
#include "transport/ucx/ucx.h"
#include "transport/ucx/ucx_worker.h"

namespace quire {

class UcxListener final : public PipeListener {
 public:
  /// `worker` serves the pipes, and no other listener.
  static StatusOr<std::unique_ptr<UcxListener>> Listen(std::shared_ptr<UcxWorker> worker,
                                                       const SocketAddress& address,
                                                       const UcxOptions& options, Accept accept);
  ~UcxListener() override;

  std::string_view kind() const override { return "ucx"; }
  std::string address() const override { return address_; }

 private:
  struct State;
  UcxListener(std::shared_ptr<UcxWorker> worker, std::shared_ptr<State> state, std::string address);

  const std::shared_ptr<UcxWorker> worker_;
  const std::shared_ptr<State> state_;
  const std::string address_;
};

/// Makes a worker with a context of its own, for connections to or from `address`.
StatusOr<std::shared_ptr<UcxWorker>> MakeUcxWorker(const SocketAddress& address,
                                                   const UcxOptions& options);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_LISTENER_H_
