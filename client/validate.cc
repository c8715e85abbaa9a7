// SPDX-License-Identifier: Apache-2.0
#include "client/validate.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <variant>

#include "client/reply.h"
#include "common/base/memory/checksum.h"
#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/limits.h"
#include "quire/layout.h"

namespace quire::internal {

Status CheckSpec(const KvSpec& spec) {
  const std::string problem = Problem(spec);
  return problem.empty() ? OkStatus() : InvalidArgument("the KvSpec is not valid: ", problem);
}

Status CheckName(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(wire::CheckCollection(name.collection));
  return wire::CheckName(name.name, "name");
}

Status CheckRef(const ContextRef& context) {
  const auto* document = std::get_if<DocumentName>(&context);
  return document == nullptr ? OkStatus() : CheckName(*document);
}

StatusOr<ContextInfo> ContextFromReply(std::string_view method, const v1::ContextInfo& info) {
  auto context = wire::ContextInfoFromProto(info);
  if (!context.ok()) return BadReply(method, Message(context.status()));
  if (context->chain_tip == kRootKey) return context;  // Open: its last segment has no key yet.
  const uint32_t segments = SegmentCount(context->spec, context->num_tokens);
  if (context->segment_keys.size() != segments || segments == 0 ||
      context->segment_keys.back() != context->chain_tip) {
    return BadReply(method, context->segment_keys.size(), " segment keys for ", context->num_tokens,
                    " tokens, or the last is not the chain's tip");
  }
  return context;
}

Status CheckPayloadSize(std::string_view what, const Payload& payload, uint64_t bytes) {
  if (payload.size_bytes() == bytes) return OkStatus();
  return InvalidArgument(what, " has ", payload.size_bytes(), " bytes; its tokens and KvSpec make ",
                         bytes);
}

uint32_t PayloadCrc32c(const Payload& payload) {
  uint32_t crc = 0;
  for (const Slice& slice : payload.slices()) crc = Crc32c(slice.bytes, crc);
  return crc;
}

Status CheckUnits(const Payload& payload, uint64_t num_units, uint64_t unit_bytes,
                  std::span<const uint32_t> unit_crc32c, std::vector<UnitMismatch>* mismatches) {
  if (unit_crc32c.size() != num_units) {
    return DataLoss(unit_crc32c.size(), " checksums for ", num_units, " units");
  }
  if (payload.size_bytes() != num_units * unit_bytes) {
    return DataLoss(payload.size_bytes(), " payload bytes for ", num_units, " units of ",
                    unit_bytes);
  }
  const std::vector<UnitMismatch> found = FindMismatches(payload, unit_bytes, unit_crc32c);
  if (found.empty()) return OkStatus();
  if (mismatches != nullptr) mismatches->insert(mismatches->end(), found.begin(), found.end());
  return DataLoss("unit ", found.front().unit, " does not match its checksum");
}

StatusOr<std::vector<uint32_t>> LayersOf(const SessionOptions& options) {
  QUIRE_RETURN_IF_ERROR(CheckSpec(options.spec));
  if (options.slots_per_head == 0 || options.slots_per_head > wire::kMaxSlotsPerHead) {
    return InvalidArgument("slots_per_head is ", options.slots_per_head, "; it must be 1 to ",
                           wire::kMaxSlotsPerHead);
  }
  std::vector<uint32_t> layers = options.managed_layers;
  if (layers.empty()) {
    layers.resize(options.spec.num_layers);
    std::iota(layers.begin(), layers.end(), 0u);
  }
  std::vector<uint32_t> sorted = layers;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.back() >= options.spec.num_layers ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return InvalidArgument("managed_layers must be distinct and below ", options.spec.num_layers);
  }
  if (UnitBytes(options.spec, options.part) == 0) {
    return InvalidArgument("part: the units of this spec (MLA) have no values apart from keys");
  }
  if (options.part != UnitPart::kWhole && options.codecs != CodecSet()) {
    return InvalidArgument("codecs: an encoded unit comes whole; ask for whole units");
  }
  return layers;
}

}  // namespace quire::internal
