// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes EntropyDecoder, on the input as it is and with corrected checksums. The latter lets the
// fuzzer reach the decompressor. Accepted input must decode unit by unit to the same bytes as in
// one pass.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/memory/checksum.h"
#include "tests/fuzz/entropy_shape.h"

namespace {

using quire::Crc32c;
using quire::fuzz::kEntropyShape;
using quire::kvserver::EntropyDecoder;
using quire::kvserver::EntropyTable;

constexpr size_t kFirstEntry = 16;
constexpr size_t kEntryBytes = 12;

void Check(const std::vector<std::byte>& container) {
  EntropyDecoder decoder;
  std::vector<std::byte> raw(kEntropyShape.raw_bytes());
  if (!decoder.All(container, kEntropyShape, raw).ok()) return;
  const auto table = EntropyTable::Parse(container, container.size(), kEntropyShape);
  if (!table.ok()) std::abort();
  std::vector<std::byte> unit(kEntropyShape.unit_bytes);
  for (uint32_t i = 0; i < kEntropyShape.units; ++i) {
    const auto stored = std::span(container).subspan(table->offset(i), table->bytes(i));
    if (!decoder.Unit(*table, i, stored, unit).ok()) std::abort();
    if (std::memcmp(unit.data(), raw.data() + i * unit.size(), unit.size()) != 0) std::abort();
  }
}

/// Corrects the checksums of the container wherever its table leads to stored bytes.
void MakeChecksumsRight(std::vector<std::byte>& container) {
  const size_t table_bytes = kEntropyShape.table_bytes();
  if (container.size() < table_bytes) return;
  uint64_t begin = table_bytes;
  for (uint32_t i = 0; i < kEntropyShape.units; ++i) {
    std::byte* entry = container.data() + kFirstEntry + i * kEntryBytes;
    uint64_t end;
    std::memcpy(&end, entry, sizeof end);
    if (end <= begin || end > container.size()) break;
    const uint32_t crc = Crc32c(std::span(container).subspan(begin, end - begin));
    std::memcpy(entry + sizeof end, &crc, sizeof crc);
    begin = end;
  }
  const uint32_t crc = Crc32c(std::span(container).first(table_bytes - sizeof crc));
  std::memcpy(container.data() + table_bytes - sizeof crc, &crc, sizeof crc);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> container(bytes, bytes + size);
  Check(container);
  MakeChecksumsRight(container);
  Check(container);
  return 0;
}
