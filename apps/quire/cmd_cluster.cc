// SPDX-License-Identifier: Apache-2.0
//
// quire cluster: the members of a cluster, as etcd has them, and what an operator changes.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"
#include "apps/quire/cluster_pass.h"
#include "apps/quire/cmd_cluster_backup.h"
#include "apps/quire/commands.h"
#include "cluster/membership/cluster_admin.h"
#include "cluster/placement/placement.h"

namespace quire::cli {
namespace {

using cluster::ClusterAdmin;
using cluster::ClusterView;
using cluster::Member;
using cluster::MemberState;

struct ClusterArgs {
  std::vector<std::string> etcd = {"127.0.0.1:2379"};
  std::string cluster;
  std::string node;
  std::string target;
  bool wait = false;
  uint32_t stall_seconds = 60;
  cluster::SettingsChange change;
  BackupArgs backup;
};

/// An operator's connection to a cluster's records.
struct AdminConnection {
  std::unique_ptr<cluster::EtcdClient> etcd;
  std::unique_ptr<ClusterAdmin> admin;
};

StatusOr<std::string> OnlyCluster(cluster::EtcdClient* etcd) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ClusterAdmin::ListClusters(etcd));
  if (names.size() == 1) return names[0];
  if (names.empty()) {
    return NotFound("etcd at ", etcd->endpoints(), " knows no cluster: one begins when its first ",
                    "node joins (quired --cluster NAME --etcd ...)");
  }
  std::string list;
  for (const std::string& name : names) list.append(list.empty() ? "" : ", ").append(name);
  return InvalidArgument("etcd knows several clusters (", list, "): name one with --cluster");
}

StatusOr<std::unique_ptr<cluster::EtcdClient>> ConnectEtcd(const ClusterArgs& args,
                                                           const CommandContext& context) {
  cluster::EtcdOptions options{.endpoints = args.etcd};
  if (context.options.timeout_seconds) options.call_timeout = context.options.call_timeout();
  auto etcd = cluster::EtcdClient::Create(options);
  if (!etcd.ok()) return Annotate(etcd.status(), "--etcd");
  return etcd;
}

/// The named cluster, or the only one.
StatusOr<std::string> ClusterOf(const ClusterArgs& args, cluster::EtcdClient* etcd) {
  if (!args.cluster.empty()) return args.cluster;
  return OnlyCluster(etcd);
}

StatusOr<AdminConnection> ConnectAdmin(const ClusterArgs& args, const CommandContext& context) {
  AdminConnection connection;
  QUIRE_ASSIGN_OR_RETURN(connection.etcd, ConnectEtcd(args, context));
  QUIRE_ASSIGN_OR_RETURN(const std::string name, ClusterOf(args, connection.etcd.get()));
  connection.admin = std::make_unique<ClusterAdmin>(connection.etcd.get(), name);
  return connection;
}

Json NodeJson(const Member& member) {
  return {{"name", member.name},
          {"state", std::string(Name(member.state))},
          {"zone", member.zone},
          {"weight", member.weight},
          {"address", member.address},
          {"version", member.version},
          {"protocol", member.protocol},
          {"node_id", member.node_id},
          {"dram_bytes", member.dram_bytes},
          {"ssd_bytes", member.ssd_bytes}};
}

Json SettingsJson(const cluster::ClusterSettings& settings) {
  return {{"replicas", settings.replicas},
          {"min_replicas", settings.min_replicas},
          {"copy_bytes_per_second", settings.copy_bytes_per_second},
          {"hot_reads_per_second", settings.hot_reads_per_second},
          {"hot_replicas", settings.hot_replicas},
          {"hot_keep_seconds", settings.hot_keep_seconds},
          {"max_clock_skew_millis", settings.max_clock_skew_millis}};
}

/// Documents with extra copies, and the nodes that own them.
Json HotJson(const ClusterView& view) {
  const cluster::Placement placement(std::make_shared<const ClusterView>(view));
  Json documents = Json::array();
  for (const cluster::HotDocument& hot : view.hot_documents) {
    const cluster::PlacementKey key = {hot.placement_hash};
    Json owners = Json::array();
    for (const uint32_t member : placement.OwnersOf(key, placement.CopiesOf(key)).members) {
      owners.push_back(view.members[member].name);
    }
    documents.push_back({{"tenant", hot.tenant},
                         {"document", hot.collection + "/" + hot.document},
                         {"extra_replicas", placement.CopiesOf(key) - view.settings.replicas},
                         {"owners", std::move(owners)}});
  }
  return documents;
}

