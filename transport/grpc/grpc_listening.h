// SPDX-License-Identifier: Apache-2.0
//
// GrpcListening: the listening address of a gRPC server, claimed for it alone. It stands in for two
// habits of gRPC: completing partial addresses, and replacing a Unix socket that another server
// listens on.
// Ownership: outlives the server. Thread-safety: none.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_LISTENING_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_LISTENING_H_

#include <memory>
#include <string>

#include "common/base/net_address.h"
#include "common/base/status.h"
#include "transport/net/unix_socket_path.h"

namespace grpc {
class ServerBuilder;
}

namespace quire {

class GrpcListening {
 public:
  /// Errors: those of NetAddress::ParseListen and UnixSocketClaim::Take.
  static StatusOr<std::unique_ptr<GrpcListening>> Claim(const std::string& address);

  /// Makes the server listen here, without TLS. The port is known once the server is built.
  void AddTo(grpc::ServerBuilder* builder);
  /// The error for a server that could not be built: UNAVAILABLE, naming the address and the
  /// remedy.
  Status CannotListen() const;

  /// The address asked for, with the actual port.
  std::string address() const { return asked_.WithPort(static_cast<uint16_t>(port_)).Text(); }
  int port() const { return asked_.is_unix() ? 0 : port_; }

 private:
  GrpcListening(NetAddress asked, UnixSocketClaim claim)
      : asked_(std::move(asked)), claim_(std::move(claim)) {}

  const NetAddress asked_;
  const UnixSocketClaim claim_;
  int port_ = 0;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_LISTENING_H_
