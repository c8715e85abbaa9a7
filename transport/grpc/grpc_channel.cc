// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>

#include "common/wire/limits.h"
#include "transport/grpc/grpc_convert.h"

namespace quire {
namespace {

/// Time for gRPC to connect after a call that was refused.
constexpr Duration kTimeToConnect = std::chrono::milliseconds(10);

/// `text` with %XX for all but letters, digits and a few signs.
std::string PercentEncoded(std::string_view text) {
  constexpr std::string_view kPlain = "-._~/";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos) {
      encoded.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return encoded;
}

}  // namespace

std::string GrpcTarget(const NetAddress& address) {
  if (address.is_unix()) return "unix:" + PercentEncoded(address.path());
  return "dns:///" + PercentEncoded(address.Text());
}

StatusOr<std::shared_ptr<grpc::Channel>> MakeGrpcChannel(const std::string& address,
                                                         uint64_t max_message_bytes,
                                                         GrpcMessages messages) {
  QUIRE_ASSIGN_OR_RETURN(const NetAddress parsed, NetAddress::ParseServer(address));
  if (max_message_bytes < 1 || max_message_bytes > wire::kLargestMaxMessageBytes) {
    return InvalidArgument("max_message_bytes is ", max_message_bytes, ": must be 1..",
                           wire::kLargestMaxMessageBytes);
  }
  const bool frames = messages == GrpcMessages::kFrames;
  const int limit = GrpcLimit(frames ? GrpcFrameBytes(max_message_bytes) : max_message_bytes);
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(limit);
  args.SetMaxSendMessageSize(limit);
  args.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kGrpcConnectMillis);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kGrpcKeepaliveMillis);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kGrpcKeepaliveMillis);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // Pages must not pass a web proxy.
  return grpc::CreateCustomChannel(GrpcTarget(parsed), grpc::InsecureChannelCredentials(), args);
}

void LetConnect(grpc::Channel& channel, TimePoint deadline) {
  const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_SHUTDOWN) return;
  const Duration left = std::min<Duration>(kTimeToConnect, deadline - SystemClock().Now());
  if (left > Duration::zero()) (void)channel.WaitForStateChange(state, DeadlineAfter(left));
}

Status UnreachedAtDeadline(const Status& status, grpc::Channel& channel) {
  if (!IsDeadlineExceeded(status)) return status;
  if (channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) return status;
  return Unavailable("no connection within the time that was given");
}

}  // namespace quire
