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
  const uint64_t units = expected / quire::UnitBytes(spec);
  if (!args.unit_crc32c.empty() && args.unit_crc32c.size() != units) {
    return InvalidArgument(args.unit_crc32c.size(), " checksums for ", units, " units");
  }
  return OkStatus();
}

namespace {

/// The payload at an address where its elements may be read; a slice of a message starts anywhere.
std::span<const std::byte> Aligned(std::span<const std::byte> payload, DType dtype,
                                   std::vector<std::byte>& scratch) {
  if (reinterpret_cast<uintptr_t>(payload.data()) % ElementBytes(dtype) == 0) return payload;
  scratch.assign(payload.begin(), payload.end());
  return scratch;
}

Status EncodeUnits(const PutSegmentArgs& args, SegmentToStore& segment) {
  SegmentRecord& record = segment.record;
  QUIRE_ASSIGN_OR_RETURN(const ExtentCodec codec, ExtentCodec::Make(record.spec, record.codec.id));
  std::vector<std::byte> scratch;
  const auto payload = Aligned(args.payload, record.spec.dtype, scratch);
  const auto tokens = static_cast<uint32_t>(record.tokens.size());
  const uint64_t from = ExtentBytes(record.spec, record.num_pages());
  const uint64_t to = codec.encoded_bytes(tokens);
  const uint32_t units = record.units_per_layer();
  segment.encoded.resize(record.spec.num_layers * to);
  record.unit_crc32c.resize(size_t{record.spec.num_layers} * units);
  for (size_t layer = 0; layer < record.spec.num_layers; ++layer) {
    QUIRE_RETURN_IF_ERROR(
        codec.Encode(payload.subspan(layer * from, from), tokens,
                     std::span(segment.encoded).subspan(layer * to, to),
                     std::span(record.unit_crc32c).subspan(layer * units, units)));
  }
  segment.bytes = segment.encoded;
  return OkStatus();
}

/// Of every unit of the payload.
std::vector<uint32_t> ChecksumsOf(const PutSegmentArgs& args) {
  const uint64_t unit_bytes = quire::UnitBytes(*args.spec);
  std::vector<uint32_t> crc32c;
  crc32c.reserve(args.payload.size() / unit_bytes);
  for (uint64_t at = 0; at < args.payload.size(); at += unit_bytes) {
    crc32c.push_back(Crc32c(args.payload.subspan(at, unit_bytes)));
  }
  return crc32c;
}

/// Those that the units came with, when they still match; of units that have just arrived, theirs.
StatusOr<std::vector<uint32_t>> VerifiedChecksums(const PutSegmentArgs& args) {
  std::vector<uint32_t> now = ChecksumsOf(args);
  if (args.unit_crc32c.empty()) return now;
  const auto differs = std::ranges::mismatch(now, args.unit_crc32c).in1;
  if (differs == now.end()) return now;
  return DataLoss("unit ", differs - now.begin(), " of ", now.size(),
                  " to put does not match the checksum that it arrived with: it was damaged in "
                  "memory; send the pages again to a new context");
}

}  // namespace

StatusOr<SegmentToStore> EncodeSegment(std::string_view tenant, const PutSegmentArgs& args,
                                       const CodecParams& codec) {
  SegmentToStore segment;
  segment.record.tenant = tenant;
  segment.record.spec = *args.spec;
  segment.record.parent = args.parent;
  segment.record.tokens.assign(args.tokens.begin(), args.tokens.end());
  segment.record.codec = codec;
  segment.record.private_pages = args.private_salt != nullptr;
  if (codec.id == CodecId::kRaw) {
    segment.bytes = args.payload;
    QUIRE_ASSIGN_OR_RETURN(segment.record.unit_crc32c, VerifiedChecksums(args));
  } else {
    if (!args.unit_crc32c.empty()) QUIRE_RETURN_IF_ERROR(VerifiedChecksums(args).status());
    QUIRE_RETURN_IF_ERROR(EncodeUnits(args, segment));
  }
  return segment;
}

StatusOr<std::span<const std::byte>> ReadablePayload(const SegmentToStore& segment,
                                                     std::vector<std::byte>& scratch) {
  const SegmentRecord& record = segment.record;
  if (record.codec.id == CodecId::kRaw) return segment.bytes;
  QUIRE_ASSIGN_OR_RETURN(const ExtentCodec codec, ExtentCodec::Make(record.spec, record.codec.id));
  const uint64_t from = record.stored_extent_bytes(record.num_pages());
  const uint64_t to = ExtentBytes(record.spec, record.num_pages());
  const uint32_t units = record.units_per_layer();
  scratch.resize(record.payload_bytes());
  for (size_t layer = 0; layer < record.spec.num_layers; ++layer) {
    QUIRE_RETURN_IF_ERROR(codec.Decode(segment.bytes.subspan(layer * from, from),
                                       std::span(record.unit_crc32c).subspan(layer * units, units),
                                       static_cast<uint32_t>(record.tokens.size()),
                                       std::span(scratch).subspan(layer * to, to)));
  }
  return std::span<const std::byte>(scratch);
}

std::vector<ExtentView> SplitExtents(const SegmentKey& key, const SegmentToStore& segment,
                                     const PrefillCost& cost) {
  const SegmentRecord& record = segment.record;
  const uint64_t bytes = record.stored_extent_bytes(record.num_pages());
  const uint32_t units = record.units_per_layer();
  const std::span<const uint32_t> crcs(record.unit_crc32c);
  const double seconds_per_token = cost.SecondsPerToken(record.first_token, record.tokens.size());
  std::vector<ExtentView> extents;
  for (uint32_t layer = 0; layer < record.spec.num_layers; ++layer) {
    extents.push_back({.id = {key, layer},
                       .bytes = segment.bytes.subspan(layer * bytes, bytes),
                       .unit_crc32c = crcs.subspan(size_t{layer} * units, units),
                       .full_bytes = record.stored_extent_bytes(record.spec.segment_pages),
                       .tenant = record.tenant,
                       .parent = record.parent,
                       .seconds_per_token = seconds_per_token,
                       .encoded = record.codec.id != CodecId::kRaw,
                       .entropy = record.codec.entropy});
  }
  return extents;
}

}  // namespace quire::kvserver
