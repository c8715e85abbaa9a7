// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/etcd_directory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cluster/etcd/etcd_requests.h"
#include "common/base/observe/log.h"
#include "common/documents/agreed_changes.h"
#include "common/wire/limits.h"

namespace quire::cluster {
namespace {

namespace pb = etcdserverpb;

constexpr int kMostDirectoryAttempts = 64;
constexpr uint32_t kMostNamesOfAPage = 256;
static_assert(kMostNamesOfAPage * kMaxDirectoryRecordBytes < wire::kDefaultMaxMessageBytes);
/// Time that a watch needs to tell what has changed already.
constexpr Duration kShortestWatch = std::chrono::milliseconds(100);

/// A name with the revisions that a transaction requires.
struct Found {
  ClusterEra era;
  AgreedName agreed;
  int64_t mod_revision = 0;  ///< 0: it is not there.
};

StatusOr<AgreedName> Agreed(const ClusterEra& era, const DirectoryKey& key,
                            const pb::KeyValue& kv) {
  QUIRE_ASSIGN_OR_RETURN(AgreedName agreed, ParseDirectoryRecord(key, kv.value()));
  agreed.revision = era.Known(kv.mod_revision());
  return agreed;
}

/// The ranges that a transaction read: that of the cluster's record, and another one.
StatusOr<std::pair<ClusterEra, pb::RangeResponse>> RangesOf(EraCell& cell, pb::TxnResponse answer) {
  if (answer.responses_size() < 2) return Unavailable("etcd's answer lacks the name");
  QUIRE_ASSIGN_OR_RETURN(ClusterEra era, cell.Check(answer.responses(0).response_range()));
  return std::pair(std::move(era),
                   std::move(*answer.mutable_responses(1)->mutable_response_range()));
}

/// The name in the ranges of an answer.
StatusOr<Found> FoundIn(EraCell& cell, const DirectoryKey& key, const pb::TxnResponse& answer) {
  QUIRE_ASSIGN_OR_RETURN(const auto ranges, RangesOf(cell, answer));
  const auto& [era, range] = ranges;
  if (range.kvs().empty()) {
    return Found{.era = era, .agreed = {.revision = era.Known(answer.header().revision())}};
  }
  const pb::KeyValue& kv = range.kvs(0);
  QUIRE_ASSIGN_OR_RETURN(AgreedName agreed, Agreed(era, key, kv));
  return Found{.era = era, .agreed = std::move(agreed), .mod_revision = kv.mod_revision()};
}

StatusOr<Found> Find(EtcdClient& client, EraCell& cell, const DirectoryKey& key,
                     const std::string& etcd_key) {
  pb::TxnRequest read;
  AddRead(read, cell.key());
  AddRead(read, etcd_key);
  QUIRE_ASSIGN_OR_RETURN(const auto answer, client.Commit(read));
  return FoundIn(cell, key, answer);
}

/// The transaction that puts `after` in the place of what was found, or answers what is there.
StatusOr<pb::TxnRequest> Replacement(const EraCell& cell, const std::string& etcd_key,
                                     const Found& found, const AgreedName& after) {
  pb::TxnRequest txn;
  RequireRevision(txn, cell.key(), found.era.mod_revision);
  RequireRevision(txn, etcd_key, found.mod_revision);
  if (after.exists()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string record, DirectoryRecord(after));
    AddPut(txn, etcd_key, record);
  } else {
    AddDelete(txn, etcd_key);
  }
  txn.add_failure()->mutable_request_range()->set_key(cell.key());
  txn.add_failure()->mutable_request_range()->set_key(etcd_key);
  return txn;
}

/// Appends the name of a record. One that cannot be read is logged.
void Append(std::string_view prefix, const ClusterEra& era, const pb::KeyValue& kv, bool is_removed,
            std::vector<DirectoryEntry>* entries) {
  const std::string_view text = std::string_view(kv.key()).substr(prefix.size());
  auto key = ParseDirectoryKey(text);
  StatusOr<AgreedName> agreed = DataLoss("etcd holds a malformed key documents/", text);
  if (key && is_removed) {
    agreed = AgreedName{.revision = era.Known(kv.mod_revision())};
  } else if (key) {
    agreed = Agreed(era, *key, kv);
  }
  if (!agreed.ok()) {
    LogWarning("directory_record_unreadable", {{"why", std::string(Message(agreed.status()))}});
    return;
  }
  entries->push_back({.tenant = std::move(key->tenant),
                      .name = std::move(key->name),
                      .agreed = *std::move(agreed)});
}

}  // namespace

bool EtcdDirectory::HasLost(uint64_t revision) const {
  return cluster::HasLost(era_.Get().cluster, revision);
}

