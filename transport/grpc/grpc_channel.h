// SPDX-License-Identifier: Apache-2.0
//
// The channels that we make: how messages travel on them and how a loss shows. Pure functions.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_CHANNEL_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/net_address.h"
#include "quire/status.h"

namespace quire {

/// Room for what stands around a message's bytes and does not count against a limit.
inline constexpr uint64_t kGrpcHeaderRoomBytes = 32;
/// Room for the head of a frame on a stream, beyond a message of the largest size.
inline constexpr uint64_t kGrpcFrameRoomBytes = uint64_t{1} << 20;
/// A peer that does not answer a ping for this long, after this much silence, is gone: it was cut
/// off, or stopped. (A process that dies closes its connection and is noticed at once.)
inline constexpr int kGrpcKeepaliveMillis = 20'000;
/// More frequent pings of a client end its connection.
inline constexpr int kGrpcFewestMillisBetweenPings = 10'000;

/// gRPC's limits are ints.
inline int GrpcLimit(uint64_t max_bytes) {
  return static_cast<int>(std::min<uint64_t>(max_bytes + kGrpcHeaderRoomBytes, INT_MAX));
}
/// The largest frame of a stream whose ends agree on `max_message_bytes`.
inline uint64_t GrpcFrameBytes(uint64_t max_message_bytes) {
  return std::min<uint64_t>(max_message_bytes + kGrpcFrameRoomBytes, INT_MAX - 4096);
}

/// The address as gRPC reads it: as a URI, whose scheme it would otherwise guess.
std::string GrpcTarget(const NetAddress& address);

/// Contents of a channel, which decide how large its messages may be.
enum class GrpcMessages : uint8_t {
  kCalls,  ///< Messages of max_message_bytes.
  kFrames  ///< Frames of streams around such messages.
};

/// A channel to `address` (NetAddress::ParseServer) with a connection of its own, without security,
/// that finds a restarted server within a second. It connects at its first call. INVALID_ARGUMENT
/// for what is no address and for a limit out of range.
[[nodiscard]] StatusOr<std::shared_ptr<grpc::Channel>> MakeGrpcChannel(
    const std::string& address, uint64_t max_message_bytes,
    GrpcMessages messages = GrpcMessages::kCalls);

/// The DEADLINE_EXCEEDED of a call as UNAVAILABLE where `channel` has no connection: the call
/// waited for one in vain. Any other status as it is.
[[nodiscard]] Status UnreachedAtDeadline(const Status& status, grpc::Channel& channel);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_CHANNEL_H_
