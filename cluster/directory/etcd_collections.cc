// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/etcd_collections.h"

#include <utility>

#include "cluster/etcd/etcd_requests.h"
#include "common/base/observe/log.h"
#include "common/documents/agreed_changes.h"

namespace quire::cluster {
namespace {

constexpr int kMostCollectionAttempts = 64;

}  // namespace

StatusOr<AgreedCollections> EtcdCollections::ChangedSince(uint64_t revision) {
  etcdserverpb::TxnRequest read;
  AddRead(read, era_.key());
  AddRead(read, prefix_);
  etcdserverpb::RangeRequest& request = *read.mutable_success(1)->mutable_request_range();
  request.set_range_end(PrefixEnd(prefix_));
  // One of a former era asks for all.
  if (revision > era_.Get().Known(0)) {
    request.set_min_mod_revision(static_cast<int64_t>(revision - era_.Get().Known(0)) + 1);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto answer, client_.Commit(read));
  if (answer.responses_size() < 2) return Unavailable("etcd's answer lacks the collections");
  QUIRE_ASSIGN_OR_RETURN(const ClusterEra era, era_.Check(answer.responses(0).response_range()));
  const etcdserverpb::RangeResponse& range = answer.responses(1).response_range();
  AgreedCollections all{.changed = {}, .revision = era.Known(answer.header().revision())};
  for (const etcdserverpb::KeyValue& kv : range.kvs()) {
    const std::string_view text = std::string_view(kv.key()).substr(prefix_.size());
    auto collection = ParseCollectionRecord(text, kv.value());
    if (collection.ok()) {
      all.changed.push_back(*std::move(collection));
    } else {
      LogWarning("collection_unreadable", {{"why", std::string(Message(collection.status()))}});
    }
  }
  return all;
}

StatusOr<Collection> EtcdCollections::Change(std::string_view tenant, const std::string& collection,
                                             const CollectionChange& change) {
  const std::string text = std::string(tenant).append("/").append(collection);
  const std::string key = prefix_ + text;
  for (int attempt = 0; attempt < kMostCollectionAttempts; ++attempt) {
    etcdserverpb::TxnRequest read;
    AddRead(read, era_.key());
    AddRead(read, key);
    QUIRE_ASSIGN_OR_RETURN(const auto read_answer, client_.Commit(read));
    if (read_answer.responses_size() < 2) return Unavailable("etcd's answer lacks the collection");
    QUIRE_ASSIGN_OR_RETURN(const ClusterEra era,
                           era_.Check(read_answer.responses(0).response_range()));
    const etcdserverpb::RangeResponse& range = read_answer.responses(1).response_range();
    AgreedCollection found{.tenant = std::string(tenant), .settings = {.name = collection}};
    int64_t mod_revision = 0;
    if (!range.kvs().empty()) {
      QUIRE_ASSIGN_OR_RETURN(found, ParseCollectionRecord(text, range.kvs(0).value()));
      mod_revision = range.kvs(0).mod_revision();
    }
    Collection after = WithChange(std::move(found.settings), change);
    etcdserverpb::TxnRequest txn;
    RequireRevision(txn, era_.key(), era.mod_revision);
    RequireRevision(txn, key, mod_revision);
    AddPut(txn, key, CollectionRecordText(after));
    QUIRE_ASSIGN_OR_RETURN(const auto answer, client_.Commit(txn));
    if (answer.succeeded()) return after;
  }
  return Unavailable("others change the settings of ", text, " all the time; try again");
}

}  // namespace quire::cluster
