// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/ssd/extent_record.h"

#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

// Version 2 has packed units; an extent of plain ones is written as version 1.
constexpr uint8_t kPlainExtentVersion = 1;
constexpr uint8_t kExtentVersion = 2;

/// Upper bound of a run's end; keeps every sum of runs inside 64 bits.
constexpr uint64_t kMaxRunEnd = uint64_t{1} << 48;

bool IsRun(const BlockRun& run) {
  return run.length != 0 && run.offset % kBlockBytes == 0 && run.length % kBlockBytes == 0 &&
         run.offset < kMaxRunEnd && run.length <= kMaxRunEnd - run.offset;
}

/// True when the parts of a decoded record agree.
bool IsConsistent(const ExtentRecord& record) {
  const uint64_t units = record.unit_crc32c.size();
  if (units == 0 || record.location.bytes == 0 || record.location.bytes > kMaxRunEnd) return false;
  if (TotalBytes(record.location.runs) != RoundUp(record.location.bytes, kBlockBytes)) return false;
  if (!record.packed) return record.location.bytes % units == 0;
  return record.packed->unit_bytes != 0 && record.Table().ok();
}

void WritePacked(const ExtentRecord::Packed& packed, ByteWriter& out) {
  out.Number(packed.unit_bytes);
  out.Array(packed.table);
}

ExtentRecord::Packed ReadPacked(ByteReader& in) {
  ExtentRecord::Packed packed;
  packed.unit_bytes = in.Number<uint32_t>();
  packed.table = in.Array<std::byte>();
  return packed;
}

}  // namespace

StatusOr<EntropyTable> ExtentRecord::Table() const {
  const EntropyShape shape{.units = static_cast<uint32_t>(unit_crc32c.size()),
                           .unit_bytes = packed->unit_bytes};
  if (packed->table.size() != shape.table_bytes()) {
    return DataLoss("the table of a packed extent has ", packed->table.size(), " bytes, not ",
                    shape.table_bytes());
  }
  return EntropyTable::Parse(packed->table, shape.table_bytes() + location.bytes, shape);
}

std::string EncodeExtentRecord(const ExtentRecord& record) {
  ByteWriter out;
  out.Number(record.packed ? kExtentVersion : kPlainExtentVersion);
  out.Number(record.location.bytes);
  out.Number(static_cast<uint8_t>(record.location.runs.size()));
  for (const BlockRun& run : record.location.runs) {
    out.Number(run.volume);
    out.Number(run.offset);
    out.Number(run.length);
  }
  out.Array(record.unit_crc32c);
  if (record.packed) WritePacked(*record.packed, out);
  return CloseRecord(out);
}

StatusOr<ExtentRecord> DecodeExtentRecord(std::string_view encoded) {
  const Status damaged =
      DataLoss("an extent's record is damaged; put its segment again to repair it");
  ByteReader in = OpenRecord(encoded);
  const auto version = in.Number<uint8_t>();
  if (version > kExtentVersion) {
    return FailedPrecondition("an extent's record has version ", uint32_t{version},
                              "; upgrade the server");
  }
  if (version == 0) return damaged;
  ExtentRecord record;
  record.location.bytes = in.Number<uint64_t>();
  const auto runs = in.Number<uint8_t>();
  for (uint32_t i = 0; i < runs && in.ok(); ++i) {
    BlockRun run;
    run.volume = in.Number<uint32_t>();
    run.offset = in.Number<uint64_t>();
    run.length = in.Number<uint64_t>();
    if (!IsRun(run)) in.Fail();
    record.location.runs.push_back(run);
  }
  record.unit_crc32c = in.Array<uint32_t>();
  if (version != kPlainExtentVersion) record.packed = ReadPacked(in);
  if (!in.ok() || !in.at_end() || !IsConsistent(record)) return damaged;
  return record;
}

}  // namespace quire::kvserver
