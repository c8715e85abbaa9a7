// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/segment_record.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kMagic = 0x47455351;  // "QSEG"
// Version 2 adds the storage options. A segment with defaults is written as version 1.
constexpr uint16_t kPlainVersion = 1;
constexpr uint16_t kStorageVersion = 2;
// Version 3 adds an incarnation to version 2.
constexpr uint16_t kPagesVersion = 3;
// Version 4 is that of objects.
constexpr uint16_t kObjectVersion = 4;
constexpr uint16_t kVersion = kObjectVersion;

constexpr uint8_t kEntropyFlag = 1;
constexpr uint8_t kDramOnlyFlag = 2;
constexpr uint8_t kPrivateFlag = 4;
constexpr uint8_t kAllFlags = kEntropyFlag | kDramOnlyFlag | kPrivateFlag;

void WriteSpec(const KvSpec& spec, ByteWriter& out) {
  out.Text(spec.model);
  out.Raw(AsText(std::as_bytes(std::span(spec.weights_hash))));
  out.Number(static_cast<uint8_t>(spec.attention));
  out.Number(static_cast<uint8_t>(spec.dtype));
  for (uint32_t value :
       {spec.num_layers, spec.num_query_heads, spec.num_kv_heads, spec.head_dim, spec.latent_dim,
        spec.latent_rope_dim, spec.page_tokens, spec.segment_pages, spec.rope.rotary_dim}) {
    out.Number(value);
  }
  out.Number(static_cast<uint8_t>(spec.rope.state));
  out.Number(static_cast<uint8_t>(spec.rope.scaling));
  out.Number(static_cast<uint8_t>(spec.rope.interleaved ? 1 : 0));
  const RopeSpec& r = spec.rope;
  for (double value : {r.theta, r.factor, r.low_freq_factor, r.high_freq_factor, r.original_context,
                       r.beta_fast, r.beta_slow, r.attention_factor}) {
    out.Number(value);
  }
  if (r.scaling == RopeScaling::kLongRope) out.Array(r.pair_factors);
}

KvSpec ReadSpec(ByteReader& in) {
  KvSpec spec;
  spec.model = in.Text();
  spec.weights_hash = in.Bytes<32>();
  spec.attention = static_cast<AttentionKind>(in.Number<uint8_t>());
  spec.dtype = static_cast<DType>(in.Number<uint8_t>());
  for (uint32_t* value : {&spec.num_layers, &spec.num_query_heads, &spec.num_kv_heads,
                          &spec.head_dim, &spec.latent_dim, &spec.latent_rope_dim,
                          &spec.page_tokens, &spec.segment_pages, &spec.rope.rotary_dim}) {
    *value = in.Number<uint32_t>();
  }
  RopeSpec& r = spec.rope;
  r.state = static_cast<RopeState>(in.Number<uint8_t>());
  r.scaling = static_cast<RopeScaling>(in.Number<uint8_t>());
  const auto interleaved = in.Number<uint8_t>();
  if (interleaved > 1) in.Fail();
  r.interleaved = interleaved == 1;
  for (double* value : {&r.theta, &r.factor, &r.low_freq_factor, &r.high_freq_factor,
                        &r.original_context, &r.beta_fast, &r.beta_slow, &r.attention_factor}) {
    *value = in.Number<double>();
  }
  if (r.scaling == RopeScaling::kLongRope) r.pair_factors = in.Array<double>();
  return spec;
}

bool IsPlain(const SegmentRecord& record) {
  return record.codec == CodecParams{} && !record.dram_only && !record.private_pages;
}

void WriteStorage(const SegmentRecord& record, ByteWriter& out) {
  out.Number(static_cast<uint8_t>(record.codec.id));
  out.Number(static_cast<uint8_t>((record.codec.entropy ? kEntropyFlag : 0) |
                                  (record.dram_only ? kDramOnlyFlag : 0) |
                                  (record.private_pages ? kPrivateFlag : 0)));
}

void ReadStorage(ByteReader& in, SegmentRecord& record) {
  const StatusOr<CodecId> id = CodecFromNumber(in.Number<uint8_t>());
  const auto flags = in.Number<uint8_t>();
  if (!id.ok() || (flags & ~kAllFlags) != 0) return in.Fail();
  record.codec = {.id = *id, .entropy = (flags & kEntropyFlag) != 0};
  record.dram_only = (flags & kDramOnlyFlag) != 0;
  record.private_pages = (flags & kPrivateFlag) != 0;
}

uint16_t VersionOf(const SegmentRecord& record) {
  if (record.object) return kObjectVersion;
  if (record.incarnation != 0) return kPagesVersion;
  return IsPlain(record) ? kPlainVersion : kStorageVersion;
}

Status Damaged(std::string_view what) {
  return DataLoss("segment record: ", what, "; put the segment again");
}

