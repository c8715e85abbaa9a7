// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes DecodeSegmentRecord and DecodeExtentRecord, on the input as it is and with a corrected
// checksum at its end. Accepted input must be valid and encode to the same bytes again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "common/base/memory/checksum.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/ssd/extent_record.h"

namespace {

void CheckExtent(std::string_view encoded) {
  const auto record = quire::kvserver::DecodeExtentRecord(encoded);
  if (!record.ok()) return;
  if (record->unit_crc32c.empty() || record->unit_bytes() == 0) std::abort();
  if (TotalBytes(record->location.runs) < record->location.bytes) std::abort();
  if (quire::kvserver::EncodeExtentRecord(*record) != encoded) std::abort();
}

void CheckSegment(std::string_view encoded) {
  const auto record = quire::kvserver::DecodeSegmentRecord(encoded);
  if (!record.ok()) return;
  if (!quire::Problem(record->spec).empty()) std::abort();
  if (record->unit_crc32c.size() != uint64_t{record->spec.num_layers} * record->units_per_layer()) {
    std::abort();
  }
  if (quire::kvserver::EncodeSegmentRecord(*record) != encoded) std::abort();
}

void Check(std::string_view encoded) {
  CheckSegment(encoded);
  CheckExtent(encoded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string encoded(reinterpret_cast<const char*>(data), size);
  Check(encoded);
  uint32_t crc;
  if (size < sizeof crc) return 0;
  const size_t body = size - sizeof crc;
  crc = quire::Crc32c(std::as_bytes(std::span(encoded).first(body)));
  std::memcpy(encoded.data() + body, &crc, sizeof crc);
  Check(encoded);
  return 0;
}
