// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_convert.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/answered.h"
#include "common/base/retry_hint.h"
#include "common/base/utf8.h"
#include "common/wire/wire_split.h"
#include "quire/v1/data_plane.pb.h"

namespace quire {
namespace {

/// Trailers are limited to 8 KiB by default, and percent encoding makes three bytes of one.
constexpr size_t kMaxStatusMessageBytes = 2048;
/// The trailing metadata with the retry hint of a refusal, in milliseconds.
constexpr char kRetryAfterMetadata[] = "quire-retry-after-ms";
/// The trailing metadata of an error made by a handler, not by gRPC.
constexpr char kAnsweredMetadata[] = "quire-answered";
constexpr std::array<std::string_view, kNumPriorities> kPriorityNames = {"prefetch", "normal",
                                                                         "correction"};

static_assert(static_cast<int>(StatusCode::kCancelled) == grpc::StatusCode::CANCELLED);
static_assert(static_cast<int>(StatusCode::kUnauthenticated) == grpc::StatusCode::UNAUTHENTICATED);

/// Keeps payload that gRPC sends. gRPC's own locks order the creation before the end on another
/// thread. ThreadSanitizer does not see those; `made` shows it the order.
struct SentOwner {
  std::shared_ptr<const void> owner;
  std::atomic<bool> made = false;
};

grpc::Slice ToGrpcSlice(const Slice& slice) {
  if (slice.owner == nullptr) return grpc::Slice(slice.bytes.data(), slice.bytes.size());
  auto* const sent = new SentOwner{slice.owner};
  sent->made.store(true, std::memory_order_release);
  const auto end = [](void* data) {
    auto* const done = static_cast<SentOwner*>(data);
    if (done->made.load(std::memory_order_acquire)) delete done;
  };
  return grpc::Slice(const_cast<std::byte*>(slice.bytes.data()), slice.bytes.size(), end, sent);
}

/// Makes slices of the buffer's bytes, which keep gRPC's memory alive.
Status Reference(const grpc::ByteBuffer& buffer, Payload* payload) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (const grpc::Status status = buffer.Dump(slices.get()); !status.ok()) return FromGrpc(status);
  for (const grpc::Slice& slice : *slices) {
    payload->Append(Slice{std::as_bytes(std::span(slice.begin(), slice.size())), slices});
  }
  return OkStatus();
}

/// Control bytes, payload header and payload as one buffer.
grpc::ByteBuffer Join(const std::string& control, const Payload& payload) {
  std::vector<grpc::Slice> slices;
  slices.reserve(payload.slices().size() + 1);
  slices.emplace_back(control + wire::PayloadHeader(payload.size_bytes()));
  for (const Slice& slice : payload.slices()) slices.push_back(ToGrpcSlice(slice));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

Status Split(const grpc::ByteBuffer& buffer, std::string* control, Payload* payload) {
  Payload bytes;
  if (buffer.Valid()) QUIRE_RETURN_IF_ERROR(Reference(buffer, &bytes));
  return wire::SplitMessage(bytes, control, payload);
}

}  // namespace

std::string_view PriorityName(Priority priority) {
  return kPriorityNames[static_cast<size_t>(priority)];
}

Priority PriorityOf(std::string_view name) {
  const auto found = std::ranges::find(kPriorityNames, name);
  if (found == kPriorityNames.end()) return Priority::kNormal;
  return static_cast<Priority>(found - kPriorityNames.begin());
}

void AddTrace(const TraceContext& trace, grpc::ClientContext* context) {
  if (trace.valid()) context->AddMetadata(kTraceparent, FormatTraceparent(trace));
}

TraceContext TraceOf(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find(kTraceparent);
  if (it == metadata.end()) return {};
  return ParseTraceparent({it->second.data(), it->second.size()}).value_or(TraceContext());
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string text = ReplaceInvalidUtf8(Message(status));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(CutUtf8(text, kMaxStatusMessageBytes)));
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return OkStatus();
  return Status(static_cast<StatusCode>(status.error_code()), status.error_message());
}

grpc::Status EndCall(const Status& status, grpc::ServerContext* context) {
  if (const auto wait = RetryAfter(status)) {
    const auto millis = std::chrono::ceil<std::chrono::milliseconds>(*wait).count();
    context->AddTrailingMetadata(kRetryAfterMetadata, std::to_string(millis));
  }
  if (!status.ok()) context->AddTrailingMetadata(kAnsweredMetadata, "1");
  return ToGrpc(status);
}

bool WasAnswered(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().contains(kAnsweredMetadata);
}

Status EndOfCall(const grpc::Status& status, const grpc::ClientContext& context) {
  Status result = FromGrpc(status);
  if (WasAnswered(context)) result = Answered(std::move(result));
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto it = metadata.find(kRetryAfterMetadata);
  if (result.ok() || it == metadata.end()) return result;
  uint32_t millis = 0;
  const char* const end = it->second.data() + it->second.size();
  if (std::from_chars(it->second.data(), end, millis).ptr != end) return result;
  return WithRetryAfter(result, std::chrono::milliseconds(millis));
}

grpc::ByteBuffer ToByteBuffer(const CallMessage& message) {
  return Join(message.control, message.payload);
}

Status FromByteBuffer(const grpc::ByteBuffer& buffer, CallMessage* message) {
  return Split(buffer, &message->control, &message->payload);
}

grpc::ByteBuffer ToByteBuffer(const Frame& frame) {
  v1::Frame message;
  message.set_head(frame.head);
  return Join(message.SerializeAsString(), frame.payload);
}

Status FromByteBuffer(const grpc::ByteBuffer& buffer, Frame* frame) {
  std::string control;
  QUIRE_RETURN_IF_ERROR(Split(buffer, &control, &frame->payload));
  v1::Frame message;
  if (!message.ParseFromString(control)) {
    return InvalidArgument("the stream's message is no ", message.GetTypeName());
  }
  frame->head = std::move(*message.mutable_head());
  return OkStatus();
}

gpr_timespec DeadlineAfter(Duration timeout) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(timeout.count(), GPR_TIMESPAN));
}

TimePoint DeadlineFromGrpc(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return TimePoint::max();
  const gpr_timespec left = gpr_time_sub(gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC),
                                         gpr_now(GPR_CLOCK_MONOTONIC));
  constexpr int64_t kLongestSeconds = int64_t{1} << 30;  // Keeps nanoseconds inside 63 bits.
  const auto seconds = std::clamp<int64_t>(left.tv_sec, -kLongestSeconds, kLongestSeconds);
  return SystemClock().Now() + std::chrono::seconds(seconds) +
         std::chrono::nanoseconds(left.tv_nsec);
}

}  // namespace quire
