// SPDX-License-Identifier: Apache-2.0
//
// AskWorker: one quire.v1.Worker.Generate call to a worker in another process.
#ifndef QUIRE_APPS_KIT_WORKER_REMOTE_WORKER_H_
#define QUIRE_APPS_KIT_WORKER_REMOTE_WORKER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpuworker/engine/sequence.h"
#include "quire/bearer_token.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/status.h"
#include "quire/v1/worker.pb.h"

namespace quire::cli {

struct WorkerAnswer {
  std::vector<TokenId> tokens;
  uint64_t prompt_tokens = 0;
  worker::MovedBytes moved;
  double budget_ratio = 0;
  std::string policy;  ///< Policy that the worker used.
  uint64_t units_recalled = 0;
  uint64_t units_landed = 0;     ///< Recalled units that the server wrote into the worker's memory.
  uint64_t units_from_host = 0;  ///< Kept by the worker, and not fetched.
  v1::DocumentsTotals documents;  ///< Totals of a question over several documents.
};

struct AskWorkerOptions {
  Duration timeout =
      std::chrono::seconds(60);                ///< Limit of everything, waits and retries included.
  Duration unreachable_for = Duration::max();  ///< As RetryOptions::unreachable_for.
  BearerToken token = {};  ///< Proof of the tenant, for a worker that asks for it.
  /// Called with each token and the text that it completes, which is empty without a tokenizer.
  /// Called at the end without a token if text is left.
  std::function<void(std::optional<TokenId>, const std::string& text)> on_token = {};
  Clock* clock = nullptr;  ///< SystemClock() when null.
};

/// Asks a worker. It retries, with growing waits, while the worker is full or cannot be reached, or
/// cannot reach its store. A call that has answered with a token is not repeated.
/// Errors are the worker's own, and
///   UNAVAILABLE        the worker (named by its address) or its store cannot be reached
///   DEADLINE_EXCEEDED  the timeout has passed
///   INTERNAL           a reply cannot be parsed
///   DATA_LOSS          the stream ended without its totals
///   INVALID_ARGUMENT   text in `request` is not UTF-8
StatusOr<WorkerAnswer> AskWorker(const std::string& address, const v1::GenerateRequest& request,
                                 const AskWorkerOptions& options);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_WORKER_REMOTE_WORKER_H_