StatusOr<AgreedName> EtcdDirectory::Read(std::string_view tenant, const DocumentName& name) {
  const DirectoryKey key{std::string(tenant), name};
  QUIRE_ASSIGN_OR_RETURN(Found found,
                         Find(client_, era_, key, prefix_ + DirectoryKeyText(tenant, name)));
  return std::move(found.agreed);
}

StatusOr<AgreedName> EtcdDirectory::Change(std::string_view tenant, const DocumentName& name,
                                           const Edit& edit) {
  const DirectoryKey key{std::string(tenant), name};
  const std::string etcd_key = prefix_ + DirectoryKeyText(tenant, name);
  QUIRE_ASSIGN_OR_RETURN(Found found, Find(client_, era_, key, etcd_key));
  for (int attempt = 0; attempt < kMostDirectoryAttempts; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(AgreedName after, edit(found.agreed));
    if (SaysTheSame(found.agreed, after)) return std::move(found.agreed);
    QUIRE_ASSIGN_OR_RETURN(const pb::TxnRequest txn, Replacement(era_, etcd_key, found, after));
    QUIRE_ASSIGN_OR_RETURN(const pb::TxnResponse answer, client_.Commit(txn));
    if (answer.succeeded()) {
      after.revision = found.era.Known(answer.header().revision());
      return after;
    }
    QUIRE_ASSIGN_OR_RETURN(found, FoundIn(era_, key, answer));
  }
  return Unavailable("others change ", name.collection, "/", name.name, " all the time; try again");
}

StatusOr<DirectoryPage> EtcdDirectory::Scan(std::string_view after, uint32_t limit) {
  if (limit == 0) return InvalidArgument("a page of the directory has at least 1 name");
  pb::TxnRequest read;
  AddRead(read, era_.key());
  AddRead(read, after.empty() ? prefix_ : std::string(prefix_).append(after).append(1, '\0'));
  pb::RangeRequest& request = *read.mutable_success(1)->mutable_request_range();
  request.set_range_end(PrefixEnd(prefix_));
  request.set_limit(std::min(limit, kMostNamesOfAPage));
  QUIRE_ASSIGN_OR_RETURN(pb::TxnResponse answer, client_.Commit(read));
  const int64_t revision = answer.header().revision();
  QUIRE_ASSIGN_OR_RETURN(const auto ranges, RangesOf(era_, std::move(answer)));
  const auto& [era, range] = ranges;
  DirectoryPage page{.revision = era.Known(revision)};
  for (const pb::KeyValue& kv : range.kvs()) {
    Append(prefix_, era, kv, /*is_removed=*/false, &page.entries);
  }
  if (range.more() && !range.kvs().empty()) {
    page.next = range.kvs(range.kvs_size() - 1).key().substr(prefix_.size());
  }
  return page;
}

StatusOr<DirectoryChanges> EtcdDirectory::Changes(uint64_t since, TimePoint deadline) {
  const ClusterEra era = era_.Get();
  if (since < era.Known(0)) return Status(StatusCode::kOutOfRange, "etcd was restored since");
  const auto after = static_cast<int64_t>(since - era.Known(0));
  DirectoryChanges changes{.revision = since};
  EtcdClient::WatchCall watch(std::max(deadline, SystemClock().Now() + kShortestWatch));
  bool has_events = false;
  const auto take = [&](const pb::WatchResponse& response) -> Status {
    // An etcd that lost data would wait for its revisions to come up to ours, and say nothing.
    if (response.header().revision() < after) {
      return Status(StatusCode::kOutOfRange, "etcd is behind the revision that is known");
    }
    for (const pb::Event& event : response.events()) {
      Append(prefix_, era, event.kv(), event.type() == pb::Event::DELETE, &changes.entries);
      changes.revision = std::max(changes.revision, era.Known(event.kv().mod_revision()));
    }
    has_events = !response.events().empty();
    if (!has_events && !response.created()) {
      changes.revision = static_cast<uint64_t>(response.header().revision());
    }
    // The first changes end the watch.
    return has_events ? Status(StatusCode::kCancelled, "there are changes") : OkStatus();
  };
  const Status ended = client_.Watch(prefix_, after + 1, watch, take);
  if (!has_events && IsDeadlineExceeded(ended)) return changes;
  if (!has_events) return ended;
  // They count only if etcd holds the same cluster still, and was not restored meanwhile.
  pb::RangeRequest read;
  read.set_key(era_.key());
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.Read(read));
  QUIRE_RETURN_IF_ERROR(era_.Check(range).status());
  if (era_.Get().Known(0) == era.Known(0)) return changes;
  return Status(StatusCode::kOutOfRange, "etcd was restored since");
}

}  // namespace quire::cluster
