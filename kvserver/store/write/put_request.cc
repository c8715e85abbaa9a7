// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/write/put_request.h"

#include <algorithm>

#include "common/base/memory/checksum.h"
#include "common/base/memory/unit_copy.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/payload/volume/location.h"
#include "kvserver/store/unit_digests.h"

namespace quire::kvserver {

namespace {

uint64_t PayloadBytes(const PutSegmentArgs& args) {
  uint64_t bytes = args.payload.size();
  for (const std::span<const std::byte> row : args.payload_rows) bytes += row.size();
  return bytes;
}

Status CheckObjectArguments(const PutSegmentArgs& args) {
  const auto [key, size_bytes] = *args.object;
  if (key.empty() || key.size() > kMaxObjectKeyBytes) {
    return InvalidArgument("an object's key of ", key.size(), " bytes; give 1..",
                           kMaxObjectKeyBytes);
  }
  if (size_bytes == 0 || size_bytes > kMaxObjectBytes) {
    return InvalidArgument("an object of ", size_bytes, " bytes; give 1..", kMaxObjectBytes,
                           ", and cut larger ones");
  }
  const ObjectShape shape = ObjectShape::Of(size_bytes);
  const auto is_unit = [&](const auto row) { return row.size() == shape.unit_bytes; };
  if (PayloadBytes(args) != shape.stored_bytes() ||
      !std::ranges::all_of(args.payload_rows, is_unit)) {
    return InvalidArgument("payload of ", PayloadBytes(args), " bytes; an object of ", size_bytes,
                           " bytes has ", shape.units(), " units of ", shape.unit_bytes, " bytes");
  }
  if (!args.unit_crc32c.empty() && args.unit_crc32c.size() != shape.units()) {
    return InvalidArgument(args.unit_crc32c.size(), " checksums for ", shape.units(), " units");
  }
  return OkStatus();
}

}  // namespace

Status CheckPutArguments(const PutSegmentArgs& args) {
  if (args.object != nullptr) return CheckObjectArguments(args);
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
  const uint64_t units =
      uint64_t{spec.num_layers} * PageCount(spec, args.tokens.size()) * spec.num_kv_heads;
  const uint64_t expected =
      units * (args.is_encoded ? quire::UnitBytes(spec, args.codec.id) : quire::UnitBytes(spec));
  const uint64_t given = PayloadBytes(args);
  if (given != expected || expected > kMaxSegmentBytes) {
    return InvalidArgument("payload of ", given, " bytes; ", args.tokens.size(),
                           " tokens of this KvSpec take ", expected, " bytes, and at most ",
                           kMaxSegmentBytes, " are allowed (lower segment_pages)");
  }
  const uint64_t row_bytes = ExtentBytes(spec, 1);
  if (!args.payload_rows.empty() && (args.is_encoded || !args.payload.empty() ||
                                     std::ranges::any_of(args.payload_rows, [&](const auto row) {
                                       return row.size() != row_bytes;
                                     }))) {
    return InvalidArgument("payload in rows that are not of ", row_bytes,
                           " bytes each, or beside a payload in one piece");
  }
  if (!args.unit_crc32c.empty() && args.unit_crc32c.size() != units) {
    return InvalidArgument(args.unit_crc32c.size(), " checksums for ", units, " units");
  }
  return OkStatus();
}

namespace {

/// Bytes taken in at a time: small enough for a digest to find the copy in the cache.
constexpr uint64_t kStepBytes = 16 << 10;

}  // namespace

StatusOr<SegmentIntake> SegmentIntake::Make(std::string_view tenant, const PutSegmentArgs& args,
                                            const CodecParams& codec) {
  SegmentIntake intake(args);
  SegmentRecord& record = intake.record_;
  record.tenant = tenant;
  if (args.object != nullptr) {
    record.object = {.key = std::string(args.object->key), .size_bytes = args.object->size_bytes};
  } else {
    QUIRE_ASSIGN_OR_RETURN(intake.codec_, ExtentCodec::Make(*args.spec, codec.id));
    record.spec = *args.spec;
    record.parent = args.parent;
    record.tokens.assign(args.tokens.begin(), args.tokens.end());
    record.codec = codec;
    record.private_pages = args.private_salt != nullptr;
  }
  record.unit_crc32c.resize(size_t{record.num_layers()} * record.units_per_layer());
  QUIRE_RETURN_IF_ERROR(intake.MakeDigests());
  intake.places_.resize(record.num_layers());
  if (!intake.stays()) {
    intake.home_ = std::make_unique_for_overwrite<std::byte[]>(record.stored_bytes());
  }
  intake.PlaceAtHome();
  return intake;
}

Status SegmentIntake::MakeDigests() {
  const uint32_t layers = record_.num_digest_layers();
  if (layers == 0) return OkStatus();
  valid_rows_ = ValidRows(record_);
  digests_bytes_ = layers * DigestBytesPerLayer(record_, kernels::DigestKind::kMinMax);
  digests_.reset(static_cast<std::byte*>(
      std::aligned_alloc(kBlockBytes, RoundUp(digests_bytes_, kBlockBytes))));
  digest_crc32c_.resize(layers);
  if (digests_ != nullptr) return OkStatus();
  return ResourceExhausted("no memory for ", digests_bytes_, " bytes of digests; retry");
}

void SegmentIntake::PlaceAtHome() {
  const uint64_t bytes = record_.stored_extent_bytes();
  for (uint32_t layer = 0; layer < record_.num_layers(); ++layer) {
    if (stays()) {
      places_[layer] = {.shown = args_->payload.subspan(layer * bytes, bytes), .memory = {}};
    } else {
      Place(layer, {home_.get() + layer * bytes, bytes});
    }
  }
}

void SegmentIntake::Place(uint32_t layer, std::span<std::byte> memory) {
  places_[layer] = {.shown = memory, .memory = memory};
}

std::span<const std::byte> SegmentIntake::Row(uint32_t layer, uint32_t page) const {
  const size_t index = size_t{layer} * record_.num_pages() + page;
  if (!args_->payload_rows.empty()) return args_->payload_rows[index];
  const uint64_t bytes = row_bytes();
  return args_->payload.subspan(index * bytes, bytes);
}

std::span<const std::byte> SegmentIntake::Arrived(uint32_t layer) {
  const uint64_t bytes = record_.num_pages() * row_bytes();
  if (args_->payload_rows.empty()) return Aligned(args_->payload.subspan(layer * bytes, bytes));
  scratch_.clear();
  for (uint32_t page = 0; page < record_.num_pages(); ++page) {
    const std::span<const std::byte> row = Row(layer, page);
    scratch_.insert(scratch_.end(), row.begin(), row.end());
  }
  return scratch_;
}

std::span<uint32_t> SegmentIntake::Checksums(uint32_t layer) {
  const size_t units = record_.units_per_layer();
  return std::span(record_.unit_crc32c).subspan(layer * units, units);
}

Status SegmentIntake::CheckUnit(size_t unit, uint32_t crc32c) const {
  if (args_->unit_crc32c.empty() || args_->unit_crc32c[unit] == crc32c) return OkStatus();
  return DataLoss("unit ", unit, " of ", args_->unit_crc32c.size(),
                  " to put does not match the checksum that it arrived with: it was damaged ",
                  record_.object ? "on the way; put the object again"
                                 : "in memory; send the pages again to a new context");
}

Status SegmentIntake::Take(uint32_t layer) {
  if (places_[layer].taken) return OkStatus();
  QUIRE_RETURN_IF_ERROR(is_raw() ? TakeRaw(layer) : TakeEncoded(layer));
  if (has_digests()) digest_crc32c_[layer] = Crc32c(DigestsOf(layer));
  places_[layer].taken = true;
  return OkStatus();
}

Status SegmentIntake::TakeAll() {
  for (uint32_t layer = 0; layer < record_.num_layers(); ++layer) {
    QUIRE_RETURN_IF_ERROR(Take(layer));
  }
  return OkStatus();
}

Status SegmentIntake::TakeRaw(uint32_t layer) {
  std::byte* to = places_[layer].memory.data();
  for (uint32_t page = 0; page < record_.num_pages(); ++page) {
    QUIRE_RETURN_IF_ERROR(TakeRow(layer, page, to));
    if (to != nullptr) to += row_bytes();
  }
  return OkStatus();
}

Status SegmentIntake::TakeRow(uint32_t layer, uint32_t page, std::byte* to) {
  const uint64_t unit_bytes = record_.unit_bytes();
  const uint32_t first_unit = page * record_.num_heads();
  const std::span<const std::byte> row = Row(layer, page);
  const bool is_last = page + 1 == record_.num_pages();
  const std::byte* const next_row = is_last ? nullptr : Row(layer, page + 1).data();
  const uint64_t step = std::max<uint64_t>(kStepBytes / unit_bytes, 1) * unit_bytes;
  for (uint64_t at = 0; at < row.size(); at += step) {
    const auto units = row.subspan(at, std::min(step, row.size() - at));
    const std::byte* const next = at + step < row.size() ? row.data() + at + step : next_row;
    const auto first = static_cast<uint32_t>(first_unit + at / unit_bytes);
    QUIRE_RETURN_IF_ERROR(Copy(layer, first, units, to == nullptr ? to : to + at, next));
    if (has_digests()) QUIRE_RETURN_IF_ERROR(Digest(layer, first, Aligned(units)));
  }
  return OkStatus();
}

Status SegmentIntake::Copy(uint32_t layer, uint32_t first, std::span<const std::byte> units,
                           std::byte* to, const std::byte* next) {
  const uint64_t unit_bytes =
      args_->is_encoded ? record_.stored_unit_bytes() : record_.unit_bytes();
  const std::span<uint32_t> crc32c = Checksums(layer);
  for (uint64_t at = 0; at < units.size(); at += unit_bytes) {
    const auto unit = units.subspan(at, unit_bytes);
    const bool is_last = at + unit_bytes == units.size();
    const uint32_t sum =
        to == nullptr ? Crc32c(unit)
                      : CopyWithCrc32c(unit, to + at, is_last ? next : unit.data() + unit_bytes);
    const size_t number = first + at / unit_bytes;
    crc32c[number] = sum;
    QUIRE_RETURN_IF_ERROR(CheckUnit(layer * crc32c.size() + number, sum));
  }
  return OkStatus();
}

Status SegmentIntake::TakeEncoded(uint32_t layer) {
  const std::span<std::byte> encoded = places_[layer].memory;
  QUIRE_RETURN_IF_ERROR(Encode(layer, encoded));
  decoded_.resize(record_.num_pages() * row_bytes());
  QUIRE_RETURN_IF_ERROR(codec_->Decode(encoded, Checksums(layer),
                                       static_cast<uint32_t>(record_.tokens.size()), decoded_));
  return Digest(layer, 0, decoded_);
}

Status SegmentIntake::Encode(uint32_t layer, std::span<std::byte> encoded) {
  if (args_->is_encoded) {
    const auto arrived = args_->payload.subspan(layer * encoded.size(), encoded.size());
    return Copy(layer, 0, arrived, encoded.data(), nullptr);
  }
  if (!args_->unit_crc32c.empty()) QUIRE_RETURN_IF_ERROR(TakeChecksums(layer));
  return codec_->Encode(Arrived(layer), static_cast<uint32_t>(record_.tokens.size()), encoded,
                        Checksums(layer));
}

Status SegmentIntake::TakeChecksums(uint32_t layer) {
  const uint32_t units = record_.num_heads();
  for (uint32_t page = 0; page < record_.num_pages(); ++page) {
    QUIRE_RETURN_IF_ERROR(Copy(layer, page * units, Row(layer, page), nullptr, nullptr));
  }
  return OkStatus();
}

Status SegmentIntake::TakeChecksums() {
  std::vector<std::byte> encoded(is_raw() ? 0 : record_.stored_extent_bytes());
  for (uint32_t layer = 0; layer < record_.num_layers(); ++layer) {
    QUIRE_RETURN_IF_ERROR(is_raw() ? TakeChecksums(layer) : Encode(layer, encoded));
  }
  return OkStatus();
}

Status SegmentIntake::Digest(uint32_t layer, uint32_t first, std::span<const std::byte> units) {
  const uint64_t unit_bytes = record_.unit_bytes();
  const std::span<std::byte> digests = DigestsOf(layer);
  const uint64_t digest_bytes = digests.size() / record_.units_per_layer();
  const auto valid_rows = std::span(valid_rows_).subspan(first, units.size() / unit_bytes);
  return ComputeDigests(record_.spec, kernels::DigestKind::kMinMax,
                        {.units = units.data(), .valid_rows = valid_rows},
                        digests.data() + first * digest_bytes);
}

std::span<std::byte> SegmentIntake::DigestsOf(uint32_t layer) {
  const size_t layer_bytes = digests_bytes_ / record_.spec.num_layers;
  return {digests_.get() + layer * layer_bytes, layer_bytes};
}

std::span<const std::byte> SegmentIntake::Aligned(std::span<const std::byte> bytes) {
  const uint64_t element_bytes = ElementBytes(record_.spec.dtype);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % element_bytes == 0) return bytes;
  scratch_.assign(bytes.begin(), bytes.end());
  return scratch_;
}

