// SPDX-License-Identifier: Apache-2.0
//
// MemoryMetadataStore: a MetadataStore in a map, for tests of its users. "Durable" means until it
// is destroyed.
#ifndef QUIRE_KVSERVER_STORE_TESTING_MEMORY_METADATA_STORE_H_
#define QUIRE_KVSERVER_STORE_TESTING_MEMORY_METADATA_STORE_H_

#include <algorithm>
#include <functional>
#include <map>

#include "common/base/threads/mutex.h"
#include "kvserver/store/metadata/metadata_store.h"

namespace quire::kvserver {

class MemoryMetadataStore final : public MetadataStore {
 public:
  StatusOr<std::string> Get(std::string_view key) override {
    MutexLock lock(mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end()) return NotFound("no such key");
    return it->second;
  }

  Status Apply(const MetadataBatch& batch) override {
    QUIRE_RETURN_IF_ERROR(CheckKeys(batch));
    MutexLock lock(mutex_);
    for (const auto& condition : batch.conditions) {
      const auto it = entries_.find(condition.key);
      const bool absent = it == entries_.end();
      if (condition.value ? absent || it->second != *condition.value : !absent) {
        return FailedPrecondition("metadata changed meanwhile; read it and retry");
      }
    }
    for (const auto& operation : batch.operations) {
      if (operation.value) {
        entries_[operation.key] = *operation.value;
      } else {
        entries_.erase(operation.key);
      }
    }
    return OkStatus();
  }

  StatusOr<std::vector<MetadataEntry>> Scan(std::string_view prefix, std::string_view after,
                                            uint32_t limit) override {
    std::vector<MetadataEntry> out;
    limit = std::min(limit, kMaxScanEntries);
    MutexLock lock(mutex_);
    for (auto it = entries_.lower_bound(std::max(prefix, after)); it != entries_.end(); ++it) {
      if (out.size() == limit || !it->first.starts_with(prefix)) break;
      if (after.empty() || it->first > after) out.push_back({it->first, it->second});
    }
    return out;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::string, std::less<>> entries_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_TESTING_MEMORY_METADATA_STORE_H_