Status CheckObject(const SegmentRecord& record) {
  const StoredObject& object = *record.object;
  if (object.key.empty() || object.key.size() > kMaxObjectKeyBytes) {
    return Damaged("the object's key is not 1..1024 bytes");
  }
  if (object.size_bytes == 0 || object.size_bytes > kMaxObjectBytes) {
    return Damaged("the object's size is not within the limit");
  }
  if (record.codec != CodecParams{} || record.private_pages) {
    return Damaged("an object has no codec and belongs to no context");
  }
  if (record.unit_crc32c.size() != object.shape().units()) {
    return Damaged("the number of checksums does not fit the object's size");
  }
  return OkStatus();
}

Status CheckPages(const SegmentRecord& record) {
  if (const std::string problem = Problem(record.spec); !problem.empty()) return Damaged(problem);
  if (record.tokens.empty() || record.tokens.size() > record.spec.segment_tokens()) {
    return Damaged("the number of tokens does not fit the spec");
  }
  if (std::ranges::any_of(record.tokens, [](TokenId id) { return id < 0; })) {
    return Damaged("a token id is negative");
  }
  if (record.first_token % record.spec.segment_tokens() != 0) {
    return Damaged("the first token is not at the start of a segment");
  }
  if (record.first_token / record.spec.segment_tokens() >= kMaxChainSegments) {
    return Damaged("the chain is longer than the limit");
  }
  if ((record.first_token == 0) != (record.parent == kRootKey)) {
    return Damaged("the parent does not fit the position");
  }
  if (record.unit_crc32c.size() != uint64_t{record.spec.num_layers} * record.units_per_layer()) {
    return Damaged("the number of checksums does not fit the spec");
  }
  return OkStatus();
}

Status CheckRecord(const SegmentRecord& record) {
  if (record.tenant.empty() || record.tenant.size() > kMaxTenantBytes) {
    return Damaged("the tenant's name is not 1..64 bytes");
  }
  return record.object ? CheckObject(record) : CheckPages(record);
}

void WritePages(const SegmentRecord& record, ByteWriter& out) {
  WriteSpec(record.spec, out);
  out.Raw(record.parent.view());
  out.Number(record.first_token);
  out.Array(record.tokens);
}

void ReadPages(ByteReader& in, SegmentRecord& record) {
  record.spec = ReadSpec(in);
  record.parent.bytes = in.Bytes<32>();
  record.first_token = in.Number<uint64_t>();
  record.tokens = in.Array<TokenId>();
}

void WriteObject(const StoredObject& object, ByteWriter& out) {
  out.Text(object.key);
  out.Number(object.size_bytes);
}

void ReadObject(ByteReader& in, SegmentRecord& record) {
  record.object.emplace();
  record.object->key = in.Text();
  record.object->size_bytes = in.Number<uint64_t>();
}

// Least slot of an object, and the sizes from one power of two to the next.
constexpr uint64_t kLeastObjectSlot = 4096;
constexpr uint64_t kSlotsInOctave = 4;

}  // namespace

uint64_t ObjectSlotBytes(uint64_t extent_bytes) {
  if (extent_bytes <= kLeastObjectSlot * kSlotsInOctave) {
    return (extent_bytes + kLeastObjectSlot - 1) / kLeastObjectSlot * kLeastObjectSlot;
  }
  const uint64_t step = std::bit_ceil(extent_bytes) / (2 * kSlotsInOctave);
  return (extent_bytes + step - 1) / step * step;
}

std::string EncodeSegmentRecord(const SegmentRecord& record) {
  ByteWriter out;
  out.Number(kMagic);
  const uint16_t version = VersionOf(record);
  out.Number(version);
  out.ShortText(record.tenant);
  if (record.object) {
    WriteObject(*record.object, out);
  } else {
    WritePages(record, out);
  }
  if (version >= kStorageVersion) WriteStorage(record, out);
  if (version >= kPagesVersion) out.Number(record.incarnation);
  out.Array(record.unit_crc32c);
  return CloseRecord(out);
}

StatusOr<SegmentRecord> DecodeSegmentRecord(std::string_view encoded) {
  ByteReader in = OpenRecord(encoded);
  if (!in.ok()) return Damaged("the checksum does not match");
  if (in.Number<uint32_t>() != kMagic) return Damaged("it does not start with QSEG");
  const auto version = in.Number<uint16_t>();
  if (version > kVersion) {
    return FailedPrecondition("segment record: version ", version,
                              " is newer than this server; upgrade the server");
  }
  SegmentRecord record;
  record.tenant = in.ShortText();
  if (version == kObjectVersion) {
    ReadObject(in, record);
  } else {
    ReadPages(in, record);
  }
  if (version >= kStorageVersion) ReadStorage(in, record);
  if (version >= kPagesVersion) record.incarnation = in.Number<uint64_t>();
  if (version != VersionOf(record)) in.Fail();  // It would have been written as another version.
  record.unit_crc32c = in.Array<uint32_t>();
  if (!in.ok() || !in.at_end()) return Damaged("its length does not fit its fields");
  QUIRE_RETURN_IF_ERROR(CheckRecord(record));
  return record;
}

}  // namespace quire::kvserver
