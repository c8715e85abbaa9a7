// SPDX-License-Identifier: Apache-2.0
//
// AskWorker: one quire.v1.Worker.Generate call to a worker in another process.
#ifndef QUIRE_APPS_KIT_REMOTE_WORKER_H_
#define QUIRE_APPS_KIT_REMOTE_WORKER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/page/key.h"
#include "gpuworker/engine/sequence.h"
#include "quire/v1/worker.pb.h"
#include "transport/auth/bearer_token.h"

namespace quire::cli {

struct WorkerAnswer {
  std::vector<TokenId> tokens;
  uint64_t prompt_tokens = 0;
  worker::MovedBytes moved;
  double budget_ratio = 0;
  std::string policy;  ///< That the worker used.
  uint64_t units_recalled = 0;
  uint64_t units_landed = 0;     ///< Of those, written into the worker's memory by the server.
  uint64_t units_from_host = 0;  ///< Kept by the worker, and not fetched.
};

struct AskWorkerOptions {
  Duration timeout = std::chrono::seconds(60);  ///< Of everything, waits and retries included.
  Duration unreachable_for = Duration::max();   ///< As RetryOptions::unreachable_for.
  BearerToken token = {};  ///< Of the worker's tenant, for a worker that asks for proof.
  /// Called with each token and the text that it completes (empty without a tokenizer) as it comes,
  /// and at the end without a token where there is text left.
  std::function<void(std::optional<TokenId>, const std::string& text)> on_token = {};
  Clock* clock = nullptr;  ///< SystemClock() when null.
};

/// A worker that has no room for another call, that cannot be reached or that cannot reach its
/// store is asked again, with growing waits, as long as the options allow. A call that has answered
/// with a token is not repeated. Errors: the worker's own; UNAVAILABLE naming the address when it
/// cannot be reached, or with its words when it answers that its store cannot; DEADLINE_EXCEEDED
/// after the timeout; INTERNAL at once for a reply that cannot be parsed; DATA_LOSS when the stream
/// ends without its totals; INVALID_ARGUMENT for text in `request` that is not UTF-8.
StatusOr<WorkerAnswer> AskWorker(const std::string& address, const v1::GenerateRequest& request,
                                 const AskWorkerOptions& options);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_REMOTE_WORKER_H_
