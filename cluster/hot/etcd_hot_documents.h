// SPDX-License-Identifier: Apache-2.0
//
// EtcdHotDocuments: HotAgreement over etcd. Each hot document is one key under a lease, beside the
// records of the members, whom all nodes mirror. It goes when no node renews the lease.
// Ownership: the client outlives it.
#ifndef QUIRE_CLUSTER_HOT_ETCD_HOT_DOCUMENTS_H_
#define QUIRE_CLUSTER_HOT_ETCD_HOT_DOCUMENTS_H_

#include <string>
#include <utility>

#include "cluster/etcd/etcd_client.h"
#include "cluster/hot/hot_agreement.h"

namespace quire::cluster {

class EtcdHotDocuments final : public HotAgreement {
 public:
  EtcdHotDocuments(EtcdClient* client, std::string cluster_name)
      : client_(*client), cluster_name_(std::move(cluster_name)) {}

  StatusOr<bool> Begin(const ReadName& name, Duration keep) override;
  StatusOr<bool> AddOne(const HotDocument& known) override;
  Status Keep(const HotDocument& known) override { return client_.KeepAlive(known.lease); }

 private:
  /// Puts the record if the key was last changed at `revision`.
  StatusOr<bool> Put(const HotDocument& document, int64_t revision);

  EtcdClient& client_;
  const std::string cluster_name_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_HOT_ETCD_HOT_DOCUMENTS_H_
