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
  etcdserverpb::RangeRequest request;
  request.set_key(prefix_);
  request.set_range_end(PrefixEnd(prefix_));
  if (revision != 0) request.set_min_mod_revision(static_cast<int64_t>(revision) + 1);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.Read(request));
  AgreedCollections all{.changed = {},
                        .revision = static_cast<uint64_t>(range.header().revision())};
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
    etcdserverpb::RangeRequest request;
    request.set_key(key);
    QUIRE_ASSIGN_OR_RETURN(const auto range, client_.Read(request));
    AgreedCollection found{.tenant = std::string(tenant), .settings = {.name = collection}};
    int64_t mod_revision = 0;
    if (!range.kvs().empty()) {
      QUIRE_ASSIGN_OR_RETURN(found, ParseCollectionRecord(text, range.kvs(0).value()));
      mod_revision = range.kvs(0).mod_revision();
    }
    Collection after = WithChange(std::move(found.settings), change);
    etcdserverpb::TxnRequest txn;
    RequireRevision(txn, key, mod_revision);
    AddPut(txn, key, CollectionRecordText(after));
    QUIRE_ASSIGN_OR_RETURN(const auto answer, client_.Commit(txn));
    if (answer.succeeded()) return after;
  }
  return Unavailable("others change the settings of ", text, " all the time; try again");
}

}  // namespace quire::cluster
