// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes conversions of bytes to values: the payload split, protobuf parsing and every conversion
// that checks. The first byte picks the message. Accepted input must survive a round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/wire/convert.h"
#include "common/wire/convert_context.h"
#include "common/wire/convert_document.h"
#include "common/wire/limits.h"
#include "common/wire/wire_split.h"
#include "quire/client.h"
#include "quire/v1/session.pb.h"
#include "tests/fuzz/messages.h"

namespace {

using namespace quire;
using fuzz::Parse;

void CheckSpec(const v1::KvSpec& proto) {
  const auto spec = wire::KvSpecFromProto(proto);
  if (!spec.ok()) return;
  v1::KvSpec again;
  wire::KvSpecToProto(*spec, &again);
  const auto back = wire::KvSpecFromProto(again);
  if (!back.ok() || *back != *spec) std::abort();
  if (UnitBytes(*spec) == 0 || SegmentBytes(*spec, spec->segment_pages) < UnitBytes(*spec)) {
    std::abort();
  }
}

void CheckSplit(std::string_view bytes) {
  Payload message, payload;
  // Two slices, so that fields cross a boundary.
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  message.Append(Slice{{data, bytes.size() / 2}, nullptr});
  message.Append(Slice{{data + bytes.size() / 2, bytes.size() - bytes.size() / 2}, nullptr});
  std::string control;
  if (!wire::SplitMessage(message, &control, &payload).ok()) return;
  if (control.size() + payload.size_bytes() > bytes.size()) std::abort();
}

void CheckRequest(std::string_view bytes) {
  if (v1::AppendPagesRequest append; Parse(bytes, &append)) {
    (void)wire::TokensFromProto(append.tokens(), 0, wire::kMaxContextTokens, "tokens");
  }
  if (v1::QuerySelection query; Parse(bytes, &query)) {
    (void)wire::FloatsFromBytes(query.queries(), query.queries().size() / sizeof(float), "queries");
  }
  if (v1::DeleteRequest request; Parse(bytes, &request)) {
    (void)wire::KeysFromProto(request.segment_keys(), 65536, "segment_keys");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      if (v1::KvSpec spec; Parse(bytes, &spec)) CheckSpec(spec);
      break;
    case 1:
      if (v1::ContextRef ref; Parse(bytes, &ref)) (void)wire::ContextRefFromProto(ref);
      break;
    case 2:
      if (v1::ContextInfo info; Parse(bytes, &info)) (void)wire::ContextInfoFromProto(info);
      break;
    case 3:
      if (v1::Document document; Parse(bytes, &document)) {
        (void)wire::DocumentFromProto(document);
      }
      break;
    case 4:
      CheckSplit(bytes);
      break;
    case 5:
      CheckRequest(bytes);
      break;
    default:
      (void)wire::CheckTenantName(bytes);
      (void)wire::CheckName(bytes, "name");
      (void)wire::CheckContentHash(bytes);
  }
  return 0;
}
