// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/memory/payload_cutter.h"
#include "common/wire/limits.h"
#include "kvserver/service/adapters/adapters.h"
#include "quire/objects.h"
#include "quire/v1/object.pb.h"

namespace quire::kvserver {
namespace {

Status CheckObjectCount(int count) {
  if (count >= 1 && count <= static_cast<int>(wire::kMaxObjectsOfCall)) return OkStatus();
  return InvalidArgument(count, " objects: name 1..", wire::kMaxObjectsOfCall, " in one call");
}

Status CheckObjectKey(std::string_view key) {
  if (!key.empty() && key.size() <= kMaxObjectKeyBytes) return OkStatus();
  return InvalidArgument("an object's key of ", key.size(), " bytes; give 1..", kMaxObjectKeyBytes);
}

/// Size and shape of an object to put, checked before any arithmetic with them.
StatusOr<ObjectShape> ShapeToPut(const v1::ObjectToPut& object) {
  QUIRE_RETURN_IF_ERROR(CheckObjectKey(object.key()));
  if (object.size_bytes() == 0 || object.size_bytes() > kMaxObjectBytes) {
    return InvalidArgument("an object of ", object.size_bytes(), " bytes; give 1..",
                           kMaxObjectBytes, ", and cut larger ones");
  }
  const ObjectShape shape = ObjectShape::Of(object.size_bytes());
  if (static_cast<uint32_t>(object.unit_crc32c_size()) != shape.units()) {
    return InvalidArgument(object.unit_crc32c_size(), " checksums for an object of ",
                           object.size_bytes(), " bytes, which has ", shape.units(), " units");
  }
  return shape;
}

/// Cuts units off a payload: in place where a slice holds the whole unit, otherwise as a copy.
class UnitCutter {
 public:
  /// `payload` outlives the cutter and what it cuts.
  explicit UnitCutter(const Payload& payload) : cutter_(payload) {}

  std::vector<std::span<const std::byte>> Cut(const ObjectShape& shape) {
    std::vector<std::span<const std::byte>> units;
    units.reserve(shape.units());
    for (uint32_t unit = 0; unit < shape.units(); ++unit) {
      whole_.push_back(cutter_.Cut(shape.unit_bytes).Flatten());
      units.push_back(whole_.back().bytes);
    }
    return units;
  }

 private:
  PayloadCutter cutter_;
  std::vector<Slice> whole_;
};

/// Most bytes of a slice of joined units, which a transport can cut a reply at.
constexpr uint64_t kMostJoinedBytes = 1 << 20;

/// Adds units to a payload. Units that follow each other in memory of one owner become one slice.
class UnitJoiner {
 public:
  explicit UnitJoiner(Payload* payload) : payload_(*payload) {}
  ~UnitJoiner() { payload_.Append(std::move(run_)); }

  void Add(Slice unit) {
    if (run_.owner == unit.owner && run_.owner != nullptr &&
        run_.bytes.size() + unit.bytes.size() <= kMostJoinedBytes &&
        run_.bytes.data() + run_.bytes.size() == unit.bytes.data()) {
      run_.bytes = {run_.bytes.data(), run_.bytes.size() + unit.bytes.size()};
      return;
    }
    payload_.Append(std::exchange(run_, std::move(unit)));
  }

 private:
  Payload& payload_;
  Slice run_;
};

class ObjectAdapters {
 public:
  ObjectAdapters(PageStore* store, uint64_t max_reply_bytes)
      : store_(*store), max_reply_bytes_(max_reply_bytes) {}

  Status Put(const Call& call, const v1::PutObjectsRequest& request,
             v1::PutObjectsReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckObjectCount(request.objects_size()));
    QUIRE_ASSIGN_OR_RETURN(const Durability durability, DurabilityFromProto(request.durability()));
    uint64_t bytes = 0;
    for (const v1::ObjectToPut& object : request.objects()) {
      QUIRE_ASSIGN_OR_RETURN(const ObjectShape shape, ShapeToPut(object));
      bytes += shape.stored_bytes();
    }
    if (bytes != call.payload.size_bytes()) {
      return InvalidArgument("a payload of ", call.payload.size_bytes(),
                             " bytes for objects whose units have ", bytes);
    }
    UnitCutter cutter(call.payload);
    for (const v1::ObjectToPut& object : request.objects()) {
      const ObjectToStore stored{object.key(), object.size_bytes()};
      const auto units = cutter.Cut(ObjectShape::Of(object.size_bytes()));
      PutSegmentArgs args;
      args.object = &stored;
      args.payload_rows = units;
      args.unit_crc32c = {object.unit_crc32c().data(),
                          static_cast<size_t>(object.unit_crc32c_size())};
      args.durability = durability;
      args.strict = request.strict();
      QUIRE_ASSIGN_OR_RETURN(const PutSegmentResult result, store_.PutSegment(call.tenant, args));
      v1::ObjectPut* const put = reply->add_objects();
      put->set_existed(result.existed);
      put->set_differs(result.differs);
    }
    return OkStatus();
  }

