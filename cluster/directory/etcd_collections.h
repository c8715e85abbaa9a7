// SPDX-License-Identifier: Apache-2.0
//
// EtcdCollections: settings of collections as records of etcd, one for each collection. A change is
// one transaction on the record that it read. Thread-safety: all methods may be called
// concurrently. Ownership: the client outlives it. Errors: as the seam's, and those of EtcdClient.
#ifndef QUIRE_CLUSTER_DIRECTORY_ETCD_COLLECTIONS_H_
#define QUIRE_CLUSTER_DIRECTORY_ETCD_COLLECTIONS_H_

#include <string>
#include <string_view>

#include "cluster/directory/cluster_era.h"
#include "cluster/directory/directory_records.h"
#include "cluster/etcd/etcd_client.h"
#include "common/documents/collection_agreement.h"
#include "quire/status.h"

namespace quire::cluster {

class EtcdCollections final : public CollectionAgreement {
 public:
  EtcdCollections(EtcdClient* client, std::string_view cluster_name)
      : client_(*client), prefix_(CollectionsPrefix(cluster_name)), era_(cluster_name) {}

  /// The cluster's record that answers have to show.
  EraCell& era() { return era_; }

  StatusOr<AgreedCollections> ChangedSince(uint64_t revision) override;
  StatusOr<Collection> Change(std::string_view tenant, const std::string& collection,
                              const CollectionChange& change) override;

 private:
  EtcdClient& client_;
  const std::string prefix_;
  EraCell era_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_DIRECTORY_ETCD_COLLECTIONS_H_
