// SPDX-License-Identifier: Apache-2.0
//
// Client's methods of the Objects service.
#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "client/caller.h"
#include "client/durability.h"
#include "client/objects/object_reads.h"
#include "client/validate.h"
#include "common/base/memory/payload_cutter.h"
#include "common/wire/limits.h"
#include "quire/client.h"
#include "quire/objects.h"
#include "quire/v1/object.pb.h"

namespace quire {

using namespace internal;

namespace {

constexpr CallSpec kPutObjects = {"quire.v1.Objects/Put", Repeat::kSafe};
constexpr CallSpec kGetObjects = {ObjectReads::kMethod, Repeat::kSafe};
constexpr CallSpec kStatObjects = {"quire.v1.Objects/Stat", Repeat::kSafe};
constexpr CallSpec kDeleteObjects = {"quire.v1.Objects/Delete", Repeat::kOnlyIfRefused};

/// The zeros after an object's bytes: less than one for each unit.
constexpr std::array<std::byte, ObjectShape::Of(kMaxObjectBytes).units()> kZeros = {};

Status CheckObjectKey(std::string_view key) {
  if (!key.empty() && key.size() <= kMaxObjectKeyBytes) return OkStatus();
  return InvalidArgument("an object's key of ", key.size(), " bytes: give 1..", kMaxObjectKeyBytes);
}

/// `limit` is that of messages.
Status CheckObject(const ObjectToPut& object, uint64_t limit) {
  QUIRE_RETURN_IF_ERROR(CheckObjectKey(object.key));
  const uint64_t bytes = object.bytes.size_bytes();
  if (bytes == 0) return InvalidArgument("an object of 0 bytes: objects have 1 byte or more");
  if (bytes <= std::min(kMaxObjectBytes, limit - limit / 8)) return OkStatus();
  return InvalidArgument("an object of ", bytes, " bytes, and a message of ", limit,
                         " bytes takes one of at most ",
                         std::min(kMaxObjectBytes, limit - limit / 8),
                         ": cut it, or raise max_message_bytes at both ends");
}

/// Adds an object to a request, and its units to the payload.
void AddObject(const ObjectToPut& object, v1::PutObjectsRequest* request, Payload* payload) {
  const ObjectShape shape = ObjectShape::Of(object.bytes.size_bytes());
  Payload units = object.bytes;
  const uint64_t zeros = shape.stored_bytes() - units.size_bytes();
  units.Append(Slice{std::span(kZeros).first(zeros), nullptr});
  v1::ObjectToPut* const to_put = request->add_objects();
  to_put->set_key(object.key);
  to_put->set_size_bytes(object.bytes.size_bytes());
  to_put->mutable_unit_crc32c()->Reserve(static_cast<int>(shape.units()));
  PayloadCutter cutter(units);
  for (uint32_t unit = 0; unit < shape.units(); ++unit) {
    to_put->add_unit_crc32c(PayloadCrc32c(cutter.Cut(shape.unit_bytes)));
  }
  payload->Append(units);
}

/// Size of a message of several objects. Smaller ones would not amortise a call, and in larger ones
/// the server waits longer for its work.
constexpr uint64_t kPutMessageBytes = 2 << 20;

/// Size of the pieces in which replies come over a wire.
constexpr uint32_t kPieceBytes = 1 << 20;

/// The payload with slices that follow each other in memory of one owner as one.
Payload Joined(const Payload& payload) {
  Payload joined;
  Slice run;
  for (const Slice& slice : payload.slices()) {
    const bool follows =
        run.owner == slice.owner && run.bytes.data() + run.bytes.size() == slice.bytes.data();
    if (follows && !run.bytes.empty()) {
      run.bytes = {run.bytes.data(), run.bytes.size() + slice.bytes.size()};
      continue;
    }
    joined.Append(std::exchange(run, slice));
  }
  joined.Append(std::move(run));
  joined.AddLeases(payload);
  return joined;
}

/// Bytes of an object in a message, with room for its fields.
uint64_t MessageBytesOf(const ObjectToPut& object) {
  constexpr uint64_t kFieldBytes = 64;
  const ObjectShape shape = ObjectShape::Of(object.bytes.size_bytes());
  return shape.stored_bytes() + sizeof(uint32_t) * shape.units() + object.key.size() + kFieldBytes;
}

/// How many of the first objects one message of `limit` bytes takes; at least 1.
size_t CountOfMessage(std::span<const ObjectToPut> objects, uint64_t limit) {
  size_t count = 1;
  uint64_t bytes = MessageBytesOf(objects.front());
  while (count < objects.size() && count < wire::kMaxObjectsOfCall) {
    bytes += MessageBytesOf(objects[count]);
    if (bytes > limit) break;
    ++count;
  }
  return count;
}

/// Calls `call(first, count)` for keys in turn, as many as one call names.
template <typename Call>
Status InCalls(size_t count, const Call& call) {
  for (size_t first = 0; first < count; first += wire::kMaxObjectsOfCall) {
    QUIRE_RETURN_IF_ERROR(call(first, std::min<size_t>(wire::kMaxObjectsOfCall, count - first)));
  }
  return OkStatus();
}

Status CheckAnswers(const CallSpec& spec, int answers, int keys) {
  if (answers == keys) return OkStatus();
  return BadReply(spec.method, answers, " answers for ", keys, " objects");
}

}  // namespace

StatusOr<std::vector<PutObjectReply>> Client::PutObjects(std::span<const ObjectToPut> objects,
                                                         const PutOptions& options) {
  const uint64_t limit = caller_->data_transport().capabilities().max_message_bytes;
  for (const ObjectToPut& object : objects) QUIRE_RETURN_IF_ERROR(CheckObject(object, limit));
  std::span<const ObjectToPut> to_send = objects;
  std::deque<int> counts;  // Objects of each call in flight.
  const auto next = [&]() -> StatusOr<std::optional<CallMessage>> {
    if (to_send.empty()) return std::nullopt;
    v1::PutObjectsRequest request;
    request.set_durability(ToProto(options.durability));
    request.set_strict(options.strict);
    CallMessage message;
    const size_t count = CountOfMessage(to_send, std::min(limit, kPutMessageBytes));
    for (const ObjectToPut& object : to_send.first(count)) {
      AddObject(object, &request, &message.payload);
    }
    QUIRE_RETURN_IF_ERROR(
        Annotate(wire::Encode(request, &message.control), "the request to ", kPutObjects.method));
    to_send = to_send.subspan(count);
    counts.push_back(static_cast<int>(count));
    return message;
  };
  std::vector<PutObjectReply> replies;
  const auto take = [&](const CallMessage& message) -> Status {
    v1::PutObjectsReply reply;
    QUIRE_RETURN_IF_ERROR(DecodeReply(kPutObjects.method, message.control, &reply));
    QUIRE_RETURN_IF_ERROR(CheckAnswers(kPutObjects, reply.objects_size(), counts.front()));
    counts.pop_front();
    for (const v1::ObjectPut& put : reply.objects()) {
      replies.push_back({.existed = put.existed(), .differs = put.differs()});
    }
    return OkStatus();
  };
  QUIRE_RETURN_IF_ERROR(caller_->CallAhead(kPutObjects, caller_->NewDeadline(), next, take));
  return replies;
}

Status Client::ReadObjects(ObjectReads* reads) {
  for (const ObjectReads::Read& read : reads->reads()) {
    QUIRE_RETURN_IF_ERROR(CheckObjectKey(read.key));
  }
  const TimePoint deadline = caller_->NewDeadline();
  const auto take = [reads](const CallMessage& message, bool is_first) -> Status {
    if (is_first) {
      v1::GetObjectsReply reply;
      QUIRE_RETURN_IF_ERROR(DecodeReply(kGetObjects.method, message.control, &reply));
      QUIRE_RETURN_IF_ERROR(reads->Begin(std::move(reply)));
    }
    return reads->Take(message.payload);
  };
  // Bytes that cross a wire are verified and copied while others are on their way.
  const bool in_place = caller_->data_transport().capabilities().in_place;
  v1::GetObjectsRequest request;
  while (reads->Next(&request)) {
    CallMessage out;
    QUIRE_RETURN_IF_ERROR(
        Annotate(wire::Encode(request, &out.control), "the request to ", kGetObjects.method));
    QUIRE_RETURN_IF_ERROR(
        caller_->CallInPieces(kGetObjects, out, in_place ? 0 : kPieceBytes, deadline, take));
    QUIRE_RETURN_IF_ERROR(reads->End());
  }
  return OkStatus();
}

StatusOr<std::vector<std::optional<ObjectBytes>>> Client::GetObjects(
    std::span<const ObjectRange> ranges) {
  std::vector<ObjectReads::Read> wanted;
  wanted.reserve(ranges.size());
  for (const ObjectRange& range : ranges) {
    wanted.push_back({.key = range.key, .offset = range.offset, .bytes = range.bytes});
  }
  ObjectReads reads(std::move(wanted));
  QUIRE_RETURN_IF_ERROR(ReadObjects(&reads));
  std::vector<std::optional<ObjectBytes>> objects;
  objects.reserve(ranges.size());
  for (ObjectReads::Read& read : reads.reads()) {
    objects.emplace_back();
    if (read.object_bytes == 0) continue;
    objects.back() = {.object_bytes = read.object_bytes, .payload = Joined(read.kept)};
  }
  return objects;
}

StatusOr<std::vector<std::optional<uint64_t>>> Client::GetObjectsInto(
    std::span<const ObjectInto> objects) {
  std::vector<ObjectReads::Read> wanted;
  wanted.reserve(objects.size());
  for (const ObjectInto& object : objects) {
    if (object.to.empty()) {
      return InvalidArgument("no memory for the bytes of an object: give 1 byte or more");
    }
    wanted.push_back(
        {.key = object.key, .offset = object.offset, .to = &object.to, .exact = object.exact});
  }
  ObjectReads reads(std::move(wanted));
  QUIRE_RETURN_IF_ERROR(ReadObjects(&reads));
  std::vector<std::optional<uint64_t>> read_bytes;
  read_bytes.reserve(objects.size());
  for (const ObjectReads::Read& read : reads.reads()) {
    read_bytes.push_back(read.object_bytes == 0 ? std::nullopt : std::optional(read.taken));
  }
  return read_bytes;
}

StatusOr<std::vector<std::optional<uint64_t>>> Client::StatObjects(
    std::span<const std::string> keys) {
  for (const std::string& key : keys) QUIRE_RETURN_IF_ERROR(CheckObjectKey(key));
  const TimePoint deadline = caller_->NewDeadline();
  std::vector<std::optional<uint64_t>> sizes;
  const auto ask = [&](size_t first, size_t count) -> Status {
    v1::StatObjectsRequest request;
    for (const std::string& key : keys.subspan(first, count)) request.add_keys(key);
    v1::StatObjectsReply reply;
    QUIRE_RETURN_IF_ERROR(
        caller_->CallForData(kStatObjects, request, {}, deadline, &reply, nullptr));
    QUIRE_RETURN_IF_ERROR(CheckAnswers(kStatObjects, reply.size_bytes_size(), count));
    for (const uint64_t size : reply.size_bytes()) {
      sizes.push_back(size == 0 ? std::nullopt : std::optional(size));
    }
    return OkStatus();
  };
  QUIRE_RETURN_IF_ERROR(InCalls(keys.size(), ask));
  return sizes;
}

StatusOr<std::vector<bool>> Client::DeleteObjects(std::span<const std::string> keys) {
  for (const std::string& key : keys) QUIRE_RETURN_IF_ERROR(CheckObjectKey(key));
  const TimePoint deadline = caller_->NewDeadline();
  std::vector<bool> deleted;
  const auto ask = [&](size_t first, size_t count) -> Status {
    v1::DeleteObjectsRequest request;
    for (const std::string& key : keys.subspan(first, count)) request.add_keys(key);
    v1::DeleteObjectsReply reply;
    QUIRE_RETURN_IF_ERROR(
        caller_->CallForData(kDeleteObjects, request, {}, deadline, &reply, nullptr));
    QUIRE_RETURN_IF_ERROR(CheckAnswers(kDeleteObjects, reply.deleted_size(), count));
    for (const bool was_stored : reply.deleted()) deleted.push_back(was_stored);
    return OkStatus();
  };
  QUIRE_RETURN_IF_ERROR(InCalls(keys.size(), ask));
  return deleted;
}

}  // namespace quire
