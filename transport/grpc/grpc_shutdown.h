// SPDX-License-Identifier: Apache-2.0
//
// Shutdown of a gRPC server. gRPC itself waits for every connection, even a silent one, for as long
// as it is allowed to. This one waits for calls only.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_SHUTDOWN_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_SHUTDOWN_H_

#include <functional>

#include "common/base/clock.h"

namespace grpc {
class Server;
}

namespace quire {

/// Takes no more calls and waits until `idle` reports that none runs, for at most `grace`. Then
/// cancels the running ones, closes every connection, and returns when all handlers have. `idle`
/// may be called from another thread until this returns.
void ShutDownGrpc(grpc::Server& server, Duration grace, const std::function<bool()>& idle);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_SHUTDOWN_H_
