// SPDX-License-Identifier: Apache-2.0
//
// WorkerService: quire.v1.Worker over a Batch and a ReuseQueue. Each Generate call is a sequence of
// its own, so calls do not see each other, but they run together. Calls over several documents go
// to the queue, the others to the batch. Ingest calls run on their own threads beside
// them. As many are there at a time as GrpcCalls admits; further ones get RESOURCE_EXHAUSTED. A
// call whose client is gone, takes nothing of its answer for too long, or whose deadline has
// passed, ends within one step. All calls read the store as the tenant of the engine's client. With
// tokens, a call must prove that it is from that tenant.
//
// Thread-safety: safe for concurrent use. Ownership: batch, queue, engine and tokenizer outlive it.
#ifndef QUIRE_GPUWORKER_SERVICE_WORKER_SERVICE_H_
#define QUIRE_GPUWORKER_SERVICE_WORKER_SERVICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/observe/counters.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/base/trace/tracer.h"
#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/engine/reuse/reuse_queue.h"
#include "gpuworker/service/generate_call.h"
#include "gpuworker/service/ingest_handler.h"
#include "gpuworker/text/text_stream.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/status.h"
#include "quire/v1/worker.grpc.pb.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_calls.h"

namespace quire::worker {

class WorkerService final : public grpc::Service {
 public:
  /// Without a tokenizer in `text`, calls send token ids and get no text. `defaults` is what goes
  /// for what calls leave out. `tenant` is the one of the engine's client; calls that name another
  /// one get PERMISSION_DENIED. `callers` says who proves to be of the tenant, `calls` how many may
  /// be there; both outlive it. `health` is told by the engine's client of whether the store can be
  /// reached; it may be null, and outlives the service. `tracer` traces calls, and may be null,
  /// too.
  WorkerService(Batch* batch, ReuseQueue* reuse, const Engine* engine, GenerateDefaults defaults,
                const TextOfModel& text, std::string tenant, CallerCheck* callers, GrpcCalls* calls,
                Health* health, const Tracer* tracer);

  /// quire.v1.Worker/Generate
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateReply>* writer);
  /// quire.v1.Worker/Ingest
  grpc::Status Ingest(grpc::ServerContext* context, IngestHandler::Stream* stream);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// Runs an admitted call of the method at `path`, counts it and ends it.
  grpc::Status Serve(grpc::ServerContext* context, std::string_view path,
                     const std::function<Status()>& run);
  Status Admitted(grpc::ServerContext* context, const std::function<Status()>& run);
  /// The reason why there is no answer, for a caller whose time is nearly over. OK while there is
  /// time, and where no reason is known.
  Status LastWord(const grpc::ServerContext& context) const;
  Status Run(grpc::ServerContext* context, const v1::GenerateRequest& request,
             grpc::ServerWriter<v1::GenerateReply>* writer) const;
  /// A call over one document, or none.
  Status RunInBatch(grpc::ServerContext* context, GenerateCall call,
                    grpc::ServerWriter<v1::GenerateReply>* writer) const;
  Status RunOverDocuments(grpc::ServerContext* context, GenerateCall call,
                          grpc::ServerWriter<v1::GenerateReply>* writer) const;
  /// Writes the answer of `stream` as it comes, and the message that `totals` makes at its end. A
  /// failure cancels the stream.
  Status Answer(grpc::ServerContext* context, BatchStream& stream,
                const std::function<v1::GenerateReply()>& totals,
                grpc::ServerWriter<v1::GenerateReply>* writer) const;
  /// Writes the tokens of `stream` as they come, until its end. `text` is null without a tokenizer.
  Status Forward(grpc::ServerContext* context, BatchStream& stream, TextStream* text,
                 grpc::ServerWriter<v1::GenerateReply>* writer) const;
  /// Sends a message whose text has been checked; waits until the client has room for it.
  Status Write(grpc::ServerContext* context, const v1::GenerateReply& reply,
               grpc::ServerWriter<v1::GenerateReply>* writer) const;

  Batch* const batch_;
  ReuseQueue* const reuse_;
  const IngestHandler ingest_;
  const GenerateDefaults defaults_;
  const TextOfModel text_;
  const std::string tenant_;
  CallerCheck* const callers_;
  GrpcCalls* const calls_;
  Health* const health_;
  const Tracer* const tracer_;  ///< May be null.
  Counter calls_taken_, calls_failed_, calls_running_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_SERVICE_WORKER_SERVICE_H_
