// SPDX-License-Identifier: Apache-2.0
//
// The gRPC pipe: frames over one bidirectional stream of quire.v1.DataPlane/Frames. It works
// wherever the control channel does. A frame is one message. Payload slices that have an owner are
// sent from where they lie. Received slices point into gRPC's buffers.
//
// The client end has a connection and a reading thread of its own. The server end reads in the
// thread that gRPC gives to the stream, and holds it until the pipe is closed (grpc_pipe_method.h).
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_PIPE_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_PIPE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/limits.h"
#include "transport/auth/bearer_token.h"
#include "transport/frame_pipe.h"

namespace quire {

/// The method whose calls are the streams.
inline constexpr char kGrpcPipePath[] = "/quire.v1.DataPlane/Frames";

struct GrpcPipeOptions {
  std::string address;  ///< "host:port", "[::1]:port" or "unix:/path".
  /// Largest message; a frame may have a head in addition.
  uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;
  Duration connect_timeout = std::chrono::seconds(5);
  std::string tenant = "default";
  BearerToken token = {};  ///< The tenant's token.
};

/// The client end of a new connection. INVALID_ARGUMENT for an empty address or a limit out of
/// range; UNAVAILABLE when the server cannot be reached in time. A server that takes no streams, or
/// rejects the token, is noticed after Start: the pipe closes with the server's error.
StatusOr<std::unique_ptr<FramePipe>> ConnectGrpcPipe(const GrpcPipeOptions& options);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_PIPE_H_
