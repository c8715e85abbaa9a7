// SPDX-License-Identifier: Apache-2.0
//
// Commands `quire cluster backup` and `quire cluster restore`: the registry of a cluster in a file,
// and back.
#ifndef QUIRE_APPS_QUIRE_CMD_CLUSTER_BACKUP_H_
#define QUIRE_APPS_QUIRE_CMD_CLUSTER_BACKUP_H_

#include <string>

#include "apps/kit/command.h"
#include "cluster/etcd/etcd_client.h"
#include "quire/status.h"

namespace quire::cli {

struct BackupArgs {
  std::string file;
  bool replace = false;
};

/// Writes a backup of `cluster`, and says on stderr how far it is.
Status BackUpCluster(const BackupArgs& args, cluster::EtcdClient* etcd, const std::string& cluster,
                     const CommandContext& context);
/// Restores a backup; `cluster` is empty for the backup's own.
Status RestoreCluster(const BackupArgs& args, cluster::EtcdClient* etcd, const std::string& cluster,
                      const CommandContext& context);

}  // namespace quire::cli

#endif  // QUIRE_APPS_QUIRE_CMD_CLUSTER_BACKUP_H_