/// "on node-1, node-2", of HotJson's owners.
std::string OwnersText(const Json& owners) {
  std::string text;
  for (const Json& owner : owners) {
    text.append(text.empty() ? "on " : ", ").append(owner.get<std::string>());
  }
  return text;
}

/// Troubles that an operator should know, in words.
std::vector<std::string> ProblemsOf(const ClusterView& view) {
  std::vector<std::string> problems;
  for (const Member& member : view.members) {
    if (member.state == MemberState::kLost) {
      problems.push_back("node " + member.name + " is lost, last at " + member.address +
                         ": start it again, or remove it");
    }
  }
  const cluster::Placement placement(std::make_shared<const ClusterView>(view));
  const uint32_t replicas = view.settings.replicas;
  const std::string shortfall = Shortfall(placement.OwnersOf({}, replicas), replicas);
  if (!shortfall.empty()) problems.push_back(shortfall);
  return problems;
}

Status PrintStatus(const ClusterView& view, const std::vector<std::string>& problems,
                   const CommandContext& context) {
  std::map<std::string, uint64_t> counts;
  for (const Member& member : view.members) ++counts[std::string(Name(member.state))];
  if (context.options.json) {
    PrintJsonLine(context.out, {{"cluster", view.name},
                                {"cluster_id", view.id},
                                {"epoch", view.epoch},
                                {"nodes", view.members.size()},
                                {"nodes_by_state", counts},
                                {"settings", SettingsJson(view.settings)},
                                {"hot_documents", HotJson(view)},
                                {"problems", problems}});
    return OkStatus();
  }
  Table table({{"FIELD"}, {"VALUE"}});
  table.AddRow({"cluster", view.name});
  table.AddRow({"cluster id", view.id});
  table.AddRow({"epoch", FormatCount(view.epoch)});
  for (const auto& [state, count] : counts) table.AddRow({"nodes " + state, FormatCount(count)});
  table.AddRow({"replicas", FormatCount(view.settings.replicas)});
  for (const Json& hot : HotJson(view)) {
    table.AddRow({"hot", hot["document"].get<std::string>() + " of tenant " +
                             hot["tenant"].get<std::string>() + " " + OwnersText(hot["owners"])});
  }
  for (const std::string& problem : problems) table.AddRow({"problem", problem});
  table.Print(context.out);
  return OkStatus();
}

/// Documents that draining nodes still have, in words. Nodes that do not answer are left out.
std::vector<std::string> LeftOnDrainingNodes(const ClusterView& view,
                                             const CommandContext& context) {
  std::vector<std::string> left;
  for (const Member& member : view.members) {
    if (member.state != MemberState::kDraining) continue;
    const auto progress = ClusterPass(&context).Ask(member);
    if (!progress.ok() || (progress->releases_pending() == 0 && !progress->pass_runs())) continue;
    left.push_back("node " + member.name + " has " + FormatCount(progress->releases_pending()) +
                   " versions to hand over: wait before you stop it");
  }
  return left;
}

Status RunStatus(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const AdminConnection connection, ConnectAdmin(args, context));
  QUIRE_ASSIGN_OR_RETURN(const ClusterView view, connection.admin->Read());
  std::vector<std::string> problems = ProblemsOf(view);
  for (std::string& left : LeftOnDrainingNodes(view, context)) problems.push_back(std::move(left));
  return PrintStatus(view, problems, context);
}

Status RunNodes(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const AdminConnection connection, ConnectAdmin(args, context));
  QUIRE_ASSIGN_OR_RETURN(const ClusterView view, connection.admin->Read());
  if (context.options.json) {
    Json json = {{"nodes", Json::array()}};
    for (const Member& member : view.members) json["nodes"].push_back(NodeJson(member));
    PrintJsonLine(context.out, json);
    return OkStatus();
  }
  Table table({{"NODE"}, {"STATE"}, {"ZONE"}, {"WEIGHT", Table::kRight}, {"ADDRESS"}, {"VERSION"}});
  for (const Member& member : view.members) {
    table.AddRow({member.name, std::string(Name(member.state)), member.zone,
                  FormatCount(member.weight), member.address, member.version});
  }
  table.Print(context.out);
  return OkStatus();
}

