// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/frame.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>

#include "common/base/answered.h"
#include "common/base/retry_hint.h"
#include "common/base/utf8.h"
#include "common/wire/limits.h"

namespace quire {
namespace {

constexpr uint32_t kMagic = 0x31465251;  ///< "QRF1"
constexpr uint8_t kHasTrace = 1;         ///< A mark: the head ends with a trace.
constexpr uint8_t kIsSampled = 1;        ///< A flag of a trace.
constexpr uint64_t kMaxPlaceEnd = uint64_t{1} << 62;
constexpr uint64_t kMaxTextBytes = wire::kLargestMaxMessageBytes;

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

template <typename Number>
void Put(Number value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Reads numbers one after the other. REQUIRES of Get: the bytes are there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename Number>
  Number Get() {
    Number value = 0;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof(Number));
    return value;
  }
  std::string Take(size_t count) {
    const std::string taken(bytes_.substr(0, count));
    bytes_.remove_prefix(count);
    return taken;
  }
  size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

void PutTrace(const TraceContext& trace, std::string* out) {
  out->append(reinterpret_cast<const char*>(trace.trace_id.data()), trace.trace_id.size());
  out->append(reinterpret_cast<const char*>(trace.span_id.data()), trace.span_id.size());
  Put<uint8_t>(trace.sampled ? kIsSampled : 0, out);
}

Status Malformed(std::string_view what) {
  return InvalidArgument("the frame is malformed: ", what);
}

StatusOr<TraceContext> ReadTrace(Reader& in) {
  TraceContext trace;
  for (uint8_t& byte : trace.trace_id) byte = in.Get<uint8_t>();
  for (uint8_t& byte : trace.span_id) byte = in.Get<uint8_t>();
  const auto flags = in.Get<uint8_t>();
  if (!trace.valid() || (flags & ~kIsSampled) != 0) return Malformed("its trace");
  trace.sampled = flags == kIsSampled;
  return trace;
}

bool HasCallId(FrameKind kind) {
  return kind == FrameKind::kRequest || kind == FrameKind::kPart || kind == FrameKind::kEnd ||
         kind == FrameKind::kCancel || kind == FrameKind::kCredit || kind == FrameKind::kPiece;
}
bool HasStatus(FrameKind kind) { return kind == FrameKind::kEnd || kind == FrameKind::kHelloReply; }
bool HasAmount(const FrameHead& head) {
  if (head.kind == FrameKind::kHelloReply) return head.code == StatusCode::kOk;
  return head.kind == FrameKind::kHello || head.kind == FrameKind::kRequest ||
         head.kind == FrameKind::kCredit;
}
bool HasPayload(FrameKind kind) { return kind == FrameKind::kPart || kind == FrameKind::kPiece; }
bool HasName(FrameKind kind) {
  return kind == FrameKind::kHello || kind == FrameKind::kHelloReply || kind == FrameKind::kRequest;
}

Status CheckNumbers(const FrameHead& head) {
  const bool request = head.kind == FrameKind::kRequest;
  if (HasCallId(head.kind) && head.id == 0) return Malformed("no call");
  if (head.kind == FrameKind::kHello && head.id != 0) return Malformed("a hello with an id");
  if (!HasStatus(head.kind) && head.code != StatusCode::kOk) return Malformed("a stray status");
  if (head.code == StatusCode::kOk && head.retry_millis != 0) return Malformed("a stray hint");
  if (!HasPayload(head.kind) && HasAmount(head) != (head.amount != 0)) {
    return Malformed("its amount");
  }
  if (head.amount > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Malformed("its amount is too large");
  }
  if (!request && head.priority != Priority::kPrefetch) return Malformed("a stray priority");
  if (request != (head.max_parts != 0)) return Malformed("its number of parts");
  if (!request && head.piece_bytes != 0) return Malformed("a stray size of pieces");
  if (!request && head.landing != 0) return Malformed("a stray landing");
  if ((head.landing != 0) != (head.landing_bytes != 0)) return Malformed("the landing's size");
  if (head.landing_bytes > wire::kMaxLandingBytes) return Malformed("the landing is too large");
  return OkStatus();
}

Status CheckLists(const FrameHead& head) {
  if (!HasName(head.kind) && !head.name.empty()) return Malformed("a stray name");
  if (head.kind == FrameKind::kRequest && head.name.empty()) return Malformed("no method");
  const bool bare = head.kind == FrameKind::kCancel || head.kind == FrameKind::kCredit ||
                    head.kind == FrameKind::kPiece;
  if (bare && !head.text.empty()) return Malformed("stray text");
  if (HasStatus(head.kind) && head.text.size() > kMaxFrameStatusBytes) {
    return Malformed("the status is too long");
  }
  if (HasStatus(head.kind) && head.code == StatusCode::kOk && !head.text.empty()) {
    return Malformed("OK with a message");
  }
  if (head.kind == FrameKind::kHello && head.text.size() > kMaxFrameTicketBytes) {
    return Malformed("the ticket is too long");
  }
  if (!HasPayload(head.kind) && !head.places.empty()) return Malformed("stray places");
  if (head.kind != FrameKind::kRequest && head.trace.valid()) return Malformed("a stray trace");
  for (const FramePlace& place : head.places) {
    if (place.bytes == 0 || place.bytes > kMaxPlaceEnd || place.offset > kMaxPlaceEnd) {
      return Malformed("a place out of range");
    }
  }
  return OkStatus();
}

}  // namespace

std::string EncodeFrameHead(const FrameHead& head) {
  std::string out;
  out.reserve(kFrameHeaderBytes + head.name.size() + head.text.size() +
              head.places.size() * kFramePlaceBytes + (head.trace.valid() ? kFrameTraceBytes : 0));
  Put<uint32_t>(kMagic, &out);
  Put(static_cast<uint8_t>(head.kind), &out);
  Put(static_cast<uint8_t>(head.priority), &out);
  Put(static_cast<uint8_t>(head.code), &out);
  Put<uint8_t>(head.trace.valid() ? kHasTrace : 0, &out);
  Put(head.id, &out);
  Put(head.amount, &out);
  Put(head.landing, &out);
  Put(head.landing_bytes, &out);
  Put(head.max_parts, &out);
  Put(head.retry_millis, &out);
  Put(static_cast<uint32_t>(head.name.size()), &out);
  Put(static_cast<uint32_t>(head.text.size()), &out);
  Put(static_cast<uint32_t>(head.places.size()), &out);
  Put(head.piece_bytes, &out);
  out += head.name;
  out += head.text;
  for (const FramePlace& place : head.places) {
    Put(place.offset, &out);
    Put(place.bytes, &out);
  }
  if (head.trace.valid()) PutTrace(head.trace, &out);
  return out;
}

StatusOr<FrameHead> DecodeFrameHead(std::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes) return Malformed("it is too short");
  Reader in(bytes);
  if (in.Get<uint32_t>() != kMagic) return Malformed("it is of no version that is known here");
  const auto kind = in.Get<uint8_t>();
  const auto priority = in.Get<uint8_t>();
  const auto code = in.Get<uint8_t>();
  if (kind < static_cast<uint8_t>(FrameKind::kHello) ||
      kind > static_cast<uint8_t>(FrameKind::kPiece)) {
    return Malformed("unknown kind");
  }
  if (priority > static_cast<uint8_t>(Priority::kCorrection)) return Malformed("unknown priority");
  if (code > static_cast<uint8_t>(StatusCode::kUnauthenticated)) return Malformed("unknown code");
  const auto marks = in.Get<uint8_t>();
  if ((marks & ~kHasTrace) != 0) return Malformed("an unknown mark is set");

