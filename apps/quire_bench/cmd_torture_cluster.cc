// SPDX-License-Identifier: Apache-2.0
//
// quire torture cluster: servers of a cluster and etcd are killed, cut off and lose their disks
// while clients write and read (bench/torture/cluster).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/program_beside.h"
#include "apps/quire_bench/commands.h"
#include "bench/kit/report_views.h"
#include "bench/torture/cluster/cluster_fault.h"
#include "bench/torture/cluster/cluster_run.h"
#include "bench/torture/cluster/torture_cluster.h"
#include "bench/torture/network/private_system.h"

namespace quire::cli {
namespace {

constexpr const char* kAnyNetwork = "auto";
constexpr const char* kInsideFlag = "--inside";

struct ClusterArgs {
  torture::ClusterRunOptions run;
  std::string network = kAnyNetwork;
  bool inside = false;  ///< This process has namespaces of its own.
  std::vector<std::string> faults;
  std::string data_dir;
  bench::ViewOptions views;
};

/// How long clients waited, by what went wrong.
bench::Plotter ClusterPlotter() {
  return bench::PlotterOf(
      {{.title = "Longest time without a read or a put, by fault",
        .value_title = "seconds",
        .bars = {
            {.figures = "/unavailable_s_max/([^/]+)/(read|put)", .name = "$2", .place = "$1"}}}});
}

Json ClusterJson(const torture::ClusterRunReport& report,
                 const torture::ClusterRunOptions& options) {
  return {{"acknowledged", report.totals.acknowledged},
          {"lost", report.look.lost},
          {"wrong", report.wrong()},
          {"resurrected", report.look.resurrected},
          {"denied", report.totals.denied},
          {"copies_missing", report.look.copies_missing},
          {"read_unavailable_s_max", report.longest_wait("read")},
          {"put_unavailable_s_max", report.longest_wait("put")},
          {"unavailable_s_max", report.totals.unavailable_s},
          {"bounds",
           {{"lost", 0},
            {"wrong", 0},
            {"resurrected", 0},
            {"denied", 0},
            {"copies_missing", 0},
            {"read_unavailable_s_max", torture::ClusterRunReport::kMostReadWait},
            {"put_unavailable_s_max", torture::ClusterRunReport::kMostPutWait}}},
          {"faults", report.faults},
          {"bits_flipped", report.flipped_bits},
          {"kept", report.look.kept},
          {"deleted", report.totals.deleted},
          {"reads", report.totals.reads},
          {"calls_failed", report.totals.failures},
          {"seconds", report.seconds},
          {"seconds_until_whole", report.seconds_until_whole},
          {"nodes", options.nodes},
          {"etcd_members", torture::kEtcdMembers},
          {"replicas", options.replicas},
          {"writers", options.writers},
          {"network", Name(options.network)},
          {"disk_lost", options.lose_disk},
          {"seed", options.seed}};
}

std::string NamesOf(const std::vector<torture::ClusterFault>& faults) {
  std::string names;
  for (const torture::ClusterFault fault : faults) {
    names.append(names.empty() ? "" : ",").append(Name(fault));
  }
  return names;
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

/// Takes in where the cluster runs. Runs this program again in namespaces when it shall be there.
Status EnterNetwork(const ClusterArgs& args, const CommandContext& context,
                    torture::ClusterNetwork* network) {
  *network = torture::ClusterNetwork::kNamespaces;
  if (args.inside) return OkStatus();
  if (args.network != Name(torture::ClusterNetwork::kLoopback)) {
    const Status may = torture::MayEnterPrivateSystem();
    if (may.ok()) return torture::EnterPrivateSystem(kInsideFlag);
    if (args.network != kAnyNetwork) return Annotate(may, "take --network loopback");
    context.err << "on loopback, where no disk fails and the kernel loses nothing: " << Message(may)
                << "\n";
  }
  *network = torture::ClusterNetwork::kLoopback;
  return OkStatus();
}

Status ReadFaults(const std::vector<std::string>& names, torture::ClusterRunOptions* run) {
  const auto there = torture::FaultsOn(run->network);
  for (const std::string& name : names) {
    const auto fault = torture::FaultNamed(name);
    if (!fault || std::ranges::find(there, *fault) == there.end()) {
      return InvalidArgument("--faults: there is no '", name, "' on ", Name(run->network),
                             "; take some of ", NamesOf(there));
    }
    if (std::ranges::find(run->faults, *fault) == run->faults.end()) run->faults.push_back(*fault);
  }
  return OkStatus();
}

/// Says what is not as it should be. Returns the failure, or OK.
Status Judge(const torture::ClusterRunReport& report, const torture::ClusterRunOptions& options,
             const CommandContext& context) {
  if (report.sound()) return OkStatus();
  for (const std::string& trouble : {report.totals.first_trouble, report.look.first_trouble}) {
    if (!trouble.empty()) context.err << trouble << "\n";
  }
  if (report.kept_promises()) {
    return Reported(DataLoss("the cluster did not keep to the report's bounds; repeat with --seed ",
                             options.seed));
  }
  return Reported(DataLoss("the cluster broke a promise; repeat with --seed ", options.seed));
}

/// Draws an earlier report.
Status ShowCluster(const bench::ViewOptions& views, const CommandContext& context) {
  QUIRE_RETURN_IF_ERROR(bench::CheckDraws(views));
  QUIRE_ASSIGN_OR_RETURN(const Json json, bench::ReadReport(views.from));
  QUIRE_RETURN_IF_ERROR(bench::WritePlot(views, ClusterPlotter(), json));
  if (context.options.json) {
    PrintJsonLine(context.out, json);
  } else {
    PrintTable(json, context);
  }
  return OkStatus();
}

Status RunCluster(ClusterArgs args, const CommandContext& context) {
  if (!args.views.from.empty()) return ShowCluster(args.views, context);
  QUIRE_RETURN_IF_ERROR(bench::CheckViews(args.views));
  if (args.run.replicas > args.run.nodes) {
    return InvalidArgument("--replicas is ", args.run.replicas, ", with ", args.run.nodes,
                           " nodes: a node has a document once");
  }
  QUIRE_RETURN_IF_ERROR(EnterNetwork(args, context, &args.run.network));
  QUIRE_RETURN_IF_ERROR(ReadFaults(args.faults, &args.run));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> data_dir, DataDir::Make(args.data_dir));
  args.run.directory = data_dir->path();
  QUIRE_ASSIGN_OR_RETURN(args.run.server, ProgramBeside("quired"));
  context.err << "seed " << args.run.seed << "\n";
  ProgressBar bar("cluster, seconds", args.run.seconds);
  QUIRE_ASSIGN_OR_RETURN(const torture::ClusterRunReport report,
                         torture::RunClusterFaults(
                             args.run, [&bar](const std::string& note) { bar.Advance(1, note); }));
  bar.Finish();
  const Json json = ClusterJson(report, args.run);
  QUIRE_RETURN_IF_ERROR(bench::WritePlot(args.views, ClusterPlotter(), json));
  if (context.options.json) {
    PrintJsonLine(context.out, json);
  } else {
    PrintTable(json, context);
  }
  return Judge(report, args.run, context);
}

}  // namespace

void AddTortureCluster(Commands& commands, CLI::App& parent) {
  const auto args = std::make_shared<ClusterArgs>();
  CLI::App& command = commands.Add(
      {.name = "cluster",
       .summary = "Kill servers of a cluster, cut them off and harm disks under load, and look for "
                  "losses",
       .examples =
           "  quire torture cluster\n"
           "  quire torture cluster --seconds 600 --json --plot cluster.svg\n"
           "  quire torture cluster --from cluster.json --plot cluster.svg   of an earlier run\n"
           "  quire torture cluster --seconds 60 --seed 4711   the same faults again\n"
           "  quire torture cluster --faults disk_error,etcd_leader   only these\n"
           "  quire torture cluster --network loopback   without root\n"
           "  quire torture cluster --seconds 10 --replicas 1 --lose-disk   must fail\n"
           "It starts three etcds (/usr/bin/etcd) and servers. With the right to, each gets\n"
           "a network namespace and each server a disk of its own, which the kernel removes\n"
           "in the end. Faults: " +
           NamesOf(torture::FaultsOn(torture::ClusterNetwork::kNamespaces)) +
           ".\n"
           "On loopback proxies make the faults, and disks are neither full nor failing.\n"
           "Every acknowledged document must be there in the end with its bytes, on each of\n"
           "its nodes, and no deleted one. The exit code is 1 when something was lost,\n"
           "wrong, denied or came back, or when a bound of the report was passed."},
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
  command
      .add_option("--network", args->network,
                  "Where the processes run; auto: in namespaces where that is allowed")
      ->check(CLI::IsMember({kAnyNetwork, "namespaces", "loopback"}))
      ->capture_default_str();
  command.add_flag(kInsideFlag, args->inside)->group("");  // Not in the help.
  command.add_option("--faults", args->faults, "Kinds that come; all when not given")
      ->delimiter(',')
      ->type_name("NAMES");
  command.add_option("--seed", args->run.seed, "Of everything that is random")
      ->capture_default_str();
  AddDataDirOption(command, &args->data_dir);
  bench::AddViewOptions(command, &args->views);
}

}  // namespace quire::cli
