// SPDX-License-Identifier: Apache-2.0
#include "apps/quire/cmd_cluster_backup.h"

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "cluster/backup/registry_backup.h"

namespace quire::cli {
namespace {

void PrintResult(const std::string& verb, const BackupArgs& args,
                 const cluster::BackupResult& result, const CommandContext& context) {
  const v1::RegistryBackupHeader& header = result.header;
  if (context.options.json) {
    PrintJsonLine(context.out, {{"file", args.file},
                                {"cluster", header.cluster_name()},
                                {"cluster_id", header.cluster_id()},
                                {"revision", header.revision()},
                                {"created_unix_micros", header.created_unix_micros()},
                                {"records", result.records}});
    return;
  }
  context.out << verb << " " << FormatCount(result.records) << " records of cluster "
              << header.cluster_name() << ", at revision " << header.revision() << "\n";
}

}  // namespace

Status BackUpCluster(const BackupArgs& args, cluster::EtcdClient* etcd, const std::string& cluster,
                     const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t count, cluster::CountRegistry(etcd, cluster));
  ProgressBar progress("backing up", count);
  QUIRE_ASSIGN_OR_RETURN(const auto result,
                         cluster::BackUpRegistry(etcd, cluster, args.file, [&](uint64_t records) {
                           progress.Advance(records);
                         }));
  progress.Finish();
  PrintResult("backed up", args, result, context);
  return OkStatus();
}

Status RestoreCluster(const BackupArgs& args, cluster::EtcdClient* etcd, const std::string& cluster,
                      const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const auto checked, cluster::CheckBackup(args.file));
  ProgressBar progress("restoring", checked.records);
  QUIRE_ASSIGN_OR_RETURN(
      const auto result,
      cluster::RestoreRegistry(etcd, args.file, {.cluster_name = cluster, .replace = args.replace},
                               [&](uint64_t records) { progress.Advance(records); }));
  progress.Finish();
  PrintResult("restored", args, result, context);
  return OkStatus();
}

}  // namespace quire::cli
