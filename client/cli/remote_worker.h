// SPDX-License-Identifier: Apache-2.0
//
// AskWorker: one quire.v1.Worker.Generate call to a worker in another process.
#ifndef QUIRE_CLIENT_CLI_REMOTE_WORKER_H_
#define QUIRE_CLIENT_CLI_REMOTE_WORKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/page/key.h"
#include "quire/v1/worker.pb.h"

namespace quire::cli {

struct WorkerAnswer {
  std::string text;
  std::vector<TokenId> tokens;
  uint64_t prompt_tokens = 0;
  uint64_t bytes_moved = 0;
};

/// Errors: the worker's own; UNAVAILABLE naming the address when it cannot be reached;
/// DEADLINE_EXCEEDED after `timeout`; DATA_LOSS when the stream ends without its totals.
StatusOr<WorkerAnswer> AskWorker(const std::string& address, const v1::GenerateRequest& request,
                                 Duration timeout);

}  // namespace quire::cli

#endif  // QUIRE_CLIENT_CLI_REMOTE_WORKER_H_
