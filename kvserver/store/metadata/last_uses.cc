// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/last_uses.h"

#include <string>
#include <string_view>

namespace quire::kvserver {
namespace {

constexpr std::string_view kLastUsePrefix = "used/";
constexpr size_t kTimeBytes = 8;

std::string LastUseKey(const SegmentKey& segment) {
  return std::string(kLastUsePrefix).append(segment.view());
}

}  // namespace

void StageLastUse(const SegmentKey& segment, int64_t unix_micros, Database::Batch& batch) {
  const auto time = static_cast<uint64_t>(unix_micros);
  std::string value;
  for (int shift = 56; shift >= 0; shift -= 8) value.push_back(static_cast<char>(time >> shift));
  batch.Put(Table::kMetadata, LastUseKey(segment), {value});
}

void StageForgetLastUse(Database& database, const SegmentKey& segment, Database::Batch& batch) {
  const std::string key = LastUseKey(segment);
  if (database.MayHave(Table::kMetadata, key)) batch.Delete(Table::kMetadata, key);
}

StatusOr<LastUses> ReadLastUses(Database& database) {
  LastUses uses;
  const auto visit = [&](std::string_view key, std::string_view value) {
    if (!key.starts_with(kLastUsePrefix)) return false;
    const auto segment = SegmentKey::FromBytes(key.substr(kLastUsePrefix.size()));
    if (!segment || value.size() != kTimeBytes) return true;
    uint64_t time = 0;
    for (const char byte : value) time = time << 8 | static_cast<uint8_t>(byte);
    uses[*segment] = static_cast<int64_t>(time);
    return true;
  };
  QUIRE_RETURN_IF_ERROR(database.Scan(Table::kMetadata, kLastUsePrefix, visit));
  return uses;
}

}  // namespace quire::kvserver
