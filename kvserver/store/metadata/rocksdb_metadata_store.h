// SPDX-License-Identifier: Apache-2.0
//
// RocksDbMetadataStore: the MetadataStore of one machine, in the metadata table of its database.
// Thread-safety: as the interface. Apply calls are serialised, so a condition still holds when its
// batch is written. Get and Scan do not wait for them.
#ifndef QUIRE_KVSERVER_STORE_METADATA_ROCKSDB_METADATA_STORE_H_
#define QUIRE_KVSERVER_STORE_METADATA_ROCKSDB_METADATA_STORE_H_

#include "common/base/threads/mutex.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/metadata_store.h"

namespace quire::kvserver {

class RocksDbMetadataStore final : public MetadataStore {
 public:
  /// `database` outlives the store.
  explicit RocksDbMetadataStore(Database* database) : database_(database) {}
  StatusOr<std::string> Get(std::string_view key) override;
  Status Apply(const MetadataBatch& batch) override;
  StatusOr<std::vector<MetadataEntry>> Scan(std::string_view prefix, std::string_view after,
                                            uint32_t limit) override;

 private:
  Status CheckCondition(const MetadataBatch::Condition& condition);

  Database* const database_;
  Mutex apply_mutex_;  // held over check and write; only writers wait
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_ROCKSDB_METADATA_STORE_H_