/// Prints one node after a change.
Status PrintNode(ClusterAdmin& admin, const std::string& node, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const ClusterView view, admin.Read());
  const Member* const member = view.Find(node);
  if (context.options.json) {
    PrintJsonLine(context.out, member != nullptr ? NodeJson(*member)
                                                 : Json{{"name", node}, {"state", "removed"}});
  } else {
    context.out << node << " " << (member != nullptr ? Name(member->state) : "removed") << "\n";
  }
  return OkStatus();
}

/// Has every node compare all names with what it has, and waits until nothing is left to do.
Status MoveDocuments(const ClusterArgs& args, ClusterAdmin& admin, ClusterPass* pass) {
  QUIRE_ASSIGN_OR_RETURN(const ClusterView view, admin.Read());
  QUIRE_RETURN_IF_ERROR(pass->AwaitView(view));
  QUIRE_RETURN_IF_ERROR(pass->Start(view));
  return pass->Wait(std::chrono::seconds(args.stall_seconds));
}

Status RunPass(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const AdminConnection connection, ConnectAdmin(args, context));
  ClusterPass pass(&context);
  QUIRE_RETURN_IF_ERROR(MoveDocuments(args, *connection.admin, &pass));
  pass.Print();
  return OkStatus();
}

Status RunDrain(const ClusterArgs& args, const CommandContext& context, bool draining) {
  QUIRE_ASSIGN_OR_RETURN(const AdminConnection connection, ConnectAdmin(args, context));
  QUIRE_RETURN_IF_ERROR(connection.admin->SetDraining(args.node, draining));
  if (args.wait) {
    ClusterPass pass(&context);
    QUIRE_RETURN_IF_ERROR(MoveDocuments(args, *connection.admin, &pass));
  }
  return PrintNode(*connection.admin, args.node, context);
}

Status RunRemove(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const AdminConnection connection, ConnectAdmin(args, context));
  QUIRE_RETURN_IF_ERROR(connection.admin->Remove(args.node));
  return PrintNode(*connection.admin, args.node, context);
}

Status RunSettings(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const AdminConnection connection, ConnectAdmin(args, context));
  cluster::ClusterSettings settings;
  if (!args.change.is_empty()) {
    QUIRE_ASSIGN_OR_RETURN(settings, connection.admin->Change(args.change));
  } else {
    QUIRE_ASSIGN_OR_RETURN(const ClusterView view, connection.admin->Read());
    settings = view.settings;
  }
  if (context.options.json) {
    PrintJsonLine(context.out, SettingsJson(settings));
    return OkStatus();
  }
  Table table({{"SETTING"}, {"VALUE", Table::kRight}});
  table.AddRow({"replicas", FormatCount(settings.replicas)});
  table.AddRow({"min replicas", FormatCount(settings.min_replicas)});
  table.AddRow({"copies", settings.copy_bytes_per_second == 0
                              ? "no limit"
                              : FormatBytes(settings.copy_bytes_per_second) + "/s"});
  table.AddRow({"hot above", settings.hot_reads_per_second == 0
                                 ? "never"
                                 : FormatCount(settings.hot_reads_per_second) + " reads/s"});
  table.AddRow({"hot replicas", FormatCount(settings.hot_replicas)});
  table.AddRow({"hot keep", FormatCount(settings.hot_keep_seconds) + " s"});
  table.AddRow({"max clock skew", FormatCount(settings.max_clock_skew_millis) + " ms"});
  table.Print(context.out);
  return OkStatus();
}

Status RunBackup(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const auto etcd, ConnectEtcd(args, context));
  QUIRE_ASSIGN_OR_RETURN(const std::string name, ClusterOf(args, etcd.get()));
  return BackUpCluster(args.backup, etcd.get(), name, context);
}

Status RunRestore(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const auto etcd, ConnectEtcd(args, context));
  return RestoreCluster(args.backup, etcd.get(), args.cluster, context);
}

/// Key of a document's or chain's runs.
StatusOr<cluster::PlacementKey> KeyOfTarget(const std::string& target, const std::string& tenant) {
  if (const auto segment = SegmentKey::FromHex(target)) return cluster::KeyOfChain(*segment);
  QUIRE_ASSIGN_OR_RETURN(const auto readings, ParseDocumentName(target, "default"));
  return cluster::KeyOfDocument(tenant, readings.first.collection, readings.first.name);
}

