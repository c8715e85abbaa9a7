// SPDX-License-Identifier: Apache-2.0
#include "cluster/backup/registry_backup.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/backup/backup_file.h"
#include "cluster/backup/backup_format.h"
#include "cluster/directory/directory_records.h"
#include "cluster/etcd/etcd_requests.h"
#include "cluster/membership/cluster_records.h"
#include "common/wire/limits.h"
#include "quire/clock.h"
#include "quire/version.h"

namespace quire::cluster {
namespace {

namespace pb = etcdserverpb;

constexpr int64_t kKeysOfAPage = 256;
static_assert(kKeysOfAPage * kMaxDirectoryRecordBytes < wire::kDefaultMaxMessageBytes);
/// Limits of one transaction: etcd takes 128 operations and 1.5 MiB.
constexpr int kMostPuts = 100;
constexpr size_t kMostPutBytes = size_t{1} << 20;

Status Aborted(const std::string& why) { return Status(StatusCode::kAborted, why); }

/// Prefixes of all that etcd knows of a cluster.
std::array<std::string, 2> PrefixesOf(std::string_view cluster_name) {
  return {ClusterPrefix(cluster_name), RegistryPrefix(cluster_name)};
}

/// Leases, and with them who is up, end with etcd.
bool IsKept(std::string_view cluster_name, std::string_view key) {
  return !key.starts_with(ClusterPrefix(cluster_name) + LiveKey(""));
}

StatusOr<ClusterRecords> ReadClusterRecords(EtcdClient& client, const std::string& cluster_name) {
  const std::string prefix = ClusterPrefix(cluster_name);
  QUIRE_ASSIGN_OR_RETURN(const auto range, client.ReadPrefix(prefix));
  return ParseRecords(SnapshotOf(range, prefix));
}

class BackupWriter {
 public:
  BackupWriter(EtcdClient* client, std::string cluster_name, BackupFile file,
               const BackupProgress& progress)
      : client_(*client),
        cluster_name_(std::move(cluster_name)),
        file_(std::move(file)),
        progress_(progress) {}

  StatusOr<BackupResult> Write() {
    QUIRE_ASSIGN_OR_RETURN(const ClusterRecords records,
                           ReadClusterRecords(client_, cluster_name_));
    if (!records.cluster) {
      return NotFound("etcd at ", client_.endpoints(), " knows no cluster ", cluster_name_);
    }
    const v1::ClusterRecord& cluster = records.cluster->record;
    BackupResult result;
    result.header.set_cluster_name(cluster_name_);
    result.header.set_cluster_id(cluster.cluster_id());
    result.header.set_revision(RevisionBase(cluster) + static_cast<uint64_t>(records.revision));
    result.header.set_created_unix_micros(SystemClock().UnixMicros());
    result.header.set_version(QUIRE_VERSION);
    QUIRE_RETURN_IF_ERROR(file_.Append(encoder_.Header(result.header)));
    for (const std::string& prefix : PrefixesOf(cluster_name_)) {
      QUIRE_RETURN_IF_ERROR(WritePrefix(prefix, records.revision));
    }
    QUIRE_RETURN_IF_ERROR(file_.Append(encoder_.End()));
    QUIRE_RETURN_IF_ERROR(file_.Finish());
    result.records = encoder_.count();
    return result;
  }

 private:
  Status WritePrefix(const std::string& prefix, int64_t revision) {
    pb::RangeRequest request;
    request.set_key(prefix);
    request.set_range_end(PrefixEnd(prefix));
    request.set_limit(kKeysOfAPage);
    request.set_revision(revision);
    for (bool more = true; more;) {
      const auto range = client_.Read(request);
      if (range.status().code() == StatusCode::kOutOfRange) {
        return Aborted("etcd compacted the revision while it was backed up; try again");
      }
      QUIRE_RETURN_IF_ERROR(range.status());
      QUIRE_RETURN_IF_ERROR(WritePage(*range));
      more = range->more() && !range->kvs().empty();
      if (more) request.set_key(range->kvs().rbegin()->key() + '\0');
    }
    return OkStatus();
  }

  Status WritePage(const pb::RangeResponse& page) {
    for (const pb::KeyValue& kv : page.kvs()) {
      if (!IsKept(cluster_name_, kv.key())) continue;
      if (kv.key().size() > kMaxBackupKeyBytes || kv.value().size() > kMaxBackupValueBytes) {
        return Internal("etcd's key ", kv.key().substr(0, 256), " is too large for a backup");
      }
      QUIRE_RETURN_IF_ERROR(file_.Append(encoder_.Record(kv.key(), kv.value())));
    }
    if (progress_) progress_(static_cast<uint64_t>(page.kvs_size()));
    return OkStatus();
  }

