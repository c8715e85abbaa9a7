// SPDX-License-Identifier: Apache-2.0
//
// RegistryBackup: what etcd knows of a cluster, in a file and back: names, versions, settings of
// collections, salts of tenants, nodes and settings of the cluster. A backup shows one revision,
// although it is read in pages. It does not say which nodes are up.
//
// A restore begins an era (cluster_era.h). The cluster's record is written last, so nodes take
// nothing from an etcd that is half restored.
//
// Thread-safety: the functions may be called concurrently, on different files. Errors besides those
// of EtcdClient, BackupFile and BackupReader are named below.
#ifndef QUIRE_CLUSTER_BACKUP_REGISTRY_BACKUP_H_
#define QUIRE_CLUSTER_BACKUP_REGISTRY_BACKUP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "cluster/etcd/etcd_client.h"
#include "quire/status.h"
#include "quire/v1/cluster.pb.h"

namespace quire::cluster {

/// Hears how many more records are done.
using BackupProgress = std::function<void(uint64_t records)>;

struct BackupResult {
  v1::RegistryBackupHeader header;
  uint64_t records = 0;
};

/// Number of records that a backup would have now, about.
StatusOr<uint64_t> CountRegistry(EtcdClient* client, const std::string& cluster_name);

/// Writes the backup to `path`, or nothing. Replaces a former file. NOT_FOUND for a cluster that
/// etcd does not know. ABORTED when etcd compacted the revision meanwhile: try again.
StatusOr<BackupResult> BackUpRegistry(EtcdClient* client, const std::string& cluster_name,
                                      const std::string& path, const BackupProgress& progress);

/// Reads all of a backup and checks it, without etcd. NOT_FOUND for a file that cannot be opened.
StatusOr<BackupResult> CheckBackup(const std::string& path);

struct RestoreOptions {
  std::string cluster_name;  ///< Empty: the backup's.
  bool replace = false;      ///< Throw away what etcd has of the cluster.
};

/// Puts the backup into etcd, after all of it was checked. Nothing is changed on these errors:
/// - INVALID_ARGUMENT: the backup is of a cluster of another name.
/// - ALREADY_EXISTS: etcd has records of the cluster, and `replace` is not set.
/// - FAILED_PRECONDITION: etcd has another cluster of this name, or nodes of the cluster are up.
/// ABORTED when others wrote the cluster's record meanwhile. After it, and after others in the
/// middle, the restore can be made again with `replace`.
StatusOr<BackupResult> RestoreRegistry(EtcdClient* client, const std::string& path,
                                       const RestoreOptions& options,
                                       const BackupProgress& progress);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_BACKUP_REGISTRY_BACKUP_H_
