// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_pipe.h"

#include <grpcpp/client_context.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/sync_stream.h>

#include <thread>
#include <utility>

#include "common/base/retry_hint.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_channel.h"
#include "transport/grpc/grpc_convert.h"
#include "transport/grpc/grpc_stream.h"
#include "transport/net/local_sockets.h"

namespace quire {
namespace {

using grpc::ByteBuffer;
using ClientStream = grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>;

/// Blocks until the channel is connected.
Status WaitUntilConnected(const GrpcPipeOptions& options, grpc::Channel* channel) {
  const gpr_timespec deadline = DeadlineAfter(options.connect_timeout);
  for (;;) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return OkStatus();
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) {
      return Unavailable("the server at ", options.address, " cannot be reached");
    }
    if (!channel->WaitForStateChange(state, deadline)) {
      return Unavailable("the server at ", options.address, " did not answer within ",
                         std::chrono::duration<double>(options.connect_timeout).count(), " s");
    }
  }
}

/// Starts the call with `context`.
std::unique_ptr<ClientStream> OpenStream(const GrpcPipeOptions& options, grpc::Channel* channel,
                                         grpc::ClientContext* context) {
  context->AddMetadata(kTenantMetadata, options.tenant);
  AddToken(options.token, context);
  return std::unique_ptr<ClientStream>(
      grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
          channel,
          grpc::internal::RpcMethod(kGrpcPipePath, grpc::internal::RpcMethod::BIDI_STREAMING),
          context));
}

class ClientPipe final : public FramePipe {
 public:
  ClientPipe(const GrpcPipeOptions& options, std::shared_ptr<grpc::Channel> channel)
      : max_frame_bytes_(GrpcFrameBytes(options.max_message_bytes)),
        address_(options.address),
        channel_(std::move(channel)),
        stream_(OpenStream(options, channel_.get(), &context_)),
        frames_({.reader = stream_.get(),
                 .writer = stream_.get(),
                 .cancel = [this] { context_.TryCancel(); },
                 .finish = [this] { return Finish(); }},
                max_frame_bytes_) {}
  ~ClientPipe() override { Close(); }

  PipeCapabilities capabilities() const override {
    return {.name = "grpc", .max_frame_bytes = max_frame_bytes_, .detail = address_};
  }
  void Start(FrameReceiver* receiver) override {
    frames_.Start(receiver);
    MutexLock lock(mutex_);
    reading_ = std::thread([this] { frames_.Run(); });
  }
  Status Send(Frame frame) override { return frames_.Send(std::move(frame)); }
  void Close() override {
    frames_.Close();
    MutexLock lock(mutex_);
    if (reading_.joinable()) reading_.join();
  }

 private:
  Status Finish() {
    const Status status = EndOfCall(stream_->Finish(), context_);
    if (status.ok() || absl::IsCancelled(status)) {
      return Unavailable("the connection to ", address_, " was closed");
    }
    Status over = Unavailable("the connection to ", address_, " is over (",
                              absl::StatusCodeToString(status.code()), "): ", Message(status));
    const auto wait = RetryAfter(status);
    return wait ? WithRetryAfter(std::move(over), *wait) : over;
  }

  const uint64_t max_frame_bytes_;
  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  const std::unique_ptr<ClientStream> stream_;
  GrpcStream frames_;
  Mutex mutex_;
  std::thread reading_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<std::unique_ptr<FramePipe>> ConnectGrpcPipe(const GrpcPipeOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(auto channel, MakeGrpcChannel(options.address, options.max_message_bytes,
                                                       GrpcMessages::kFrames));
  QUIRE_RETURN_IF_ERROR(WaitUntilConnected(options, channel.get()));
  DoNotPaceLocalConnectionsTo(PortOf(options.address));
  return std::make_unique<ClientPipe>(options, std::move(channel));
}

}  // namespace quire