Status RunWhere(const ClusterArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const cluster::PlacementKey key,
                         KeyOfTarget(args.target, context.options.tenant_name()));
  QUIRE_ASSIGN_OR_RETURN(const AdminConnection connection, ConnectAdmin(args, context));
  QUIRE_ASSIGN_OR_RETURN(ClusterView read, connection.admin->Read());
  const cluster::Placement placement(std::make_shared<const ClusterView>(std::move(read)));
  const ClusterView& view = placement.view();
  const cluster::Owners owners = placement.OwnersOf(key, placement.CopiesOf(key));
  const std::string shortfall =
      Shortfall(placement.OwnersOf(key, view.settings.replicas), view.settings.replicas);
  const auto is_owner = [&](uint32_t member) {
    return std::ranges::find(owners.members, member) != owners.members.end();
  };
  if (context.options.json) {
    Json json = {{"epoch", view.epoch}, {"owners", Json::array()}, {"read_order", Json::array()}};
    for (const uint32_t member : owners.members)
      json["owners"].push_back(view.members[member].name);
    for (const uint32_t member : placement.ReadOrder(key)) {
      json["read_order"].push_back(view.members[member].name);
    }
    json["problem"] = shortfall;
    PrintJsonLine(context.out, json);
    return OkStatus();
  }
  Table table({{"NODE"}, {"OWNS IT"}, {"ZONE"}, {"ADDRESS"}});
  for (const uint32_t member : placement.ReadOrder(key)) {
    const Member& node = view.members[member];
    table.AddRow({node.name, is_owner(member) ? "yes" : "", node.zone, node.address});
  }
  table.Print(context.out);
  if (!shortfall.empty()) context.err << shortfall << "\n";
  return OkStatus();
}

/// Adds a command of the group, with the options that find the cluster.
template <typename Run>
CLI::App& AddOne(Commands& commands, CLI::App& group, const Commands::Spec& spec,
                 const std::shared_ptr<ClusterArgs>& args, const Run& run) {
  CLI::App& command = commands.Add(spec, args, run, &group);
  command.add_option("--etcd", args->etcd, "host:port of each etcd server")
      ->delimiter(',')
      ->type_name("ADDRESSES")
      ->capture_default_str();
  command.add_option("--cluster", args->cluster, "The cluster; needed when etcd knows several")
      ->type_name("NAME");
  return command;
}

/// Adds what says how long a command waits for documents.
void AddStall(CLI::App& command, const std::shared_ptr<ClusterArgs>& args) {
  command
      .add_option("--stall-seconds", args->stall_seconds,
                  "Give up, and say what is missing, when nothing has moved for so long")
      ->check(CLI::Range(1u, 86400u))
      ->capture_default_str();
}

void AddNodeCommands(Commands& commands, CLI::App& group,
                     const std::shared_ptr<ClusterArgs>& args) {
  const auto add = [&](const std::string& name, const std::string& summary, auto run) -> CLI::App& {
    CLI::App& command =
        AddOne(commands, group,
               {.name = name,
                .summary = summary,
                .examples = "  quire cluster " + name + " node-3 --etcd 10.0.0.1:2379"},
               args, run);
    command.add_option("NODE", args->node, "Name of the node")->required();
    return command;
  };
  CLI::App& drain =
      add("drain", "Give a node no new data, and move what it has to other nodes",
          [](const ClusterArgs& a, const CommandContext& c) { return RunDrain(a, c, true); });
  drain.add_flag("--wait", args->wait, "Return when other nodes have all that it had");
  AddStall(drain, args);
  add("undrain", "Give a node new data again",
      [](const ClusterArgs& a, const CommandContext& c) { return RunDrain(a, c, false); });
  add("remove", "Forget a node that is stopped, and give up what only it has", &RunRemove);
}

void AddPasses(Commands& commands, CLI::App& group, const std::shared_ptr<ClusterArgs>& args) {
  CLI::App& rebalance = AddOne(
      commands, group,
      {.name = "rebalance",
       .summary = "Move documents to the nodes that own them now, and wait until all are there",
       .examples = "  quire cluster rebalance\n  quire cluster rebalance --stall-seconds 300"},
      args, &RunPass);
  AddStall(rebalance, args);
  CLI::App& repair = AddOne(
      commands, group,
      {.name = "repair",
       .summary = "Compare what every node has with what it should, and copy what is missing",
       .examples = "  quire cluster repair"},
      args, &RunPass);
  AddStall(repair, args);
}

