// SPDX-License-Identifier: Apache-2.0
//
// GrpcTransport: unary calls over one gRPC channel. It is the control channel of a server, and
// carries replies of one part for clients without a data connection. The channel connects on first
// use and again after a loss. Messages are ordinary protobuf on the wire, so any gRPC client or
// server can be the other end. A reply is one part and names no places, so nothing of it lands.
// Payload slices with an owner are sent from where they lie; received ones point into gRPC's
// buffers. Thread-safety: as Transport.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_TRANSPORT_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/wire/limits.h"
#include "transport/auth/bearer_token.h"
#include "transport/transport.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace quire {

class GrpcTransport final : public Transport {
 public:
  struct Options {
    std::string address;  ///< "host:port", "[::1]:port" or "unix:/path".
    /// Largest message in each direction.
    uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;
    BearerToken token = {};  ///< Sent with every call: a token of the calling tenant.
  };
  /// Does not connect yet. INVALID_ARGUMENT for an empty address or a limit out of range.
  static StatusOr<std::unique_ptr<GrpcTransport>> Create(const Options& options);
  ~GrpcTransport() override;

  TransportCapabilities capabilities() const override;
  /// The call runs on a thread of its own.
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;

 private:
  GrpcTransport(const Options& options, std::shared_ptr<grpc::Channel> channel);

  class UnaryCall;

  /// Runs one call with `context`.
  Status Run(std::string_view method, const CallMessage& request, CallMessage* reply,
             const CallOptions& options, grpc::ClientContext* context) const;

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_TRANSPORT_H_
