// SPDX-License-Identifier: Apache-2.0
//
// gRPC channels: message limits, how a lost peer is detected, and how one that is back is found.
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
#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

/// Room for bytes around a message, which do not count against its limit.
inline constexpr uint64_t kGrpcHeaderRoomBytes = 32;
/// Room for the head of a frame on a stream, in addition to a message of the largest size.
inline constexpr uint64_t kGrpcFrameRoomBytes = uint64_t{1} << 20;
/// Idle time before a ping, and time to wait for its answer. A peer that does not answer is taken
/// as gone: cut off or stopped. A process that dies closes its connection and is noticed at once.
inline constexpr int kGrpcKeepaliveMillis = 20'000;
/// Shortest interval of pings that a server accepts; more frequent ones end the connection.
inline constexpr int kGrpcFewestMillisBetweenPings = 10'000;

/// Time for a connection to be made. It is tried anew then: the system sends a lost first packet
/// again after 1, 3, 7 and 15 seconds, and the network may be back long before.
inline constexpr int kGrpcConnectMillis = 2'000;

/// The limit as gRPC takes it: an int.
inline int GrpcLimit(uint64_t max_bytes) {
  return static_cast<int>(std::min<uint64_t>(max_bytes + kGrpcHeaderRoomBytes, INT_MAX));
}
/// The largest frame of a stream whose ends agree on `max_message_bytes`.
inline uint64_t GrpcFrameBytes(uint64_t max_message_bytes) {
  return std::min<uint64_t>(max_message_bytes + kGrpcFrameRoomBytes, INT_MAX - 4096);
}

/// The address as gRPC reads it: as a URI, so that gRPC does not guess the scheme.
std::string GrpcTarget(const NetAddress& address);

/// Contents of a channel, which decide how large its messages may be.
enum class GrpcMessages : uint8_t {
  kCalls,  ///< Messages of at most max_message_bytes.
  kFrames  ///< Frames of streams around such messages.
};

/// A channel to `address` (NetAddress::ParseServer) with a connection of its own, without TLS. It
/// connects at its first call. It finds a restarted server within a second, and one that was cut
/// off within four. INVALID_ARGUMENT for a malformed address or a limit out of range.
[[nodiscard]] StatusOr<std::shared_ptr<grpc::Channel>> MakeGrpcChannel(
    const std::string& address, uint64_t max_message_bytes,
    GrpcMessages messages = GrpcMessages::kCalls);

/// Gives a channel whose call was refused a moment to connect, until `deadline` at most. Threads of
/// callers make gRPC's connections while they wait, and refused calls do not wait. A caller that
/// merely retries would find a restarted server after gRPC's own interval of five seconds, or
/// several.
void LetConnect(grpc::Channel& channel, TimePoint deadline);

/// Turns the DEADLINE_EXCEEDED of a call into UNAVAILABLE where `channel` has no connection: the
/// call waited for one in vain. Returns any other status unchanged.
[[nodiscard]] Status UnreachedAtDeadline(const Status& status, grpc::Channel& channel);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_CHANNEL_H_
