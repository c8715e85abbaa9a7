// SPDX-License-Identifier: Apache-2.0
#include "cluster/hot/etcd_hot_documents.h"

#include "cluster/etcd/etcd_requests.h"
#include "cluster/membership/cluster_records.h"
#include "cluster/placement/placement_key.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

StatusOr<bool> EtcdHotDocuments::Put(const HotDocument& document, int64_t revision) {
  v1::HotDocument record;
  record.set_tenant(document.tenant);
  record.set_collection(document.collection);
  record.set_document(document.document);
  record.set_extra_replicas(document.extra_replicas);
  record.set_lease(document.lease);
  const std::string key = ClusterPrefix(cluster_name_) + HotKey(document.placement_hash);
  etcdserverpb::TxnRequest txn;
  RequireRevision(txn, key, revision);
  AddPut(txn, key, ToJsonText(record), document.lease);
  QUIRE_ASSIGN_OR_RETURN(const auto answer, client_.Commit(txn));
  return answer.succeeded();
}

StatusOr<bool> EtcdHotDocuments::Begin(const ReadName& name, Duration keep) {
  HotDocument document = {
      .tenant = name.tenant,
      .collection = name.collection,
      .document = name.document,
      .placement_hash = KeyOfDocument(name.tenant, name.collection, name.document).hash};
  QUIRE_ASSIGN_OR_RETURN(document.lease, client_.GrantLease(keep));
  const StatusOr<bool> begun = Put(document, 0);
  // Without an answer the lease ends by itself.
  if (begun.ok() && !*begun) (void)client_.RevokeLease(document.lease);
  return begun;
}

StatusOr<bool> EtcdHotDocuments::AddOne(const HotDocument& known) {
  HotDocument more = known;
  ++more.extra_replicas;
  return Put(more, known.revision);
}

}  // namespace quire::cluster