void AddSettings(Commands& commands, CLI::App& group, const std::shared_ptr<ClusterArgs>& args) {
  CLI::App& settings = AddOne(
      commands, group,
      {.name = "settings",
       .summary = "Show the settings of the cluster, or change those that are named",
       .examples =
           "  quire cluster settings\n  quire cluster settings --max-clock-skew-millis 2000\n"
           "  quire cluster settings --hot-reads-per-second 500 --hot-replicas 3"},
      args, &RunSettings);
  settings.add_option("--replicas", args->change.replicas,
                      "Nodes that keep each document, in different zones where there are enough");
  settings.add_option("--min-replicas", args->change.min_replicas,
                      "Nodes that must have a document before its put is acknowledged");
  settings
      .add_option("--copy-bytes-per-second", args->change.copy_bytes_per_second,
                  "Limit of each node's copies from others, besides those of puts; 0 = none")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE");
  settings.add_option("--hot-reads-per-second", args->change.hot_reads_per_second,
                      "Reads of a document by one node in a second above which it gets copies on "
                      "more nodes; 0 = it never does");
  settings.add_option("--hot-replicas", args->change.hot_replicas,
                      "Most copies that such a document gets besides --replicas");
  settings.add_option("--hot-keep-seconds", args->change.hot_keep_seconds,
                      "Time for which it keeps these after it has cooled");
  settings.add_option("--max-clock-skew-millis", args->change.max_clock_skew_millis,
                      "Largest difference to the other nodes' clocks with which a node may join");
}

void AddBackups(Commands& commands, CLI::App& group, const std::shared_ptr<ClusterArgs>& args) {
  AddOne(commands, group,
         {.name = "backup",
          .summary = "Write names, versions, salts and settings of the cluster to a file",
          .examples = "  quire cluster backup /backup/books.registry\n"
                      "  quire cluster backup books.registry --cluster books --json"},
         args, &RunBackup)
      .add_option("FILE", args->backup.file, "File to write; a former one is replaced")
      ->required();
  CLI::App& restore = AddOne(
      commands, group,
      {.name = "restore",
       .summary = "Put a backup into an etcd that lost its data; nodes come back by themselves",
       .examples = "  quire cluster restore /backup/books.registry --etcd 10.0.0.1:2379\n"
                   "  quire cluster restore books.registry --replace"},
      args, &RunRestore);
  restore.add_option("FILE", args->backup.file, "File of `quire cluster backup`")->required();
  restore.add_flag("--replace", args->backup.replace,
                   "Throw away what etcd has of the cluster, whose nodes are stopped");
}

}  // namespace

void AddClusterCommand(Commands& commands) {
  const auto args = std::make_shared<ClusterArgs>();
  CLI::App& group = commands.AddGroup(
      {.name = "cluster",
       .summary = "Nodes of a cluster: their state, where data belongs, draining and removing",
       .examples = "  quire cluster status --etcd 10.0.0.1:2379,10.0.0.2:2379\n"
                   "  quire cluster nodes --json\n"
                   "  quire cluster where books/handbook.md\n"
                   "  quire cluster drain node-3"});
  AddOne(commands, group,
         {.name = "status",
          .summary = "The cluster at a glance, and what is wrong with it",
          .examples = "  quire cluster status\n  quire cluster status --json"},
         args, &RunStatus);
  AddOne(commands, group,
         {.name = "nodes",
          .summary = "Every node with its state, zone, weight and address",
          .examples = "  quire cluster nodes\n  quire cluster nodes --json"},
         args, &RunNodes);
  AddOne(
      commands, group,
      {.name = "where",
       .summary = "The nodes that a document or a chain belongs to, nearest first",
       .examples = "  quire cluster where books/handbook.md\n"
                   "  quire cluster where 3fa9...c1     a chain, by the key of its first segment"},
      args, &RunWhere)
      .add_option("TARGET", args->target,
                  "[COLLECTION/]NAME, or the key of a chain's first segment (64 hex digits)")
      ->required();
  AddNodeCommands(commands, group, args);
  AddPasses(commands, group, args);
  AddBackups(commands, group, args);
  AddSettings(commands, group, args);
}

}  // namespace quire::cli
