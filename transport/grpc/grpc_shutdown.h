// SPDX-License-Identifier: Apache-2.0
//
// The end of a gRPC server. gRPC itself waits for every connection, also for one that has said
// nothing yet, as long as it is given; here only calls are waited for.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_SHUTDOWN_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_SHUTDOWN_H_

#include <functional>

#include "quire/clock.h"

namespace grpc {
class Server;
}

namespace quire {

/// Takes no more calls, waits until `idle` says that none runs, for at most `grace`, cancels those
/// that still do and closes every connection; returns when all handlers have. `idle` may be called
/// from another thread, until this returns.
void ShutDownGrpc(grpc::Server& server, Duration grace, const std::function<bool()>& idle);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_SHUTDOWN_H_
