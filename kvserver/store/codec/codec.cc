// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/codec/codec.h"

#include <algorithm>
#include <optional>

#include "common/base/memory/checksum.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/layout.h"

namespace quire::kvserver {
namespace {

constexpr CodecId kAll[] = {CodecId::kRaw, CodecId::kFp8E4M3, CodecId::kInt8, CodecId::kInt4};
constexpr std::string_view kEntropySuffix = "+zstd";

Status FromOp(kernels::OpStatus status, std::string_view what) {
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal(what, " failed: ", kernels::Describe(status));
}

Status CheckSize(std::string_view what, uint64_t got, uint64_t want) {
  if (got == want) return OkStatus();
  return InvalidArgument(what, ": got ", got, ", but the extent has ", want);
}

}  // namespace

std::string_view Name(CodecId id) {
  switch (id) {
    case CodecId::kRaw:
      return "raw";
    case CodecId::kFp8E4M3:
      return "fp8";
    case CodecId::kInt8:
      return "int8";
    case CodecId::kInt4:
      return "int4";
  }
  return "unknown";
}

std::string Name(const CodecParams& params) {
  return std::string(Name(params.id)).append(params.entropy ? kEntropySuffix : "");
}

std::vector<std::string> CodecNames() {
  std::vector<std::string> names;
  for (const bool entropy : {false, true}) {
    for (const CodecId id : kAll) names.push_back(Name(CodecParams{.id = id, .entropy = entropy}));
  }
  return names;
}

StatusOr<CodecParams> CodecByName(std::string_view name) {
  for (const bool entropy : {false, true}) {
    for (const CodecId id : kAll) {
      const CodecParams params{.id = id, .entropy = entropy};
      if (Name(params) == name) return params;
    }
  }
  std::string names;
  for (const std::string& known : CodecNames()) names += (names.empty() ? "" : ", ") + known;
  return InvalidArgument("unknown codec '", name, "'; use one of ", names);
}

StatusOr<CodecId> CodecFromNumber(uint8_t number) {
  const auto id = static_cast<CodecId>(number);
  if (!kernels::IsKnown(id)) return DataLoss("no codec has the number ", int{number});
  return id;
}

StatusOr<ExtentCodec> ExtentCodec::Make(const KvSpec& spec, CodecId id) {
  if (const std::string problem = Problem(spec); !problem.empty()) return InvalidArgument(problem);
  if (!kernels::IsKnown(id)) {
    return InvalidArgument("no codec has the number ", static_cast<int>(id));
  }
  return ExtentCodec(spec, id);
}

ExtentCodec::ExtentCodec(const KvSpec& spec, CodecId id)
    : spec_(spec),
      id_(id),
      shape_(ShapeOf(spec)),
      unit_bytes_(quire::UnitBytes(spec)),
      encoded_unit_bytes_(quire::UnitBytes(spec, id)) {}

uint64_t ExtentCodec::units(uint32_t tokens) const {
  return uint64_t{PageCount(spec_, tokens)} * spec_.num_kv_heads;
}

Status ExtentCodec::CheckTokens(uint32_t tokens) const {
  if (tokens >= 1 && tokens <= spec_.segment_tokens()) return OkStatus();
  return InvalidArgument("an extent has 1..", spec_.segment_tokens(), " tokens, not ", tokens);
}

std::vector<int32_t> ExtentCodec::ValidRows(uint32_t tokens) const {
  std::vector<int32_t> rows(units(tokens));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto page = static_cast<uint32_t>(i / spec_.num_kv_heads);
    rows[i] = static_cast<int32_t>(TokensInPage(spec_, tokens, page));
  }
  return rows;
}

Status ExtentCodec::Encode(std::span<const std::byte> extent, uint32_t tokens,
                           std::span<std::byte> encoded, std::span<uint32_t> crcs) const {
  QUIRE_RETURN_IF_ERROR(CheckTokens(tokens));
  QUIRE_RETURN_IF_ERROR(CheckSize("bytes", extent.size(), units(tokens) * unit_bytes_));
  QUIRE_RETURN_IF_ERROR(CheckSize("encoded bytes", encoded.size(), encoded_bytes(tokens)));
  QUIRE_RETURN_IF_ERROR(CheckSize("checksums", crcs.size(), units(tokens)));
  const std::vector<int32_t> rows = ValidRows(tokens);
  QUIRE_RETURN_IF_ERROR(
      FromOp(kernels::CpuKernels().encode_unit({.units = extent.data(),
                                                .valid_rows = rows.data(),
                                                .encoded = encoded.data(),
                                                .encoded_bytes = std::ssize(encoded),
                                                .n_units = std::ssize(rows),
                                                .shape = shape_,
                                                .codec = id_}),
             "encode_unit"));
  for (size_t i = 0; i < crcs.size(); ++i) {
    crcs[i] = Crc32c(encoded.subspan(i * encoded_unit_bytes_, encoded_unit_bytes_));
  }
  return OkStatus();
}

Status ExtentCodec::Decode(std::span<const std::byte> encoded, std::span<const uint32_t> crcs,
                           uint32_t tokens, std::span<std::byte> extent) const {
  QUIRE_RETURN_IF_ERROR(CheckTokens(tokens));
  QUIRE_RETURN_IF_ERROR(CheckSize("bytes", extent.size(), units(tokens) * unit_bytes_));
  QUIRE_RETURN_IF_ERROR(CheckSize("encoded bytes", encoded.size(), encoded_bytes(tokens)));
  QUIRE_RETURN_IF_ERROR(CheckSize("checksums", crcs.size(), units(tokens)));
  for (size_t i = 0; i < crcs.size(); ++i) {
    if (Crc32c(encoded.subspan(i * encoded_unit_bytes_, encoded_unit_bytes_)) != crcs[i]) {
      return DataLoss("encoded unit ", i, " does not match its checksum");
    }
  }
  return DecodeUnits(encoded, ValidRows(tokens), extent);
}

Status ExtentCodec::DecodeUnit(const UnitBytes& encoded, uint32_t rows,
                               std::span<std::byte> unit) const {
  if (rows < 1 || rows > spec_.page_tokens) {
    return InvalidArgument("a unit has 1..", spec_.page_tokens, " tokens, not ", rows);
  }
  QUIRE_RETURN_IF_ERROR(CheckSize("bytes", unit.size(), unit_bytes_));
  QUIRE_RETURN_IF_ERROR(CheckSize("encoded bytes", encoded.size_bytes(), encoded_unit_bytes_));
  const std::optional<VerifiedBytes> verified = encoded.Verify();
  if (!verified) return DataLoss("the encoded unit does not match its checksum");
  return DecodeUnits(verified->bytes(), {static_cast<int32_t>(rows)}, unit);
}

Status ExtentCodec::DecodeUnits(std::span<const std::byte> encoded,
                                const std::vector<int32_t>& rows,
                                std::span<std::byte> units) const {
  return FromOp(kernels::CpuKernels().decode_unit({.encoded = encoded.data(),
                                                   .encoded_bytes = std::ssize(encoded),
                                                   .valid_rows = rows.data(),
                                                   .units = units.data(),
                                                   .n_units = std::ssize(rows),
                                                   .shape = shape_,
                                                   .codec = id_}),
                "decode_unit");
}

}  // namespace quire::kvserver
