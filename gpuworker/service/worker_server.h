// SPDX-License-Identifier: Apache-2.0
//
// WorkerServer: answers quire.v1.Worker from an Engine. One batch on its own thread runs all
// sequences. It also serves the standard health service, and reflection where callers need no
// proof. Thread-safety: Shutdown and the accessors may be called from any thread. Ownership: engine
// and tokenizer outlive it.
#ifndef QUIRE_GPUWORKER_SERVICE_WORKER_SERVER_H_
#define QUIRE_GPUWORKER_SERVICE_WORKER_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "common/base/observe/health.h"
#include "common/base/trace/tracer.h"
#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/engine/reuse/reuse_queue.h"
#include "gpuworker/service/worker_service.h"
#include "gpuworker/text/chat/chat_template.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/auth/tenant_tokens.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_calls.h"
#include "transport/grpc/grpc_listening.h"

namespace grpc {
class Server;
}

namespace quire::worker {

class WorkerServer {
 public:
  struct Options {
    /// "host:port" (port 0 takes a free one) or "unix:/path".
    std::string address = "127.0.0.1:0";
    uint32_t max_calls = 8;  ///< Calls that are there at a time, 1 to 1024.
    /// How long a client may take nothing of an answer.
    Duration stall_timeout = std::chrono::seconds(10);
    BatchLimits batch = {};  ///< As many calls as there are may wait.
    uint32_t max_reuse = 1;  ///< Calls over several documents that are computed at a time, 1 to 64.
    /// Most variants of a document that such calls keep, where they name no number.
    uint32_t variants = 0;
    /// Times that such a call may be passed over by others (ReuseLimits::window).
    uint32_t reuse_window = 0;
    const Tokenizer* tokenizer = nullptr;  ///< Null: token ids only.
    const ChatTemplate* chat = nullptr;    ///< Null: text is read as it is.
    std::string tenant = "default";        ///< Tenant of the engine's client.
    /// Tokens of `tenant` in this table admit a call; null: every caller is admitted.
    std::shared_ptr<const TenantTokens> tokens = nullptr;
    /// Told of refused calls, and by the engine's client of whether the store can be reached; may
    /// be null, and outlives the server.
    Health* health = nullptr;
    const Tracer* tracer = nullptr;  ///< Traces calls; null: none. Outlives the server.
  };
  /// Errors: INVALID_ARGUMENT for options out of range; those of GrpcListening, UNAVAILABLE naming
  /// the address when it cannot be listened on.
  static StatusOr<std::unique_ptr<WorkerServer>> Start(const Options& options,
                                                       const Engine* engine);
  /// Shuts down at once.
  ~WorkerServer();

  /// Where clients connect: the address asked for, with the port that was taken.
  const std::string& address() const { return address_; }
  int port() const { return listening_->port(); }  ///< 0 for a Unix socket.

  /// Takes no more calls, waits up to `grace` for those that run, then cancels them; returns when
  /// all have ended. Idempotent.
  void Shutdown(Duration grace);

  /// Metrics of the batch, the queue and calls, and the version (docs/metrics.md).
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  WorkerServer(const Options& options, GenerateDefaults defaults, const Engine* engine,
               std::unique_ptr<Batch> batch, std::unique_ptr<ReuseQueue> reuse,
               std::unique_ptr<GrpcListening> listening);

  Health* const health_;
  const std::unique_ptr<Batch> batch_;
  const std::unique_ptr<ReuseQueue> reuse_;
  const std::unique_ptr<GrpcListening> listening_;
  CallerCheck callers_;
  GrpcCalls calls_;
  WorkerService service_;
  std::thread running_;  ///< Runs the batch.
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_SERVICE_WORKER_SERVER_H_