  Status Get(const Call& call, const v1::GetObjectsRequest& request,
             v1::GetObjectsReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckObjectCount(request.ranges_size()));
    QUIRE_RETURN_IF_ERROR(RecheckMismatched(call, request));
    UnitJoiner joiner(call.reply_payload);
    uint64_t room = max_reply_bytes_;
    for (const v1::ObjectRange& range : request.ranges()) {
      QUIRE_RETURN_IF_ERROR(CheckObjectKey(range.key()));
      const bool is_first = reply->objects_size() == 0;
      QUIRE_ASSIGN_OR_RETURN(const bool is_whole,
                             Read(call, range, is_first, &room, joiner, reply));
      if (!is_whole) break;
    }
    return OkStatus();
  }

  Status Stat(const Call& call, const v1::StatObjectsRequest& request,
              v1::StatObjectsReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckObjectCount(request.keys_size()));
    for (const std::string& key : request.keys()) {
      QUIRE_RETURN_IF_ERROR(CheckObjectKey(key));
      const auto found = store_.FindObject(call.tenant, key, nullptr);
      if (!found.ok() && !IsNotFound(found.status())) return found.status();
      reply->add_size_bytes(found.ok() ? found->size_bytes : 0);
    }
    return OkStatus();
  }

  Status Delete(const Call& call, const v1::DeleteObjectsRequest& request,
                v1::DeleteObjectsReply* reply) const {
    QUIRE_RETURN_IF_ERROR(CheckObjectCount(request.keys_size()));
    for (const std::string& key : request.keys()) {
      QUIRE_RETURN_IF_ERROR(CheckObjectKey(key));
      QUIRE_ASSIGN_OR_RETURN(const bool deleted, DeleteOne(call, key));
      reply->add_deleted(deleted);
    }
    return OkStatus();
  }

 private:
  static StatusOr<Durability> DurabilityFromProto(v1::Durability durability) {
    switch (static_cast<int>(durability)) {
      case v1::DURABILITY_UNSPECIFIED:
      case v1::DURABILITY_MEMORY:
        return Durability::kMemory;
      case v1::DURABILITY_PERSISTED:
        return Durability::kPersisted;
      case v1::DURABILITY_REPLICATED:
        return Unimplemented("objects have no replicas; ask for memory or persisted");
    }
    return InvalidArgument("durability is ", static_cast<int>(durability), ": must be 0..3");
  }

  /// Adds what there is room for of a range, and lowers `room`. `is_first`: one unit at least.
  /// Returns false when the reply is full.
  StatusOr<bool> Read(const Call& call, const v1::ObjectRange& range, bool is_first, uint64_t* room,
                      UnitJoiner& joiner, v1::GetObjectsReply* reply) const {
    SegmentHold hold;
    const auto found = store_.FindObject(call.tenant, range.key(), &hold);
    if (IsNotFound(found.status())) return AddMissing(reply);
    QUIRE_RETURN_IF_ERROR(found.status());
    const uint64_t size = found->size_bytes;
    if (range.offset() >= size) {
      return InvalidArgument("the offset ", range.offset(), " is not inside the object of ", size,
                             " bytes");
    }
    const ObjectShape shape = ObjectShape::Of(size);
    const uint64_t rest = size - range.offset();
    const uint64_t end =
        range.offset() + (range.bytes() == 0 ? rest : std::min(rest, range.bytes()));
    const auto first = static_cast<uint32_t>(range.offset() / shape.unit_bytes);
    const auto wanted = static_cast<uint32_t>((end - 1) / shape.unit_bytes) - first + 1;
    const uint64_t fitting = std::max<uint64_t>(*room / shape.unit_bytes, is_first ? 1 : 0);
    if (fitting == 0) return false;
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(wanted, fitting));
    std::vector<UnitAddress> addresses;
    addresses.reserve(count);
    for (uint32_t unit = first; unit < first + count; ++unit) {
      addresses.push_back(AddressOf(*found, unit));
    }
    std::vector<UnitBytes> units;
    const Status read =
        store_.ReadUnits({call.tenant, call.context.priority}, addresses, {}, &units);
    // Lost since, or found damaged: a cache has no better answer than that it is not there.
    if (IsNotFound(read) || IsDataLoss(read)) return AddMissing(reply);
    QUIRE_RETURN_IF_ERROR(read);
    v1::ObjectUnits* const object = reply->add_objects();
    object->set_size_bytes(size);
    object->set_incarnation(found->incarnation);
    object->set_first_unit(first);
    object->mutable_unit_crc32c()->Reserve(static_cast<int>(count));
    for (UnitBytes& unit : units) {
      OutboundBytes sent = std::move(unit).ToSend();
      object->add_unit_crc32c(sent.crc32c);
      joiner.Add(std::move(sent.slice));
    }
    *room -= std::min(*room, uint64_t{count} * shape.unit_bytes);
    return count == wanted;
  }

  static bool AddMissing(v1::GetObjectsReply* reply) {
    reply->add_objects();
    return true;
  }

  static UnitAddress AddressOf(const StoredObjectStat& object, uint32_t unit) {
    const ObjectShape shape = ObjectShape::Of(object.size_bytes);
    return {object.key, unit / shape.units_per_extent, unit % shape.units_per_extent};
  }

  Status RecheckMismatched(const Call& call, const v1::GetObjectsRequest& request) const {
    if (static_cast<uint32_t>(request.mismatched_size()) > wire::kMaxMismatchedUnits) {
      return InvalidArgument(request.mismatched_size(), " mismatched units: at most ",
                             wire::kMaxMismatchedUnits);
    }
    std::vector<ReportedUnit> reported;
    for (const v1::MismatchedObjectUnit& unit : request.mismatched()) {
      QUIRE_RETURN_IF_ERROR(CheckObjectKey(unit.key()));
      const auto found = store_.FindObject(call.tenant, unit.key(), nullptr);
      if (IsNotFound(found.status())) continue;
      QUIRE_RETURN_IF_ERROR(found.status());
      if (unit.unit() >= ObjectShape::Of(found->size_bytes).units())
        continue;  // Another object had it.
      reported.push_back({AddressOf(*found, unit.unit()), unit.crc32c()});
    }
    const Status mended = store_.Recheck({call.tenant, call.context.priority}, reported);
    // The read finds it missing.
    return IsNotFound(mended) || IsDataLoss(mended) ? OkStatus() : mended;
  }

  StatusOr<bool> DeleteOne(const Call& call, const std::string& key) const {
    const auto found = store_.FindObject(call.tenant, key, nullptr);
    const bool missing = IsNotFound(found.status());
    if (!found.ok()) return missing ? StatusOr<bool>(false) : found.status();
    const Status deleted = store_.DeleteSegment(call.tenant, found->key);
    if (!deleted.ok() && !IsNotFound(deleted)) return deleted;
    return deleted.ok();
  }

  PageStore& store_;
  const uint64_t max_reply_bytes_;
};

