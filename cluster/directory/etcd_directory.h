// SPDX-License-Identifier: Apache-2.0
//
// EtcdDirectory: names of documents as records of etcd, one for each name. A change is one
// transaction on the record that it read, and is tried again when others changed it meanwhile.
// Every answer shows the cluster's record, too (cluster_era.h): UNAVAILABLE for an etcd that has
// lost it, or was restored since.
//
// Thread-safety: all methods may be called concurrently. Ownership: the client outlives it. Errors:
// as the seams', and those of EtcdClient.
#ifndef QUIRE_CLUSTER_DIRECTORY_ETCD_DIRECTORY_H_
#define QUIRE_CLUSTER_DIRECTORY_ETCD_DIRECTORY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/directory/cluster_era.h"
#include "cluster/directory/directory_feed.h"
#include "cluster/directory/directory_records.h"
#include "cluster/etcd/etcd_client.h"
#include "common/documents/changing_agreement.h"
#include "quire/status.h"

namespace quire::cluster {

class EtcdDirectory final : public ChangingAgreement, public DirectoryFeed {
 public:
  EtcdDirectory(EtcdClient* client, std::string_view cluster_name)
      : client_(*client), prefix_(DocumentsPrefix(cluster_name)), era_(cluster_name) {}

  /// The cluster's record that answers have to show.
  EraCell& era() { return era_; }

  bool HasLost(uint64_t revision) const override;
  StatusOr<AgreedName> Read(std::string_view tenant, const DocumentName& name) override;
  StatusOr<DirectoryPage> Scan(std::string_view after, uint32_t limit) override;
  StatusOr<DirectoryChanges> Changes(uint64_t since, TimePoint deadline) override;

 private:
  StatusOr<AgreedName> Change(std::string_view tenant, const DocumentName& name,
                              const Edit& edit) override;

  EtcdClient& client_;
  const std::string prefix_;
  EraCell era_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_DIRECTORY_ETCD_DIRECTORY_H_
