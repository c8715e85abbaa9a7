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

#include "quire/clock.h"
#include "quire/priority.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/transport.h"

namespace quire {

/// The call metadata that says how urgent a call is; without it, or with another word, it is
/// normal.
inline constexpr char kPriorityMetadata[] = "quire-priority";

/// "prefetch", "normal", "correction".
std::string_view PriorityName(Priority priority);
/// kNormal for what is no name.
Priority PriorityOf(std::string_view name);

/// The codes are the same numbers on both sides. Bytes of a message that are
/// not UTF-8 are replaced, and one longer than what fits in HTTP/2 trailers is cut.
grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);
/// The same for the end of a call, with the retry hint as trailing metadata, and at the client with
/// the mark of an answer (answered.h).
grpc::Status EndCall(const Status& status, grpc::ServerContext* context);
Status EndOfCall(const grpc::Status& status, const grpc::ClientContext& context);
/// Whether the error that a call ended with is its handler's (EndCall), and not gRPC's, which found
/// no server or lost it.
bool WasAnswered(const grpc::ClientContext& context);

/// The message as one buffer: control, payload header, payload. Slices with an owner are referenced
/// and keep it; those without are copied, because gRPC may hold a message longer than the call
/// (after a deadline, for example) and the caller's bytes would be gone.
grpc::ByteBuffer ToByteBuffer(const CallMessage& message);
/// Splits a received buffer; the payload's slices keep it alive. INVALID_ARGUMENT when malformed.
Status FromByteBuffer(const grpc::ByteBuffer& buffer, CallMessage* message);
/// The same for a frame on a stream (quire.v1.Frame); where its payload lands is its head's affair.
grpc::ByteBuffer ToByteBuffer(const Frame& frame);
Status FromByteBuffer(const grpc::ByteBuffer& buffer, Frame* frame);

/// `timeout` from now.
gpr_timespec DeadlineAfter(Duration timeout);
/// On SystemClock(); TimePoint::max() for none.
TimePoint DeadlineFromGrpc(gpr_timespec deadline);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_CONVERT_H_