  FrameHead head;
  head.kind = static_cast<FrameKind>(kind);
  head.priority = static_cast<Priority>(priority);
  head.code = static_cast<StatusCode>(code);
  head.id = in.Get<uint64_t>();
  head.amount = in.Get<uint64_t>();
  head.landing = in.Get<uint64_t>();
  head.landing_bytes = in.Get<uint64_t>();
  head.max_parts = in.Get<uint32_t>();
  head.retry_millis = in.Get<uint32_t>();
  const uint64_t name_bytes = in.Get<uint32_t>();
  const uint64_t text_bytes = in.Get<uint32_t>();
  const uint64_t num_places = in.Get<uint32_t>();
  head.piece_bytes = in.Get<uint32_t>();
  if (name_bytes > kMaxFrameNameBytes || text_bytes > kMaxTextBytes) {
    return Malformed("a text is too long");
  }
  const uint64_t trace_bytes = marks == kHasTrace ? kFrameTraceBytes : 0;
  if (name_bytes + text_bytes + num_places * kFramePlaceBytes + trace_bytes != in.left()) {
    return Malformed("its lists do not add up to its size");
  }
  head.name = in.Take(name_bytes);
  head.text = in.Take(text_bytes);
  head.places.resize(num_places);
  for (FramePlace& place : head.places) {
    place.offset = in.Get<uint64_t>();
    place.bytes = in.Get<uint64_t>();
  }
  if (marks == kHasTrace) {
    QUIRE_ASSIGN_OR_RETURN(head.trace, ReadTrace(in));
  }
  QUIRE_RETURN_IF_ERROR(CheckNumbers(head));
  QUIRE_RETURN_IF_ERROR(CheckLists(head));
  return head;
}

void SetFrameStatus(const Status& status, FrameHead* head) {
  head->code = status.code();
  head->text = CutUtf8(ReplaceInvalidUtf8(Message(status)), kMaxFrameStatusBytes);
  if (const auto wait = RetryAfter(status)) {
    const auto millis = std::chrono::ceil<std::chrono::milliseconds>(*wait).count();
    head->retry_millis =
        static_cast<uint32_t>(std::clamp<int64_t>(millis, 1, std::numeric_limits<uint32_t>::max()));
  }
}

Status FrameStatus(const FrameHead& head) {
  if (head.code == StatusCode::kOk) return OkStatus();
  const Status status = Answered(Status(head.code, head.text));
  if (head.retry_millis == 0) return status;
  return WithRetryAfter(status, std::chrono::milliseconds(head.retry_millis));
}

}  // namespace quire
