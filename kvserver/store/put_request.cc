// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/put_request.h"

#include <algorithm>

#include "common/base/checksum.h"

namespace quire::kvserver {

Status CheckPutArguments(const PutSegmentArgs& args) {
  if (args.spec == nullptr) return InvalidArgument("no KvSpec given");
  const KvSpec& spec = *args.spec;
  if (const std::string problem = Problem(spec); !problem.empty()) {
    return InvalidArgument("KvSpec: ", problem);
  }
  if (args.tokens.empty() || args.tokens.size() > spec.segment_tokens()) {
    return InvalidArgument("a segment of ", args.tokens.size(), " tokens; give 1..",
                           spec.segment_tokens());
  }
  if (std::ranges::any_of(args.tokens, [](TokenId id) { return id < 0; })) {
    return InvalidArgument("a token id is negative; token ids count from 0");
  }
  const uint64_t expected = SegmentBytes(spec, PageCount(spec, args.tokens.size()));
  if (args.payload.size() != expected || expected > kMaxSegmentBytes) {
    return InvalidArgument("payload of ", args.payload.size(), " bytes; ", args.tokens.size(),
                           " tokens of this KvSpec take ", expected, " bytes, and at most ",
                           kMaxSegmentBytes, " are allowed (lower segment_pages)");
  }
  return OkStatus();
}

SegmentRecord MakeRecord(std::string_view tenant, const PutSegmentArgs& args) {
  SegmentRecord record;
  record.tenant = tenant;
  record.spec = *args.spec;
  record.parent = args.parent;
  record.tokens.assign(args.tokens.begin(), args.tokens.end());
  const uint64_t unit_bytes = quire::UnitBytes(record.spec);
  record.unit_crc32c.reserve(args.payload.size() / unit_bytes);
  for (uint64_t at = 0; at < args.payload.size(); at += unit_bytes) {
    record.unit_crc32c.push_back(Crc32c(args.payload.subspan(at, unit_bytes)));
  }
  return record;
}

std::vector<ExtentView> SplitExtents(const SegmentKey& key, const SegmentRecord& record,
                                     std::span<const std::byte> payload, const PrefillCost& cost) {
  const uint64_t bytes = ExtentBytes(record.spec, record.num_pages());
  const uint32_t units = record.units_per_layer();
  const std::span<const uint32_t> crcs(record.unit_crc32c);
  const double seconds_per_token = cost.SecondsPerToken(record.first_token, record.tokens.size());
  std::vector<ExtentView> extents;
  for (uint32_t layer = 0; layer < record.spec.num_layers; ++layer) {
    extents.push_back({.id = {key, layer},
                       .bytes = payload.subspan(layer * bytes, bytes),
                       .unit_crc32c = crcs.subspan(size_t{layer} * units, units),
                       .full_bytes = ExtentBytes(record.spec, record.spec.segment_pages),
                       .tenant = record.tenant,
                       .parent = record.parent,
                       .seconds_per_token = seconds_per_token});
  }
  return extents;
}

}  // namespace quire::kvserver