template <typename Request, typename Reply>
void BindObjects(const std::shared_ptr<const ObjectAdapters>& adapters, const std::string& name,
                 Status (ObjectAdapters::*method)(const Call&, const Request&, Reply*) const,
                 Dispatcher* dispatcher, PayloadUse use = PayloadUse::kMany) {
  dispatcher->Add<Request, Reply>(
      "quire.v1.Objects/" + name,
      [adapters, method](const Call& call, const Request& request, Reply* reply) {
        return (*adapters.*method)(call, request, reply);
      },
      use);
}

}  // namespace

void AddObjectMethods(PageStore* store, uint64_t max_reply_bytes, Dispatcher* dispatcher) {
  const auto adapters = std::make_shared<const ObjectAdapters>(store, max_reply_bytes);
  // A put copies each unit and makes its checksum in one pass, and compares that with the sender's.
  BindObjects(adapters, "Put", &ObjectAdapters::Put, dispatcher, PayloadUse::kOnce);
  BindObjects(adapters, "Get", &ObjectAdapters::Get, dispatcher);
  BindObjects(adapters, "Stat", &ObjectAdapters::Stat, dispatcher);
  BindObjects(adapters, "Delete", &ObjectAdapters::Delete, dispatcher);
}

}  // namespace quire::kvserver
