// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/codec/entropy.h"

#include <zstd.h>

#include <cstring>
#include <string_view>

#include "common/base/memory/checksum.h"
#include "kvserver/store/byte_codec.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kMagic = 0x544e4551;  // "QENT"
constexpr uint16_t kVersion = 1;
constexpr uint64_t kHeaderBytes = 4 + 2 + 2 + 4 + 4;
constexpr uint64_t kEntryBytes = 8 + 4;
constexpr uint64_t kTableCrcBytes = 4;

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct FreeCompressor {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct FreeDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Status CheckShape(const EntropyShape& shape) {
  if (shape.units >= 1 && shape.unit_bytes >= 1) return OkStatus();
  return InvalidArgument("an entropy container has units of one byte or more, not ", shape.units,
                         " units of ", shape.unit_bytes, " bytes");
}

/// Header and table with the checksum over both.
std::string TableOf(const EntropyShape& shape, const std::vector<uint64_t>& ends,
                    const std::vector<uint32_t>& crcs) {
  ByteWriter writer;
  writer.Number(kMagic);
  writer.Number(kVersion);
  writer.Number(uint16_t{0});
  writer.Number(shape.units);
  writer.Number(shape.unit_bytes);
  for (size_t i = 0; i < ends.size(); ++i) {
    writer.Number(ends[i]);
    writer.Number(crcs[i]);
  }
  writer.Number(Crc32c(AsBytes(writer.bytes())));
  return writer.Take();
}

}  // namespace

uint64_t EntropyShape::table_bytes() const {
  return kHeaderBytes + units * kEntryBytes + kTableCrcBytes;
}

StatusOr<std::vector<std::byte>> EncodeEntropy(std::span<const std::byte> raw,
                                               const EntropyShape& shape, int level) {
  QUIRE_RETURN_IF_ERROR(CheckShape(shape));
  if (raw.size() != shape.raw_bytes()) {
    return InvalidArgument("got ", raw.size(), " bytes for ", shape.units, " units of ",
                           shape.unit_bytes);
  }
  const std::unique_ptr<ZSTD_CCtx, FreeCompressor> context(ZSTD_createCCtx());
  if (context == nullptr) return ResourceExhausted("no memory for the compressor");
  std::vector<std::byte> container(shape.max_bytes());
  std::vector<uint64_t> ends(shape.units);
  std::vector<uint32_t> crcs(shape.units);
  uint64_t end = shape.table_bytes();
  for (uint32_t i = 0; i < shape.units; ++i) {
    const auto unit = raw.subspan(uint64_t{i} * shape.unit_bytes, shape.unit_bytes);
    // One byte less room than the unit has: a frame that fits is smaller.
    size_t stored = ZSTD_compressCCtx(context.get(), container.data() + end, unit.size() - 1,
                                      unit.data(), unit.size(), level);
    if (ZSTD_isError(stored) != 0) {
      std::memcpy(container.data() + end, unit.data(), unit.size());
      stored = unit.size();
    }
    crcs[i] = Crc32c(std::span(container).subspan(end, stored));
    end += stored;
    ends[i] = end;
  }
  const std::string table = TableOf(shape, ends, crcs);
  std::memcpy(container.data(), table.data(), table.size());
  container.resize(end);
  return container;
}