  EtcdClient& client_;
  const std::string cluster_name_;
  BackupFile file_;
  const BackupProgress& progress_;
  BackupEncoder encoder_;
};

/// Calls `take` with each record of a file. An error of `take` ends it.
StatusOr<BackupResult> ForEachRecord(
    const std::string& path,
    const std::function<Status(const v1::RegistryBackupHeader&, BackupRecord)>& take) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("cannot open ", path);
  BackupReader reader(&in);
  auto header = reader.ReadHeader();
  if (!header.ok()) return Annotate(header.status(), path);
  for (;;) {
    auto record = reader.Next();
    if (!record.ok()) return Annotate(record.status(), path);
    if (!*record) return BackupResult{.header = *std::move(header), .records = reader.count()};
    QUIRE_RETURN_IF_ERROR(take(*header, **std::move(record)));
  }
}

Status CheckRecord(const v1::RegistryBackupHeader& header, const BackupRecord& record) {
  const auto prefixes = PrefixesOf(header.cluster_name());
  const bool is_of_cluster = std::ranges::any_of(
      prefixes, [&](const std::string& prefix) { return record.key.starts_with(prefix); });
  if (is_of_cluster && IsKept(header.cluster_name(), record.key)) return OkStatus();
  return DataLoss("the backup has a key of something else: ", record.key.substr(0, 256));
}

/// Reads all of a backup. Returns the cluster's record besides.
StatusOr<std::pair<BackupResult, v1::ClusterRecord>> ReadChecked(const std::string& path) {
  std::optional<v1::ClusterRecord> cluster;
  QUIRE_ASSIGN_OR_RETURN(
      BackupResult result,
      ForEachRecord(path, [&](const v1::RegistryBackupHeader& header, BackupRecord record) {
        if (record.key == ClusterPrefix(header.cluster_name()) + std::string(kClusterKey)) {
          QUIRE_RETURN_IF_ERROR(FromJsonText(kClusterKey, record.value, &cluster.emplace()));
        }
        return CheckRecord(header, record);
      }));
  if (cluster && cluster->cluster_id() == result.header.cluster_id()) {
    return std::pair(std::move(result), *std::move(cluster));
  }
  return DataLoss(path, ": the backup lacks the record of its cluster; use another one");
}

class Restorer {
 public:
  Restorer(EtcdClient* client, v1::RegistryBackupHeader header, v1::ClusterRecord cluster,
           const BackupProgress& progress)
      : client_(*client),
        header_(std::move(header)),
        cluster_(std::move(cluster)),
        cluster_key_(ClusterPrefix(header_.cluster_name()) + std::string(kClusterKey)),
        progress_(progress) {}

  /// Checks what etcd has of the cluster, and removes it with `replace`.
  Status MakeRoom(bool replace) {
    QUIRE_ASSIGN_OR_RETURN(const ClusterRecords present,
                           ReadClusterRecords(client_, header_.cluster_name()));
    QUIRE_RETURN_IF_ERROR(CheckPresent(present));
    QUIRE_ASSIGN_OR_RETURN(const uint64_t count, CountRegistry(&client_, header_.cluster_name()));
    if (count == 0) return OkStatus();
    if (!replace) {
      return AlreadyExists("etcd at ", client_.endpoints(), " has ", count, " records of cluster ",
                           header_.cluster_name(), ": it has not lost its data, or a restore was ",
                           "interrupted; --replace throws them away");
    }
    if (present.cluster) NoteBase(RevisionBase(present.cluster->record) + present.revision);
    return Clear(present.cluster ? present.cluster->mod_revision : 0);
  }

  Status Add(BackupRecord record) {
    if (record.key == cluster_key_) return OkStatus();  // Written last.
    if (puts_.success_size() == kMostPuts || bytes_ + record.value.size() > kMostPutBytes) {
      QUIRE_RETURN_IF_ERROR(Flush());
    }
    bytes_ += record.key.size() + record.value.size();
    AddPut(puts_, record.key, record.value);
    return OkStatus();
  }

  Status Finish() {
    QUIRE_RETURN_IF_ERROR(Flush());
    NoteBase(header_.revision());
    NoteBase(RevisionBase(cluster_));
    v1::ClusterRestore& restore = *cluster_.add_restores();
    restore.set_backup_revision(header_.revision());
    restore.set_revision_base(base_);
    cluster_.set_min_protocol(std::max(cluster_.min_protocol(), kRestoredClusterProtocol));
    const std::string text = ToJsonText(cluster_);
    AddPut(puts_, cluster_key_, text);
    const Status flushed = Flush();
    if (flushed.code() != StatusCode::kAborted) return flushed;
    // The transaction was made twice when its first reply was lost.
    pb::RangeRequest read;
    read.set_key(cluster_key_);
    QUIRE_ASSIGN_OR_RETURN(const auto range, client_.Read(read));
    return !range.kvs().empty() && range.kvs(0).value() == text ? OkStatus() : flushed;
  }

