// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes conversions of messages to component inputs, beyond common/wire: the server's sessions,
// the worker's calls, the client's replies of recalls and objects, and the registry's stored
// records. The first byte picks one. Accepted input must keep to the bounds that its consumer
// relies on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/objects/object_reads.h"
#include "client/recall/recall_codec.h"
#include "common/base/memory/checksum.h"
#include "gpuworker/service/generate_call.h"
#include "kvserver/registry/collections/collection_settings.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/document_record.h"
#include "kvserver/service/adapters/session_convert.h"
#include "tests/fuzz/messages.h"
#include "tests/fuzz/recall_shape.h"
#include "tests/fuzz/require.h"

namespace {

using namespace quire;
using fuzz::Parse;
using fuzz::Require;
using namespace quire::internal;

/// Slots per head of its sequences; the seeds use the first.
constexpr uint32_t kSlotsOfSequences[] = {fuzz::RecallShape::kSequenceSlots, 4};
/// Shape of the session for the requests.
kvserver::SessionShape SessionShapeOf(const fuzz::RecallShape& shape) {
  return {.tenant = "t",
          .spec = shape.spec,
          .slots_per_head = shape.slots_per_head,
          .managed_layers = {0, 1}};
}

void CheckRecallRequest(std::string_view bytes) {
  v1::RecallRequest request;
  if (!Parse(bytes, &request)) return;
  const kvserver::SessionShape shape = SessionShapeOf(fuzz::RecallShape());
  const auto args = kvserver::RecallArgsFromProto(request, shape, kSlotsOfSequences);
  if (!args.ok()) return;
  // A lane named twice is the session's to refuse; it relies on the order of the pages.
  for (const kvserver::WantedLayers& want : args->wants) {
    Require(want.lanes.num_layers() >= 1);
    for (uint32_t head = 0; head < want.units.num_heads(); ++head) {
      const auto pages = want.units.Head(head);
      Require(pages.size() <= kSlotsOfSequences[want.lanes.sequence]);
      Require(std::ranges::adjacent_find(pages, std::greater_equal<>()) == pages.end());
    }
  }
}

void CheckSessionRequest(std::string_view bytes) {
  if (v1::OpenSessionRequest open; Parse(bytes, &open)) {
    if (const auto args = kvserver::OpenArgsFromProto(open); args.ok()) {
      Require(Problem(args->spec).empty());
      Require(!args->sequences.empty() && !args->sequences[0].members.empty());
    }
  }
  if (v1::ResyncRequest resync; Parse(bytes, &resync)) {
    const kvserver::SessionShape shape = SessionShapeOf(fuzz::RecallShape());
    if (const auto maps = kvserver::LaneMapsFromProto(resync, shape, kSlotsOfSequences);
        maps.ok()) {
      for (const kvserver::LaneMap& map : *maps) {
        Require(map.pages.size() == shape.spec.num_kv_heads * kSlotsOfSequences[map.sequence] &&
                map.generations.size() == map.pages.size());
      }
    }
  }
}

/// Checks a reply with `bytes` as its message, and as much payload as its placements claim, up to a
/// limit. An accepted reply must place only wanted pages, into existing slots.
void CheckRecallReply(std::string_view bytes) {
  v1::RecallReply reply;
  if (!Parse(bytes, &reply)) return;
  const fuzz::RecallShape shape;
  size_t units = 0;
  for (const v1::LanePlacement& lane : reply.lanes()) {
    for (const uint32_t count : lane.counts()) units = std::min<size_t>(units + count, 64);
  }
  const UnitSizes sizes(shape.spec, UnitPart::kWhole, CodecSet::All());
  size_t payload_bytes = reply.codecs().empty() ? units * sizes.raw() : 0;
  for (const v1::CodecRun& run : reply.codecs()) {
    payload_bytes +=
        std::min<size_t>(run.units(), 64) * sizes.Of(static_cast<UnitCodec>(run.codec()));
  }
  CallMessage body;
  body.payload.Append(fuzz::UnitPattern(std::min<size_t>(payload_bytes, 64 * sizes.raw())));
  WorkerSlots map = shape.Map();
  const std::vector<WantedLane> lanes = LanesOf(shape.wants);
  const auto part =
      PartFromProto(reply, std::move(body),
                    {.epoch = 1, .exchange = 1, .lanes = lanes, .sizes = sizes, .map = &map});
  if (!part.ok()) return;
  uint64_t sent = 0;
  for (size_t i = 0; i < part->placements.size(); ++i) sent += sizes.Of(part->CodecOf(i));
  Require(part->payload.size_bytes() == sent);
  Require(part->lanes.size() <= lanes.size() &&
          part->lanes.back().end_placement == part->placements.size());
  for (const Placement& placement : part->placements) {
    Require(placement.sequence == 0 && map.Manages(placement.layer) &&
            placement.head < map.num_heads() && placement.slot < map.slots_per_head(0));
    map.Place(placement);
  }
}

Status TakeWhole(ObjectReads& reads, const v1::GetObjectsReply& reply, const Payload& payload) {
  QUIRE_RETURN_IF_ERROR(reads.Begin(reply));
  QUIRE_RETURN_IF_ERROR(reads.Take(payload));
  return reads.End();
}

/// A reply with objects, whose units are zeros and have the right checksums.
void CheckObjectsReply(std::string_view bytes) {
  constexpr uint64_t kMostBytes = 1 << 20;
  v1::GetObjectsReply reply;
  if (!Parse(bytes, &reply)) return;
  Payload payload;
  const auto zeros = std::make_shared<const std::vector<std::byte>>(kMostBytes);
  for (v1::ObjectUnits& object : *reply.mutable_objects()) {
    if (object.size_bytes() == 0 || object.size_bytes() > kMaxObjectBytes) continue;
    const uint64_t unit_bytes = ObjectShape::Of(object.size_bytes()).unit_bytes;
    const uint64_t units = unit_bytes * object.unit_crc32c_size();
    if (units > kMostBytes) return;
    payload.Append(Slice{std::span(*zeros).first(units), zeros});
    const uint32_t crc32c = Crc32c(std::span(*zeros).first(unit_bytes));
    for (uint32_t& of_unit : *object.mutable_unit_crc32c()) of_unit = crc32c;
  }
  std::vector<std::byte> memory(100'000);
  Destination pieces = std::span(memory).first(30'000);
  pieces.Append(std::span(memory).subspan(30'000));
  ObjectReads reads({{.key = "whole"},
                     {.key = "range", .offset = 10, .bytes = 5000},
                     {.key = "into", .to = &pieces}});
  v1::GetObjectsRequest request;
  Require(reads.Next(&request));
  for (int replies = 0; replies < 3 && TakeWhole(reads, reply, payload).ok(); ++replies) {
    for (const ObjectReads::Read& read : reads.reads()) {
      Require(read.kept.size_bytes() == (read.to == nullptr ? read.taken : 0));
      Require(read.taken <= read.object_bytes && read.taken <= kMaxObjectBytes);
      Require(read.to == nullptr || read.taken <= read.to->size_bytes());
    }
    if (!reads.Next(&request)) return;
  }
}

void CheckGenerate(std::string_view bytes) {
  v1::GenerateRequest request;
  if (!Parse(bytes, &request)) return;
  const auto call = worker::ParseGenerate(request, worker::GenerateDefaults{}, {});
  if (!call.ok()) return;
  Require(call->params.max_new_tokens >= 1 && call->params.max_new_tokens <= worker::kMaxNewTokens);
  Require(std::ranges::all_of(call->prompt, [](TokenId token) { return token >= 0; }));
}

/// Checks the bytes as they are, and with a corrected checksum, so that mutations reach the fields.
template <typename Check>
void WithAndWithoutChecksum(std::string_view bytes, Check check) {
  check(bytes);
  uint32_t crc = 0;
  if (bytes.size() < sizeof crc) return;
  std::string sealed(bytes);
  const size_t body = sealed.size() - sizeof crc;
  crc = Crc32c(std::as_bytes(std::span(sealed).first(body)));
  std::memcpy(sealed.data() + body, &crc, sizeof crc);
  check(sealed);
}

void CheckDocumentRecord(std::string_view bytes) {
  WithAndWithoutChecksum(bytes, [](std::string_view encoded) {
    const auto document = kvserver::DecodeDocument({}, encoded);
    if (document.ok()) Require(kvserver::EncodeDocument(*document) == encoded);
  });
}

void CheckSegmentKeys(std::string_view bytes) {
  WithAndWithoutChecksum(bytes, [](std::string_view encoded) {
    const auto keys = kvserver::DecodeSegmentKeys(encoded);
    if (keys.ok()) Require(kvserver::EncodeSegmentKeys(*keys) == encoded);
  });
}

void CheckCollection(std::string_view bytes) {
  WithAndWithoutChecksum(bytes, [](std::string_view encoded) {
    const auto settings = kvserver::DecodeCollection("c", encoded);
    if (!settings.ok()) return;
    Require(kvserver::EncodeCollection(*settings) == encoded);
    Require(!settings->ttl_seconds || kvserver::CheckTtl(*settings->ttl_seconds).ok());
  });
}

void CheckDatabaseKeys(std::string_view key) {
  if (const auto name = kvserver::ParseDocumentName(key)) {
    Require(kvserver::CheckDocumentName(*name).ok());
  }
  if (const auto document = kvserver::ParseDocumentKey(key)) {
    // Not necessarily the same bytes: hexadecimal digits are read in both cases.
    const auto again =
        kvserver::ParseDocumentKey(kvserver::DocumentKey(document->tenant, document->name));
    Require(again && again->tenant == document->tenant);
    Require(kvserver::Describe(again->name) == kvserver::Describe(document->name));
  }
  if (const auto collection = kvserver::ParseCollectionKey(key)) {
    Require(kvserver::CheckCollection(collection->collection).ok());
    Require(kvserver::CollectionKey(collection->tenant, collection->collection) == key);
  }
  if (const auto pending = kvserver::ParsePendingDelete(key)) {
    // Not necessarily the same bytes: hexadecimal digits are read in both cases.
    const auto again =
        kvserver::ParsePendingDelete(kvserver::PendingDeleteKey(pending->tenant, pending->segment));
    Require(again && again->tenant == pending->tenant && again->segment == pending->segment);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr void (*kChecks[])(std::string_view) = {
      CheckRecallRequest, CheckSessionRequest, CheckRecallReply,
      CheckGenerate,      CheckDocumentRecord, CheckSegmentKeys,
      CheckDatabaseKeys,  CheckCollection,     CheckObjectsReply};
  kChecks[data[0] % std::size(kChecks)](
      std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