StatusOr<EntropyTable> EntropyTable::Parse(std::span<const std::byte> head,
                                           uint64_t container_bytes, const EntropyShape& shape) {
  QUIRE_RETURN_IF_ERROR(CheckShape(shape));
  const uint64_t table_bytes = shape.table_bytes();
  if (head.size() < table_bytes || container_bytes < table_bytes) {
    return DataLoss("the entropy container is cut: its table takes ", table_bytes, " bytes");
  }
  const auto covered = head.first(table_bytes - kTableCrcBytes);
  ByteReader reader(AsText(head.first(table_bytes)));
  if (reader.Number<uint32_t>() != kMagic) return DataLoss("not an entropy container");
  const auto version = reader.Number<uint16_t>();
  if (version != kVersion) return DataLoss("entropy container of version ", version);
  const auto reserved = reader.Number<uint16_t>();
  const auto units = reader.Number<uint32_t>();
  const auto unit_bytes = reader.Number<uint32_t>();
  if (reserved != 0 || units != shape.units || unit_bytes != shape.unit_bytes) {
    return DataLoss("the entropy container has ", units, " units of ", unit_bytes,
                    " bytes, expected ", shape.units, " of ", shape.unit_bytes);
  }
  EntropyTable table;
  table.shape_ = shape;
  table.first_ = table_bytes;
  table.ends_.reserve(units);
  table.crcs_.reserve(units);
  for (uint64_t begin = table_bytes; table.ends_.size() < units; begin = table.ends_.back()) {
    table.ends_.push_back(reader.Number<uint64_t>());
    table.crcs_.push_back(reader.Number<uint32_t>());
    const uint64_t end = table.ends_.back();
    if (end <= begin || end - begin > unit_bytes || end > container_bytes) {
      return DataLoss("unit ", table.ends_.size() - 1, " of the entropy container ends at ", end);
    }
  }
  if (reader.Number<uint32_t>() != Crc32c(covered)) {
    return DataLoss("the table of the entropy container does not match its checksum");
  }
  if (table.ends_.back() != container_bytes) {
    return DataLoss("the entropy container has ", container_bytes, " bytes, expected ",
                    table.ends_.back());
  }
  return table;
}

struct EntropyDecoder::Context {
  std::unique_ptr<ZSTD_DCtx, FreeDecompressor> zstd;
};

EntropyDecoder::EntropyDecoder() : context_(std::make_unique<Context>()) {}
EntropyDecoder::~EntropyDecoder() = default;

Status EntropyDecoder::Unit(const EntropyTable& table, uint32_t unit,
                            std::span<const std::byte> stored, std::span<std::byte> out) {
  if (unit >= table.shape().units || out.size() != table.shape().unit_bytes) {
    return InvalidArgument("asked for unit ", unit, " in ", out.size(), " bytes; there are ",
                           table.shape().units, " of ", table.shape().unit_bytes);
  }
  if (stored.size() != table.bytes(unit) || Crc32c(stored) != table.crc32c(unit)) {
    return DataLoss("unit ", unit, " of the entropy container does not match its checksum");
  }
  if (stored.size() == out.size()) {
    std::memcpy(out.data(), stored.data(), out.size());
    return OkStatus();
  }
  if (context_->zstd == nullptr) context_->zstd.reset(ZSTD_createDCtx());
  if (context_->zstd == nullptr) return ResourceExhausted("no memory for the decompressor");
  const size_t bytes = ZSTD_decompressDCtx(context_->zstd.get(), out.data(), out.size(),
                                           stored.data(), stored.size());
  if (ZSTD_isError(bytes) != 0) {
    return DataLoss("unit ", unit, " of the entropy container: ", ZSTD_getErrorName(bytes));
  }
  if (bytes != out.size()) {
    return DataLoss("unit ", unit, " of the entropy container holds ", bytes, " bytes, expected ",
                    out.size());
  }
  return OkStatus();
}

Status EntropyDecoder::All(std::span<const std::byte> container, const EntropyShape& shape,
                           std::span<std::byte> raw) {
  if (raw.size() != shape.raw_bytes()) {
    return InvalidArgument("room for ", raw.size(), " bytes, but the container holds ",
                           shape.raw_bytes());
  }
  QUIRE_ASSIGN_OR_RETURN(const EntropyTable table,
                         EntropyTable::Parse(container, container.size(), shape));
  for (uint32_t i = 0; i < shape.units; ++i) {
    QUIRE_RETURN_IF_ERROR(Unit(table, i, container.subspan(table.offset(i), table.bytes(i)),
                               raw.subspan(uint64_t{i} * shape.unit_bytes, shape.unit_bytes)));
  }
  return OkStatus();
}

}  // namespace quire::kvserver
