// SPDX-License-Identifier: Apache-2.0
//
// UcxContext: a UCX context with the settings of ucx_settings.h. Ownership: outlives its workers.
// Thread-safety: the methods may be called from any thread.
#ifndef QUIRE_TRANSPORT_UCX_UCX_CONTEXT_H_
#define QUIRE_TRANSPORT_UCX_UCX_CONTEXT_H_

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>

#include "quire/status.h"
#include "transport/ucx/sockets/socket_address.h"
#include "transport/ucx/ucx.h"

namespace quire {

class UcxContext : public std::enable_shared_from_this<UcxContext> {
 public:
  /// INVALID_ARGUMENT, with its name, for a setting that UCX refuses; UNAVAILABLE when UCX finds no
  /// device. `address`, where the connections go, decides the devices.
  static StatusOr<std::shared_ptr<UcxContext>> Create(const UcxOptions& options,
                                                      const SocketAddress& address);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  ucp_context_h handle() const { return handle_; }
  /// Messages of at least this size must be contiguous.
  uint64_t gather_bytes() const { return gather_bytes_; }
  /// True if the connections go to this host's own address.
  bool is_loopback() const { return is_loopback_; }

 private:
  UcxContext(ucp_context_h handle, uint64_t gather_bytes, bool is_loopback)
      : handle_(handle), gather_bytes_(gather_bytes), is_loopback_(is_loopback) {}

  const ucp_context_h handle_;
  const uint64_t gather_bytes_;
  const bool is_loopback_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_CONTEXT_H_
