// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/rocksdb_metadata_store.h"

#include <algorithm>

namespace quire::kvserver {

StatusOr<std::string> RocksDbMetadataStore::Get(std::string_view key) {
  return database_->Get(Table::kMetadata, key);
}

Status RocksDbMetadataStore::CheckCondition(const MetadataBatch::Condition& condition) {
  const StatusOr<std::string> stored = database_->Get(Table::kMetadata, condition.key);
  const bool absent = stored.status().code() == StatusCode::kNotFound;
  if (!stored.ok() && !absent) return stored.status();
  const bool holds = condition.value ? !absent && *stored == *condition.value : absent;
  return holds ? OkStatus() : FailedPrecondition("metadata changed meanwhile; read it and retry");
}

Status RocksDbMetadataStore::Apply(const MetadataBatch& batch) {
  QUIRE_RETURN_IF_ERROR(CheckKeys(batch));
  Database::Batch writes = database_->NewBatch();
  for (const MetadataBatch::Operation& operation : batch.operations) {
    if (operation.value) {
      writes.Put(Table::kMetadata, operation.key, {*operation.value});
    } else {
      writes.Delete(Table::kMetadata, operation.key);
    }
  }
  MutexLock lock(apply_mutex_);
  for (const MetadataBatch::Condition& condition : batch.conditions) {
    QUIRE_RETURN_IF_ERROR(CheckCondition(condition));
  }
  return database_->Commit(writes, /*sync=*/true);
}

StatusOr<std::vector<MetadataEntry>> RocksDbMetadataStore::Scan(std::string_view prefix,
                                                                std::string_view after,
                                                                uint32_t limit) {
  std::vector<MetadataEntry> out;
  limit = std::min(limit, kMaxScanEntries);
  if (limit == 0) return out;
  const auto visit = [&](std::string_view key, std::string_view value) {
    if (!key.starts_with(prefix)) return false;
    if (after.empty() || key > after) out.push_back({std::string(key), std::string(value)});
    return out.size() < limit;
  };
  QUIRE_RETURN_IF_ERROR(database_->Scan(Table::kMetadata, std::max(prefix, after), visit));
  return out;
}

}  // namespace quire::kvserver
