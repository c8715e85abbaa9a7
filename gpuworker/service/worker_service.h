// SPDX-License-Identifier: Apache-2.0
//
// WorkerService: quire.v1.Worker over a Batch. Each call is a sequence of its own, so calls do not
// see each other, but they run together. At most `max_calls` are there at a time; further ones get
// RESOURCE_EXHAUSTED. A call whose client is gone, or whose deadline has passed, ends within one
// step. All calls read the store as the tenant of the engine's client; where there are tokens, a
// call has to prove that it is this tenant's.
//
// Thread-safety: safe for concurrent use. Ownership: batch and tokenizer outlive it.
#ifndef QUIRE_GPUWORKER_SERVICE_WORKER_SERVICE_H_
#define QUIRE_GPUWORKER_SERVICE_WORKER_SERVICE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/transport/grpc_auth.h"
#include "gpuworker/engine/batch.h"
#include "gpuworker/model/text_stream.h"
#include "gpuworker/model/tokenizer.h"
#include "gpuworker/service/generate_call.h"
#include "quire/v1/worker.grpc.pb.h"

namespace quire::worker {

class WorkerService final : public v1::Worker::Service {
 public:
  /// `tokenizer` may be null: then calls send token ids and get no text. `defaults` is what goes
  /// for what calls leave out. `tenant` is the one of the engine's client; calls that name another
  /// one get PERMISSION_DENIED. `callers` says who proves to be of the tenant, and outlives it.
  WorkerService(Batch* batch, GenerateDefaults defaults, const Tokenizer* tokenizer,
                uint32_t max_calls, std::string tenant, CallerCheck* callers)
      : batch_(batch),
        defaults_(std::move(defaults)),
        tokenizer_(tokenizer),
        max_calls_(max_calls),
        tenant_(std::move(tenant)),
        callers_(callers) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateReply>* writer) override;

  void VisitMetrics(MetricsVisitor& visit) const;
  /// That are there.
  uint32_t calls() const {
    MutexLock lock(mutex_);
    return calls_;
  }

 private:
  Status Enter();
  void Leave();
  Status CheckTenant(const std::string& tenant) const;
  Status Run(const grpc::ServerContext& context, const v1::GenerateRequest& request,
             grpc::ServerWriter<v1::GenerateReply>* writer) const;
  /// Writes the tokens of `stream` as they come, until its end. `text` is null without a tokenizer.
  Status Forward(const grpc::ServerContext& context, BatchStream& stream, TextStream* text,
                 grpc::ServerWriter<v1::GenerateReply>* writer) const;

  Batch* const batch_;
  const GenerateDefaults defaults_;
  const Tokenizer* const tokenizer_;
  const uint32_t max_calls_;
  const std::string tenant_;
  CallerCheck* const callers_;
  Counter calls_refused_;
  Counter calls_failed_;
  mutable Mutex mutex_;
  uint64_t calls_taken_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint32_t calls_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_SERVICE_WORKER_SERVICE_H_
