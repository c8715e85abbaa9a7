// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_shutdown.h"

#include <grpc/grpc.h>
#include <grpcpp/server.h>

#include "common/base/threads/periodic_task.h"
#include "transport/grpc/grpc_convert.h"

namespace quire {
namespace {

constexpr Duration kLookForIdleAfter = std::chrono::milliseconds(20);

}  // namespace

void ShutDownGrpc(grpc::Server& server, Duration grace, const std::function<bool()>& idle) {
  // Requires idleness twice in a row, because a call that has just arrived may not show yet.
  bool was_idle = false;
  const PeriodicTask closer(kLookForIdleAfter, [&] {
    const bool is_idle = idle();
    if (is_idle && was_idle) grpc_server_cancel_all_calls(server.c_server());
    was_idle = is_idle;
  });
  server.Shutdown(DeadlineAfter(grace));
  server.Wait();
}

}  // namespace quire
