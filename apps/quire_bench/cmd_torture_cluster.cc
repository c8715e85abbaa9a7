// SPDX-License-Identifier: Apache-2.0
//
// quire torture cluster: servers of a cluster are killed, stopped and cut off while clients write
// and read (bench/torture/cluster).
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/program_beside.h"
#include "apps/quire_bench/commands.h"
#include "bench/torture/cluster/cluster_run.h"

namespace quire::cli {
namespace {

struct ClusterArgs {
  torture::ClusterRunOptions run;
  std::string data_dir;
};

Json ClusterJson(const torture::ClusterRunReport& report,
                 const torture::ClusterRunOptions& options) {
  return {{"acknowledged", report.totals.acknowledged},
          {"lost", report.look.lost},
          {"wrong", report.wrong()},
          {"resurrected", report.look.resurrected},
          {"denied", report.totals.denied},
          {"copies_missing", report.look.copies_missing},
          {"unavailable_s_max", report.totals.unavailable_s},
          {"faults", report.faults},
          {"kept", report.look.kept},
          {"deleted", report.totals.deleted},
          {"reads", report.totals.reads},
          {"calls_failed", report.totals.failures},
          {"seconds", report.seconds},
          {"seconds_until_whole", report.seconds_until_whole},
          {"nodes", options.nodes},
          {"replicas", options.replicas},
          {"writers", options.writers},
          {"network", "loopback"},
          {"disk_lost", options.lose_disk},
          {"seed", options.seed}};
}

void PrintTable(const Json& json, const CommandContext& context) {
  Table table({{"WHAT"}, {"VALUE", Table::kRight}});
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) table.AddRow({name, value.dump()});
  }
  for (const auto& [fault, operations] : json["unavailable_s_max"].items()) {
    for (const auto& [operation, waited] : operations.items()) {
      table.AddRow({"longest s until a " + operation + ", " + fault, waited.dump()});
    }
  }
  table.Print(context.out);
}

Status RunCluster(ClusterArgs args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> data_dir, DataDir::Make(args.data_dir));
  args.run.directory = data_dir->path();
  QUIRE_ASSIGN_OR_RETURN(args.run.server, ProgramBeside("quired"));
  if (args.run.replicas > args.run.nodes) {
    return InvalidArgument("--replicas is ", args.run.replicas, ", with ", args.run.nodes,
                           " nodes: a node has a document once");
  }
  context.err << "seed " << args.run.seed << "\n";
  ProgressBar bar("cluster, seconds", args.run.seconds);
  QUIRE_ASSIGN_OR_RETURN(const torture::ClusterRunReport report,
                         torture::RunClusterFaults(
                             args.run, [&bar](const std::string& note) { bar.Advance(1, note); }));
  bar.Finish();
  const Json json = ClusterJson(report, args.run);
  if (context.options.json) {
    PrintJsonLine(context.out, json);
  } else {
    PrintTable(json, context);
  }
  if (report.sound()) return OkStatus();
  for (const std::string& trouble : {report.totals.first_trouble, report.look.first_trouble}) {
    if (!trouble.empty()) context.err << trouble << "\n";
  }
  return Reported(DataLoss("the cluster broke a promise; repeat with --seed ", args.run.seed));
}

}  // namespace

void AddTortureCluster(Commands& commands, CLI::App& parent) {
  const auto args = std::make_shared<ClusterArgs>();
  CLI::App& command = commands.Add(
      {.name = "cluster",
       .summary = "Kill, stop and cut off servers of a cluster under load, and look for losses",
       .examples = "  quire torture cluster\n"
                   "  quire torture cluster --seconds 600 --json\n"
                   "  quire torture cluster --seconds 60 --seed 4711   the same faults again\n"
                   "  quire torture cluster --seconds 10 --replicas 1 --lose-disk   must fail\n"
                   "It starts etcd (/usr/bin/etcd) and servers on loopback, with proxies between\n"
                   "that delay, hold, limit and cut connections. Every acknowledged document must\n"
                   "be there in the end with its bytes, and no deleted one.\n"
                   "The exit code is 1 when something was lost, wrong, denied or came back."},
      args, &RunCluster, &parent);
  const auto add = [&](const char* name, uint32_t* value, uint32_t most, const char* what) {
    command.add_option(name, *value, what)
        ->check(CLI::Range(uint32_t{1}, most))
        ->capture_default_str();
  };
  add("--seconds", &args->run.seconds, 30 * 24 * 3600, "How long there are faults");
  add("--nodes", &args->run.nodes, 16, "Servers");
  add("--replicas", &args->run.replicas, 8, "Servers that have each document");
  add("--writers", &args->run.writers, 64, "Clients that put, read and delete");
  command.add_flag(
      "--lose-disk", args->run.lose_disk,
      "Remove one server's disk after the faults: with one replica, documents are lost");
  command.add_option("--seed", args->run.seed, "Of everything that is random")
      ->capture_default_str();
  AddDataDirOption(command, &args->data_dir);
}

}  // namespace quire::cli
