// SPDX-License-Identifier: Apache-2.0
//
// SocketAddress: an IP address and a port. Thread-safety: a value type.
#ifndef QUIRE_TRANSPORT_UCX_SOCKETS_SOCKET_ADDRESS_H_
#define QUIRE_TRANSPORT_UCX_SOCKETS_SOCKET_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/net_address.h"
#include "quire/status.h"

namespace quire {

class SocketAddress {
 public:
  /// Resolves the first address of "host:port" or "[v6]:port". INVALID_ARGUMENT for any other form
  /// (NetAddress), NOT_FOUND for a host without an address.
  static StatusOr<SocketAddress> Resolve(const std::string& text);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }
  bool IsLoopback() const;
  /// The host as written, with another port.
  std::string WithPort(uint16_t port) const;

 private:
  explicit SocketAddress(NetAddress written) : written_(std::move(written)) {}

  sockaddr_storage storage_ = {};
  socklen_t size_ = 0;
  NetAddress written_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_SOCKETS_SOCKET_ADDRESS_H_