 private:
  Status CheckPresent(const ClusterRecords& present) const {
    if (!present.cluster) return OkStatus();
    const std::string& id = present.cluster->record.cluster_id();
    if (id != header_.cluster_id()) {
      return FailedPrecondition("etcd at ", client_.endpoints(), " has another cluster named ",
                                header_.cluster_name(), " (", id, "), and the backup is of ",
                                header_.cluster_id(), ": correct --etcd, or delete its keys under ",
                                ClusterPrefix(header_.cluster_name()), " with etcdctl");
    }
    if (present.live.empty()) return OkStatus();
    return FailedPrecondition("node ", present.live.begin()->first, " is up",
                              present.live.size() > 1 ? ", with others" : "",
                              ": stop all nodes of the cluster before its records are replaced");
  }

  /// Revisions count from above `known`. No etcd makes a million of them a second.
  void NoteBase(uint64_t known) { base_ = std::max(base_, known + 1); }

  Status Clear(int64_t cluster_revision) {
    pb::TxnRequest txn;
    RequireRevision(txn, cluster_key_, cluster_revision);
    for (const std::string& prefix : PrefixesOf(header_.cluster_name())) {
      AddDeletePrefix(txn, prefix);
    }
    return Commit(txn);
  }

  Status Flush() {
    if (puts_.success().empty()) return OkStatus();
    // No node founds the cluster meanwhile.
    RequireRevision(puts_, cluster_key_, 0);
    QUIRE_RETURN_IF_ERROR(Commit(puts_));
    if (progress_) progress_(static_cast<uint64_t>(puts_.success_size()));
    puts_.Clear();
    bytes_ = 0;
    return OkStatus();
  }

  Status Commit(const pb::TxnRequest& txn) {
    QUIRE_ASSIGN_OR_RETURN(const auto answer, client_.Commit(txn));
    if (answer.succeeded()) return OkStatus();
    return Aborted("another program wrote the record of cluster " + header_.cluster_name() +
                   " meanwhile: stop its nodes, and restore again with --replace");
  }

  EtcdClient& client_;
  const v1::RegistryBackupHeader header_;
  v1::ClusterRecord cluster_;
  const std::string cluster_key_;
  const BackupProgress& progress_;
  uint64_t base_ = static_cast<uint64_t>(SystemClock().UnixMicros());
  pb::TxnRequest puts_;
  size_t bytes_ = 0;
};

}  // namespace

StatusOr<uint64_t> CountRegistry(EtcdClient* client, const std::string& cluster_name) {
  uint64_t count = 0;
  for (const std::string& prefix : PrefixesOf(cluster_name)) {
    pb::RangeRequest request;
    request.set_key(prefix);
    request.set_range_end(PrefixEnd(prefix));
    request.set_count_only(true);
    QUIRE_ASSIGN_OR_RETURN(const auto range, client->Read(request));
    count += static_cast<uint64_t>(range.count());
  }
  return count;
}

StatusOr<BackupResult> BackUpRegistry(EtcdClient* client, const std::string& cluster_name,
                                      const std::string& path, const BackupProgress& progress) {
  QUIRE_ASSIGN_OR_RETURN(BackupFile file, BackupFile::Create(path));
  return BackupWriter(client, cluster_name, std::move(file), progress).Write();
}

StatusOr<BackupResult> CheckBackup(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(auto checked, ReadChecked(path));
  return std::move(checked.first);
}

StatusOr<BackupResult> RestoreRegistry(EtcdClient* client, const std::string& path,
                                       const RestoreOptions& options,
                                       const BackupProgress& progress) {
  QUIRE_ASSIGN_OR_RETURN(auto checked, ReadChecked(path));
  const v1::RegistryBackupHeader& header = checked.first.header;
  if (!options.cluster_name.empty() && options.cluster_name != header.cluster_name()) {
    return InvalidArgument(path, " is a backup of cluster ", header.cluster_name(), ", not of ",
                           options.cluster_name, ": leave --cluster away, or name that backup");
  }
  Restorer restorer(client, header, std::move(checked.second), progress);
  QUIRE_RETURN_IF_ERROR(restorer.MakeRoom(options.replace));
  QUIRE_ASSIGN_OR_RETURN(
      BackupResult result,
      ForEachRecord(path, [&](const v1::RegistryBackupHeader&, BackupRecord record) {
        return restorer.Add(std::move(record));
      }));
  QUIRE_RETURN_IF_ERROR(restorer.Finish());
  return result;
}

}  // namespace quire::cluster
