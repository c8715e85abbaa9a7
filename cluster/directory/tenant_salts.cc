// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/tenant_salts.h"

#include "cluster/directory/directory_records.h"
#include "cluster/etcd/etcd_requests.h"
#include "common/base/random.h"

namespace quire::cluster {
namespace {

TenantSalt SaltFor(const std::string& tenant, const TenantSalts& stored) {
  const auto known = stored.find(tenant);
  if (known != stored.end()) return known->second;
  TenantSalt salt;
  SystemRandom().Fill(salt);
  return salt;
}

/// Puts the salt where there is none. Returns the one that is there then.
StatusOr<TenantSalt> PutOrRead(EtcdClient& client, const std::string& key,
                               const std::string& tenant, const TenantSalt& salt) {
  etcdserverpb::TxnRequest txn;
  RequireRevision(txn, key, 0);
  AddPut(txn, key, TenantRecordText(salt));
  txn.add_failure()->mutable_request_range()->set_key(key);
  QUIRE_ASSIGN_OR_RETURN(const auto answer, client.Commit(txn));
  if (answer.succeeded()) return salt;
  if (answer.responses().empty() || answer.responses(0).response_range().kvs().empty()) {
    return Unavailable("etcd's answer lacks the salt of tenant ", tenant);
  }
  return ParseTenantRecord(tenant, answer.responses(0).response_range().kvs(0).value());
}

}  // namespace

StatusOr<TenantSalts> AgreeOnSalts(EtcdClient* client, std::string_view cluster_name,
                                   const std::vector<std::string>& tenants,
                                   const TenantSalts& stored) {
  TenantSalts salts;
  for (const std::string& tenant : tenants) {
    QUIRE_ASSIGN_OR_RETURN(salts[tenant], PutOrRead(*client, TenantKey(cluster_name, tenant),
                                                    tenant, SaltFor(tenant, stored)));
  }
  return salts;
}

}  // namespace quire::cluster
