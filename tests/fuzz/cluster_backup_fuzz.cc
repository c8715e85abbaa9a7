// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the reader of registry backups. Records of a whole file are written again, and read as the
// same. The checksum of a mutated file is put right first, so that mutations come through.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/backup/backup_format.h"
#include "common/base/memory/checksum.h"

namespace {

using namespace quire;
using namespace quire::cluster;

struct WholeBackup {
  v1::RegistryBackupHeader header;
  std::vector<BackupRecord> records;
};

std::optional<WholeBackup> ReadBackup(const std::string& bytes) {
  std::istringstream in(bytes);
  BackupReader reader(&in);
  const auto header = reader.ReadHeader();
  if (!header.ok()) return std::nullopt;
  WholeBackup backup{.header = *header, .records = {}};
  for (;;) {
    auto record = reader.Next();
    if (!record.ok()) return std::nullopt;
    if (!*record) return backup;
    backup.records.push_back(**std::move(record));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)ReadBackup(bytes);
  if (size < sizeof(uint32_t)) return 0;
  const size_t body = size - sizeof(uint32_t);
  const uint32_t crc32c = Crc32c(std::as_bytes(std::span(bytes)).first(body));
  for (size_t i = 0; i < sizeof crc32c; ++i) {
    bytes[body + i] = static_cast<char>(static_cast<uint8_t>(crc32c >> (8 * i)));
  }
  const auto backup = ReadBackup(bytes);
  if (!backup) return 0;
  BackupEncoder encoder;
  std::string written = encoder.Header(backup->header);
  for (const BackupRecord& record : backup->records) {
    written += encoder.Record(record.key, record.value);
  }
  written += encoder.End();
  const auto again = ReadBackup(written);
  if (!again || again->records != backup->records) std::abort();
  return 0;
}
