// SPDX-License-Identifier: Apache-2.0
//
// The one place where gRPC's types meet ours: statuses, message buffers and deadlines.
// Thread-safety: pure functions.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_CONVERT_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_CONVERT_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <string_view>

#include "common/base/trace/trace_context.h"
#include "quire/clock.h"
#include "quire/priority.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/transport.h"

namespace quire {

/// The call metadata that states the priority of a call. Without it, or with an unknown word, the
/// priority is normal.
inline constexpr char kPriorityMetadata[] = "quire-priority";

/// "prefetch", "normal", "correction".
std::string_view PriorityName(Priority priority);
/// kNormal for an unknown name.
Priority PriorityOf(std::string_view name);

/// Sends the place of a call in its trace; does nothing when it has none.
void AddTrace(const TraceContext& trace, grpc::ClientContext* context);
/// Reads it; invalid when the call has none, or one that is malformed.
TraceContext TraceOf(const grpc::ServerContext& context);

/// Converts a status; the codes are the same numbers on both sides. Bytes of a message that are not
/// UTF-8 are replaced. A message too long for HTTP/2 trailers is cut.
grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);
/// Converts the status at the end of a call. The retry hint travels as trailing metadata, and so
/// does the mark of an answer (answered.h).
grpc::Status EndCall(const Status& status, grpc::ServerContext* context);
Status EndOfCall(const grpc::Status& status, const grpc::ClientContext& context);
/// True if the error of a call came from its handler (EndCall). False when gRPC found no server or
/// lost it.
bool WasAnswered(const grpc::ClientContext& context);

/// The message as one buffer: control, payload header, payload. Slices with an owner are referenced
/// and keep it. Slices without one are copied, because gRPC may hold a message longer than the
/// call, for example after a deadline.
grpc::ByteBuffer ToByteBuffer(const CallMessage& message);
/// Splits a received buffer; the payload's slices keep it alive. INVALID_ARGUMENT when malformed.
Status FromByteBuffer(const grpc::ByteBuffer& buffer, CallMessage* message);
/// The same for a frame on a stream (quire.v1.Frame). The frame's head describes where the payload
/// lands.
grpc::ByteBuffer ToByteBuffer(const Frame& frame);
Status FromByteBuffer(const grpc::ByteBuffer& buffer, Frame* frame);

/// The deadline `timeout` from now.
gpr_timespec DeadlineAfter(Duration timeout);
/// On SystemClock(); TimePoint::max() for none.
TimePoint DeadlineFromGrpc(gpr_timespec deadline);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_CONVERT_H_
