// SPDX-License-Identifier: Apache-2.0
//
// IngestHandler: one quire.v1.Worker.Ingest call: header, text, progress, result. A caller that
// leaves or sends nothing for too long ends the call; what was computed stays stored.
//
// Thread-safety: safe for concurrent use. Ownership: engine, tokenizer and calls outlive it.
#ifndef QUIRE_GPUWORKER_SERVICE_INGEST_HANDLER_H_
#define QUIRE_GPUWORKER_SERVICE_INGEST_HANDLER_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include <string>

#include "gpuworker/engine/engine.h"
#include "gpuworker/ingest/document_ingest.h"
#include "gpuworker/text/text_of_model.h"
#include "quire/status.h"
#include "quire/v1/worker.pb.h"
#include "transport/grpc/grpc_calls.h"

namespace quire::worker {

inline constexpr uint64_t kMaxIngestTextBytes = uint64_t{64} << 20;
inline constexpr size_t kMaxReaderBytes = 64;

/// A header in the engine's terms. INVALID_ARGUMENT names the field. The tenant is not checked.
StatusOr<DocumentToIngest> ParseIngest(const v1::IngestHeader& header);

class IngestHandler {
 public:
  using Stream = grpc::ServerReaderWriter<v1::IngestReply, v1::IngestRequest>;

  /// `text` may be without a tokenizer. `tenant` is the one of the engine's client.
  IngestHandler(const Engine* engine, const TextOfModel& text, std::string tenant, GrpcCalls* calls)
      : ingest_(engine, text), tenant_(std::move(tenant)), calls_(calls) {}

  /// Runs an admitted call to its end.
  Status Run(grpc::ServerContext* context, Stream* stream) const;

 private:
  Status Read(grpc::ServerContext* context, Stream* stream, v1::IngestRequest* request) const;
  Status Write(grpc::ServerContext* context, Stream* stream, const v1::IngestReply& reply) const;
  /// Asks for the text and checks it against the header.
  StatusOr<std::string> ReadText(grpc::ServerContext* context, Stream* stream,
                                 const v1::IngestHeader& header) const;
  StatusOr<std::vector<IngestedDocument>> Store(grpc::ServerContext* context, Stream* stream,
                                                const v1::IngestHeader& header,
                                                const DocumentToIngest& what) const;

  const DocumentIngest ingest_;
  const std::string tenant_;
  GrpcCalls* const calls_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_SERVICE_INGEST_HANDLER_H_
