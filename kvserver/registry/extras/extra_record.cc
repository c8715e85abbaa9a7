// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/extras/extra_record.h"

#include <utility>

#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kExtraFormat = 1;
constexpr uint8_t kExtraWithSegments = 2;

Status DamagedExtra(std::string_view name) {
  return DataLoss("extra '", name, "' of the document is damaged; put it again");
}

struct Record {
  Extra extra;
  std::vector<SegmentKey> segments;
};

StatusOr<Record> Decode(std::string_view name, std::string_view encoded) {
  ByteReader in = OpenRecord(encoded);
  const auto format = in.Number<uint8_t>();
  Record record{.extra = {.name = std::string(name)}, .segments = {}};
  record.extra.version = in.Number<uint32_t>();
  record.extra.size = in.Number<uint64_t>();
  record.extra.crc32c = in.Number<uint32_t>();
  record.extra.created_unix_micros = in.Number<int64_t>();
  const uint32_t count = format == kExtraWithSegments ? in.Number<uint32_t>() : 0;
  if (count > kMostExtraSegments) return DamagedExtra(name);
  for (uint32_t i = 0; i < count; ++i) record.segments.push_back({in.Bytes<32>()});
  const bool known = format == kExtraFormat || format == kExtraWithSegments;
  record.extra.num_segments = count;
  if (known && in.ok() && in.at_end()) return record;
  return DamagedExtra(name);
}

}  // namespace

std::string EncodeExtra(const Extra& extra, std::span<const SegmentKey> segments) {
  ByteWriter out;
  out.Number(segments.empty() ? kExtraFormat : kExtraWithSegments);
  out.Number(extra.version);
  out.Number(extra.size);
  out.Number(extra.crc32c);
  out.Number(extra.created_unix_micros);
  if (!segments.empty()) out.Number(static_cast<uint32_t>(segments.size()));
  for (const SegmentKey& key : segments) out.Raw(key.view());
  return CloseRecord(out);
}

StatusOr<Extra> DecodeExtra(std::string_view name, std::string_view encoded) {
  QUIRE_ASSIGN_OR_RETURN(Record record, Decode(name, encoded));
  return std::move(record.extra);
}

StatusOr<std::vector<SegmentKey>> DecodeExtraSegments(std::string_view name,
                                                      std::string_view encoded) {
  QUIRE_ASSIGN_OR_RETURN(Record record, Decode(name, encoded));
  return std::move(record.segments);
}

std::string EncodeExtraBytes(std::string_view bytes) {
  ByteWriter out;
  out.Raw(bytes);
  return CloseRecord(out);
}

StatusOr<std::string> DecodeExtraBytes(std::string_view name, std::string_view encoded) {
  const auto checked = VerifyTrailer(encoded);
  if (!checked) return DamagedExtra(name);
  return std::string(AsText(checked->bytes));
}

}  // namespace quire::kvserver
