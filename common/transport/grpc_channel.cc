// SPDX-License-Identifier: Apache-2.0
#include "common/transport/grpc_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "common/wire/limits.h"

namespace quire {

Status CheckGrpcTarget(const std::string& address, uint64_t max_message_bytes) {
  if (address.empty()) {
    return InvalidArgument("the server's address is empty: give host:port or unix:/path");
  }
  if (max_message_bytes < 1 || max_message_bytes > wire::kLargestMaxMessageBytes) {
    return InvalidArgument("max_message_bytes is ", max_message_bytes, ": must be 1..",
                           wire::kLargestMaxMessageBytes);
  }
  return OkStatus();
}

std::shared_ptr<grpc::Channel> MakeGrpcChannel(const std::string& address,
                                               uint64_t max_message_bytes) {
  const int limit = GrpcLimit(max_message_bytes);
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(limit);
  args.SetMaxSendMessageSize(limit);
  args.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kGrpcKeepaliveMillis);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kGrpcKeepaliveMillis);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // Pages do not go through a web proxy.
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

}  // namespace quire
