// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/frame_client.h"

#include <utility>

#include "transport/single_reply.h"

namespace quire {
namespace {

class FrameLanding final : public Landing {
 public:
  FrameLanding(std::shared_ptr<ClientConnection> connection, uint64_t id,
               const LandingMemory& memory)
      : connection_(std::move(connection)), id_(id), memory_(memory) {}
  ~FrameLanding() override {
    if (withdraw_ != nullptr) withdraw_(connection_->id(), id_);
    connection_->pipe().RemoveLanding(id_);
  }
  /// Tells the server; what was announced is withdrawn by the destructor.
  Status Announce(const FrameClient::Options& options, const std::string& key) {
    if (key.empty() || options.announce == nullptr) return OkStatus();
    QUIRE_RETURN_IF_ERROR(options.announce(connection_->id(), id_, memory_.bytes.size(), key));
    withdraw_ = options.withdraw;
    return OkStatus();
  }

  LandingMemory memory() const override { return memory_; }
  const ClientConnection* connection() const { return connection_.get(); }
  uint64_t id() const { return id_; }

 private:
  const std::shared_ptr<ClientConnection> connection_;
  const uint64_t id_;
  const LandingMemory memory_;
  FrameClient::WithdrawLanding withdraw_;
};

class FrameCall final : public PendingCall {
 public:
  FrameCall(std::shared_ptr<ClientConnection> connection, ClientConnection::CallPtr call)
      : connection_(std::move(connection)), call_(std::move(call)) {}
  ~FrameCall() override {
    Cancel();
    connection_->AwaitQuiet(*call_);
  }
  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    return connection_->Next(*call_, deadline);
  }
  void Cancel() override {
    connection_->GiveUp(*call_, Status(StatusCode::kCancelled, "the caller cancelled the call"));
  }
  bool MayHaveLanded() const override { return connection_->MayHaveLanded(*call_); }
  bool IsQuiet() const override { return connection_->IsQuiet(*call_); }

 private:
  const std::shared_ptr<ClientConnection> connection_;
  const ClientConnection::CallPtr call_;
};

Status Check(const FrameClient::Options& options) {
  if (options.window_bytes < 1) return InvalidArgument("window_bytes is 0: must be at least 1");
  if (options.max_message_bytes < 1 || options.max_message_bytes > wire::kLargestMaxMessageBytes) {
    return InvalidArgument("max_message_bytes is ", options.max_message_bytes, ": must be 1..",
                           wire::kLargestMaxMessageBytes);
  }
  return OkStatus();
}

/// The landing's id; 0 for none.
StatusOr<uint64_t> LandingId(const Landing* landing, const ClientConnection* connection) {
  if (landing == nullptr) return 0;
  const auto* const own = dynamic_cast<const FrameLanding*>(landing);
  if (own != nullptr && own->connection() == connection) return own->id();
  return InvalidArgument("the landing was made by another transport: use AddLanding of this one");
}

}  // namespace

StatusOr<std::unique_ptr<FrameClient>> FrameClient::Connect(std::unique_ptr<FramePipe> pipe,
                                                            const Options& options) {
  QUIRE_RETURN_IF_ERROR(Check(options));
  const auto connection = std::make_shared<ClientConnection>(
      std::move(pipe), ClientConnection::Options{.tenant = options.tenant,
                                                 .ticket = options.ticket,
                                                 .max_message_bytes = options.max_message_bytes,
                                                 .window_bytes = options.window_bytes,
                                                 .hello_timeout = options.hello_timeout,
                                                 .cancel_timeout = options.cancel_timeout});
  QUIRE_RETURN_IF_ERROR(connection->Connect());
  return std::unique_ptr<FrameClient>(new FrameClient(connection, options));
}

FrameClient::~FrameClient() { connection_->Close(); }

TransportCapabilities FrameClient::capabilities() const {
  const PipeCapabilities pipe = connection_->pipe().capabilities();
  return {.name = pipe.name,
          .max_message_bytes = connection_->max_message_bytes(),
          .same_process = false,
          .in_place = pipe.in_place,
          .direct_landing = pipe.direct_landing,
          .lands_on_arrival = pipe.lends_payload,
          .detail = pipe.detail};
}

StatusOr<std::unique_ptr<PendingCall>> FrameClient::Start(std::string_view method,
                                                          CallMessage request,
                                                          const CallOptions& options) {
  return StartParts(method, std::move(request), options, UINT32_MAX);
}

Status FrameClient::Call(std::string_view method, const CallMessage& request, CallMessage* reply,
                         const CallOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto call, StartParts(method, request, options, 1));
  return TakeSingleReply(*call, reply);
}

StatusOr<std::unique_ptr<PendingCall>> FrameClient::StartParts(std::string_view method,
                                                               CallMessage request,
                                                               const CallOptions& options,
                                                               uint32_t max_parts) {
  if (options.tenant != options_.tenant) {
    return InvalidArgument("the connection is of tenant ", options_.tenant, ", not of ",
                           options.tenant, ": connect one for each tenant");
  }
  if (method.empty() || method.size() > kMaxFrameNameBytes) {
    return InvalidArgument("the method's name has ", method.size(), " bytes: must be 1..",
                           kMaxFrameNameBytes);
  }
  QUIRE_ASSIGN_OR_RETURN(const uint64_t landing, LandingId(options.landing, connection_.get()));
  QUIRE_ASSIGN_OR_RETURN(
      auto call, connection_->Start(method, std::move(request), options, landing, max_parts));
  return std::make_unique<FrameCall>(connection_, std::move(call));
}

StatusOr<std::unique_ptr<Landing>> FrameClient::AddLanding(LandingMemory memory) {
  if (memory.bytes.empty() || memory.bytes.size() > wire::kMaxLandingBytes) {
    return InvalidArgument("the landing has ", memory.bytes.size(), " bytes: must be 1..",
                           wire::kMaxLandingBytes);
  }
  const uint64_t id = next_landing_++;
  QUIRE_ASSIGN_OR_RETURN(const std::string key, connection_->pipe().AddLanding(id, memory));
  auto landing = std::make_unique<FrameLanding>(connection_, id, memory);
  QUIRE_RETURN_IF_ERROR(landing->Announce(options_, key));
  return landing;
}

StatusOr<OwnedMemory> FrameClient::AllocateLandingMemory(uint64_t bytes) {
  QUIRE_ASSIGN_OR_RETURN(OwnedMemory memory, connection_->pipe().AllocateLandingMemory(bytes));
  if (memory.owner == nullptr) return Transport::AllocateLandingMemory(bytes);
  return memory;
}

}  // namespace quire
