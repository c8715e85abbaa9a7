// SPDX-License-Identifier: Apache-2.0
//
// GrpcPipeMethod: the server end of gRPC pipes, a method that hands each stream to Options::accept.
// A stream holds one of gRPC's threads until its pipe is closed or the client disconnects. Their
// number is therefore bounded; one more is refused with RESOURCE_EXHAUSTED. A stream that does not
// prove its tenant does not count.
// Ownership: outlives the server that the method belongs to. Thread-safety: as gRPC calls it.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_PIPE_METHOD_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_PIPE_METHOD_H_

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/base/observe/health.h"
#include "common/base/threads/mutex.h"
#include "transport/frame_pipe.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_calls.h"

namespace quire {

class GrpcPipeMethod {
 public:
  struct Options {
    PipeListener::Accept accept;
    CallerCheck* callers = nullptr;  ///< Outlives the method.
    GrpcCalls* calls = nullptr;
    Health* health = nullptr;        ///< Receives refused streams; may be null.
    uint64_t max_message_bytes = 0;  ///< As in GrpcPipeOptions.
    int max_streams = 0;             ///< Most streams at a time; at most four of one channel.
  };
  explicit GrpcPipeMethod(Options options) : options_(std::move(options)) {}

  /// A method for grpc::Service::AddMethod, which takes ownership.
  grpc::internal::RpcServiceMethod* New();

 private:
  using Stream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  grpc::Status Serve(grpc::ServerContext* context, Stream* stream);
  Status Take(grpc::ServerContext* context, Stream* stream);
  /// Counts a stream of the channel at `peer`; RESOURCE_EXHAUSTED with a retry hint at the limit.
  Status Begin(const std::string& peer) QUIRE_EXCLUDES(mutex_);
  void End(const std::string& peer) QUIRE_EXCLUDES(mutex_);
  void Run(grpc::ServerContext* context, Stream* stream) const;

  const Options options_;
  Mutex mutex_;
  int streams_ QUIRE_GUARDED_BY(mutex_) = 0;
  /// Number of streams by peer.
  std::unordered_map<std::string, int> streams_of_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_PIPE_METHOD_H_
