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

/// A name with the revision that a transaction requires; 0: it is not there.
struct Found {
  AgreedName agreed;
  int64_t mod_revision = 0;
};

StatusOr<AgreedName> Agreed(const DirectoryKey& key, const pb::KeyValue& kv) {
  QUIRE_ASSIGN_OR_RETURN(AgreedName agreed, ParseDirectoryRecord(key, kv.value()));
  agreed.revision = static_cast<uint64_t>(kv.mod_revision());
  return agreed;
}

/// The name in a range of one key, which was read at `revision`.
StatusOr<Found> FoundIn(const DirectoryKey& key, const pb::RangeResponse& range, int64_t revision) {
  if (range.kvs().empty()) return Found{.agreed = {.revision = static_cast<uint64_t>(revision)}};
  const pb::KeyValue& kv = range.kvs(0);
  QUIRE_ASSIGN_OR_RETURN(AgreedName agreed, Agreed(key, kv));
  return Found{.agreed = std::move(agreed), .mod_revision = kv.mod_revision()};
}

StatusOr<Found> Find(EtcdClient& client, const DirectoryKey& key, const std::string& etcd_key) {
  pb::RangeRequest request;
  request.set_key(etcd_key);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client.Read(request));
  return FoundIn(key, range, range.header().revision());
}

/// The transaction that puts `after` in the place of what was found, or answers what is there.
StatusOr<pb::TxnRequest> Replacement(const std::string& etcd_key, const Found& found,
                                     const AgreedName& after) {
  pb::TxnRequest txn;
  RequireRevision(txn, etcd_key, found.mod_revision);
  if (after.exists()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string record, DirectoryRecord(after));
    AddPut(txn, etcd_key, record);
  } else {
    AddDelete(txn, etcd_key);
  }
  txn.add_failure()->mutable_request_range()->set_key(etcd_key);
  return txn;
}

/// Appends the name of a record. One that cannot be read is logged.
void Append(std::string_view prefix, const pb::KeyValue& kv, bool is_removed,
            std::vector<DirectoryEntry>* entries) {
  const std::string_view text = std::string_view(kv.key()).substr(prefix.size());
  auto key = ParseDirectoryKey(text);
  StatusOr<AgreedName> agreed = DataLoss("etcd holds a malformed key documents/", text);
  if (key && is_removed) {
    agreed = AgreedName{.revision = static_cast<uint64_t>(kv.mod_revision())};
  } else if (key) {
    agreed = Agreed(*key, kv);
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

StatusOr<AgreedName> EtcdDirectory::Read(std::string_view tenant, const DocumentName& name) {
  const DirectoryKey key{std::string(tenant), name};
  QUIRE_ASSIGN_OR_RETURN(Found found, Find(client_, key, prefix_ + DirectoryKeyText(tenant, name)));
  return std::move(found.agreed);
}

StatusOr<AgreedName> EtcdDirectory::Change(std::string_view tenant, const DocumentName& name,
                                           const Edit& edit) {
  const DirectoryKey key{std::string(tenant), name};
  const std::string etcd_key = prefix_ + DirectoryKeyText(tenant, name);
  QUIRE_ASSIGN_OR_RETURN(Found found, Find(client_, key, etcd_key));
  for (int attempt = 0; attempt < kMostDirectoryAttempts; ++attempt) {
    QUIRE_ASSIGN_OR_RETURN(AgreedName after, edit(found.agreed));
    if (SaysTheSame(found.agreed, after)) return std::move(found.agreed);
    QUIRE_ASSIGN_OR_RETURN(const pb::TxnRequest txn, Replacement(etcd_key, found, after));
    QUIRE_ASSIGN_OR_RETURN(const pb::TxnResponse answer, client_.Commit(txn));
    if (answer.succeeded()) {
      after.revision = static_cast<uint64_t>(answer.header().revision());
      return after;
    }
    if (answer.responses().empty()) return Unavailable("etcd's answer lacks the name");
    QUIRE_ASSIGN_OR_RETURN(
        found, FoundIn(key, answer.responses(0).response_range(), answer.header().revision()));
  }
  return Unavailable("others change ", name.collection, "/", name.name, " all the time; try again");
}

StatusOr<DirectoryPage> EtcdDirectory::Scan(std::string_view after, uint32_t limit) {
  if (limit == 0) return InvalidArgument("a page of the directory has at least 1 name");
  pb::RangeRequest request;
  request.set_key(after.empty() ? prefix_ : std::string(prefix_).append(after).append(1, '\0'));
  request.set_range_end(PrefixEnd(prefix_));
  request.set_limit(std::min(limit, kMostNamesOfAPage));
  QUIRE_ASSIGN_OR_RETURN(const auto range, client_.Read(request));
  DirectoryPage page{.revision = static_cast<uint64_t>(range.header().revision())};
  for (const pb::KeyValue& kv : range.kvs()) {
    Append(prefix_, kv, /*is_removed=*/false, &page.entries);
  }
  if (range.more() && !range.kvs().empty()) {
    page.next = range.kvs(range.kvs_size() - 1).key().substr(prefix_.size());
  }
  return page;
}

StatusOr<DirectoryChanges> EtcdDirectory::Changes(uint64_t since, TimePoint deadline) {
  DirectoryChanges changes{.revision = since};
  EtcdClient::WatchCall watch(std::max(deadline, SystemClock().Now() + kShortestWatch));
  bool has_events = false;
  const auto take = [&](const pb::WatchResponse& response) -> Status {
    // An etcd that lost data would wait for its revisions to come up to ours, and say nothing.
    if (response.header().revision() < static_cast<int64_t>(since)) {
      return Status(StatusCode::kOutOfRange, "etcd is behind the revision that is known");
    }
    for (const pb::Event& event : response.events()) {
      Append(prefix_, event.kv(), event.type() == pb::Event::DELETE, &changes.entries);
      changes.revision =
          std::max(changes.revision, static_cast<uint64_t>(event.kv().mod_revision()));
    }
    has_events = !response.events().empty();
    if (!has_events && !response.created()) {
      changes.revision = static_cast<uint64_t>(response.header().revision());
    }
    // The first changes end the watch.
    return has_events ? Status(StatusCode::kCancelled, "there are changes") : OkStatus();
  };
  const Status ended = client_.Watch(prefix_, static_cast<int64_t>(since) + 1, watch, take);
  if (has_events || IsDeadlineExceeded(ended)) return changes;
  return ended;
}

}  // namespace quire::cluster
