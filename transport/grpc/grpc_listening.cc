// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_listening.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "transport/grpc/grpc_channel.h"

namespace quire {

StatusOr<std::unique_ptr<GrpcListening>> GrpcListening::Claim(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(NetAddress asked, NetAddress::ParseListen(address));
  UnixSocketClaim claim;
  if (asked.is_unix()) {
    QUIRE_ASSIGN_OR_RETURN(claim, UnixSocketClaim::Take(asked.path()));
  }
  return std::unique_ptr<GrpcListening>(new GrpcListening(std::move(asked), std::move(claim)));
}

void GrpcListening::AddTo(grpc::ServerBuilder* builder) {
  // Refuses a second server on one port, which would otherwise share its connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  const std::string where = asked_.is_unix() ? GrpcTarget(asked_) : asked_.Text();
  builder->AddListeningPort(where, grpc::InsecureServerCredentials(), &port_);
}

Status GrpcListening::CannotListen() const {
  if (asked_.is_unix()) {
    return Unavailable("cannot listen on ", asked_.Text(),
                       ": its directory is missing or not writable; choose another path");
  }
  return Unavailable("cannot listen on ", asked_.Text(),
                     ": the port is taken or the address is not this machine's; choose another "
                     "one, or port 0 for any that is free");
}

}  // namespace quire
