// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_pipe_method.h"

#include <grpcpp/support/method_handler.h>

#include <chrono>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/retry_hint.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"
#include "transport/grpc/grpc_pipe.h"
#include "transport/grpc/grpc_stream.h"
#include "transport/net/local_sockets.h"

namespace quire {
namespace {

constexpr Duration kRetryStreamAfter = std::chrono::seconds(1);
/// Most streams of one channel. An honest client has a channel for each.
constexpr int kMostOfPeer = 4;

class ServerPipe final : public FramePipe {
 public:
  ServerPipe(std::shared_ptr<GrpcStream> frames, uint64_t max_frame_bytes, std::string peer)
      : frames_(std::move(frames)), max_frame_bytes_(max_frame_bytes), peer_(std::move(peer)) {}
  ~ServerPipe() override { frames_->Close(); }

  PipeCapabilities capabilities() const override {
    return {.name = "grpc", .max_frame_bytes = max_frame_bytes_, .detail = peer_};
  }
  void Start(FrameReceiver* receiver) override { frames_->Start(receiver); }
  Status Send(Frame frame) override { return frames_->Send(std::move(frame)); }
  void Close() override { frames_->Close(); }

 private:
  const std::shared_ptr<GrpcStream> frames_;
  const uint64_t max_frame_bytes_;
  const std::string peer_;
};

/// Ends pending operations on the stream. Returns why the client is gone.
Status Finish(grpc::ServerContext* context) {
  const bool cancelled = context->IsCancelled();
  context->TryCancel();
  return Unavailable("the client at ", context->peer(),
                     cancelled ? " is gone" : " closed the connection");
}

}  // namespace

grpc::internal::RpcServiceMethod* GrpcPipeMethod::New() {
  using Handler = grpc::internal::TemplatedBidiStreamingHandler<Stream, /*WriteNeeded=*/false>;
  auto serve = [this](grpc::ServerContext* context, Stream* stream) {
    return Serve(context, stream);
  };
  return new grpc::internal::RpcServiceMethod(
      kGrpcPipePath, grpc::internal::RpcMethod::BIDI_STREAMING,
      options_.calls->Count(std::make_unique<Handler>(serve)).release());
}

grpc::Status GrpcPipeMethod::Serve(grpc::ServerContext* context, Stream* stream) {
  const Status served = Take(context, stream);
  if (!served.ok()) options_.calls->Answering(context, 0);
  return EndCall(served, context);
}

Status GrpcPipeMethod::Take(grpc::ServerContext* context, Stream* stream) {
  QUIRE_RETURN_IF_ERROR(options_.callers->Check(*context, TenantOf(*context)));
  const std::string peer = context->peer();
  if (Status begun = Begin(peer); !begun.ok()) {
    NoteTo(options_.health, Trouble::kCallRefused, Message(begun));
    return begun;
  }
  Run(context, stream);
  End(peer);
  return OkStatus();
}

Status GrpcPipeMethod::Begin(const std::string& peer) {
  MutexLock lock(mutex_);
  if (streams_ >= options_.max_streams) {
    return WithRetryAfter(ResourceExhausted("the server has ", streams_,
                                            " gRPC streams open and takes no more; close one, or "
                                            "raise the server's limit"),
                          kRetryStreamAfter);
  }
  int& of_peer = streams_of_[peer];
  if (of_peer >= kMostOfPeer) {
    return WithRetryAfter(
        ResourceExhausted("the channel from ", peer, " has ", of_peer,
                          " gRPC streams open, which is the limit; close one, or use another"),
        kRetryStreamAfter);
  }
  ++of_peer;
  ++streams_;
  return OkStatus();
}

void GrpcPipeMethod::End(const std::string& peer) {
  MutexLock lock(mutex_);
  --streams_;
  const auto of_peer = streams_of_.find(peer);
  if (--of_peer->second == 0) streams_of_.erase(of_peer);
}

void GrpcPipeMethod::Run(grpc::ServerContext* context, Stream* stream) const {
  const uint64_t max_frame_bytes = GrpcFrameBytes(options_.max_message_bytes);
  DoNotPaceLocalConnectionsTo(PortOf(context->peer()));
  const auto frames = std::make_shared<GrpcStream>(
      GrpcStream::Ends{.reader = stream,
                       .writer = stream,
                       .cancel = [context] { context->TryCancel(); },
                       .finish = [context] { return Finish(context); }},
      max_frame_bytes);
  options_.accept(std::make_unique<ServerPipe>(frames, max_frame_bytes, context->peer()));
  frames->Run();
}

}  // namespace quire
