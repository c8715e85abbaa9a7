// SPDX-License-Identifier: Apache-2.0
//
// UcxContext: UCX, configured by UcxOptions. Ownership: outlives its workers. Thread-safety:
// the methods may be called from any thread.
#ifndef QUIRE_COMMON_TRANSPORT_UCX_CONTEXT_H_
#define QUIRE_COMMON_TRANSPORT_UCX_CONTEXT_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/transport/socket_address.h"
#include "common/transport/ucx.h"

namespace quire {

class UcxContext : public std::enable_shared_from_this<UcxContext> {
 public:
  /// INVALID_ARGUMENT, with its name, for a setting that UCX refuses; UNAVAILABLE when it finds no
  /// device for them. `address` is where the connections will go, which decides the devices.
  static StatusOr<std::shared_ptr<UcxContext>> Create(const UcxOptions& options,
                                                      const SocketAddress& address);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  ucp_context_h handle() const { return handle_; }
  /// Whether landings may be in the memory of CUDA devices.
  bool supports_cuda() const { return supports_cuda_; }

 private:
  explicit UcxContext(ucp_context_h handle);

  const ucp_context_h handle_;
  bool supports_cuda_ = false;
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_CONTEXT_H_