namespace {

ExtentView ViewOf(const ExtentId& id, const SegmentRecord& record, std::span<const std::byte> bytes,
                  const PrefillCost& cost) {
  const size_t units = record.units_per_layer();
  return {.id = id,
          .bytes = bytes,
          .unit_crc32c = std::span(record.unit_crc32c).subspan(id.layer * units, units),
          .full_bytes = record.slot_bytes(),
          .tenant = record.tenant,
          .parent = record.parent,
          .seconds_per_token = cost.SecondsPerToken(record.first_token, record.cost_tokens()),
          .codec = record.codec.id,
          .entropy = record.codec.entropy,
          .listed = record.listed()};
}

}  // namespace

std::vector<ExtentView> SplitExtents(const SegmentKey& key, const SegmentIntake& intake,
                                     const PrefillCost& cost) {
  std::vector<ExtentView> extents;
  for (uint32_t layer = 0; layer < intake.record().num_layers(); ++layer) {
    extents.push_back(ViewOf({key, layer}, intake.record(), intake.extent(layer), cost));
  }
  return extents;
}

ExtentView DigestExtent(const SegmentKey& key, const SegmentIntake& intake) {
  return {.id = {key, kDigestsLayer},
          .bytes = intake.digests(),
          .unit_crc32c = intake.digest_crc32c(),
          .full_bytes = intake.digests().size(),
          .tenant = intake.record().tenant};
}

std::vector<ExtentView> SplitExtents(const SegmentKey& key, const SegmentRecord& record,
                                     std::span<const std::byte> bytes, const PrefillCost& cost) {
  const uint64_t extent_bytes = record.stored_extent_bytes();
  std::vector<ExtentView> extents;
  for (uint32_t layer = 0; layer < record.num_layers(); ++layer) {
    extents.push_back(
        ViewOf({key, layer}, record, bytes.subspan(layer * extent_bytes, extent_bytes), cost));
  }
  return extents;
}

}  // namespace quire::kvserver
