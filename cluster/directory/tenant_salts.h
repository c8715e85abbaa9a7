// SPDX-License-Identifier: Apache-2.0
//
// Salts of tenants in etcd. All nodes of a cluster make keys with the same salts, so that replicas
// have the same keys. The first node that serves a tenant decides.
#ifndef QUIRE_CLUSTER_DIRECTORY_TENANT_SALTS_H_
#define QUIRE_CLUSTER_DIRECTORY_TENANT_SALTS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/etcd/etcd_client.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::cluster {

using TenantSalts = std::map<std::string, TenantSalt, std::less<>>;

/// Returns the cluster's salt of each tenant. A tenant without one gets that of `stored`, or else a
/// random one. UNAVAILABLE while etcd is away; DATA_LOSS for a record that cannot be read.
[[nodiscard]] StatusOr<TenantSalts> AgreeOnSalts(EtcdClient* client, std::string_view cluster_name,
                                                 const std::vector<std::string>& tenants,
                                                 const TenantSalts& stored);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_DIRECTORY_TENANT_SALTS_H_
