// SPDX-License-Identifier: Apache-2.0
#include "client/connect.h"

#include <utility>

#include "transport/grpc/grpc_transport.h"

namespace quire {

StatusOr<std::shared_ptr<Transport>> ConnectGrpc(const std::string& address,
                                                 const ConnectOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<GrpcTransport> transport,
                         GrpcTransport::Create({.address = address,
                                                .max_message_bytes = options.max_message_bytes,
                                                .token = options.token}));
  return std::shared_ptr<Transport>(std::move(transport));
}

}  // namespace quire
