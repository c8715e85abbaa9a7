// SPDX-License-Identifier: Apache-2.0
//
// quire stat: what is stored behind a document or a chain, or what the server has counted.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/kit/document_route.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

struct StatArgs {
  std::string target;
  std::string collection = "default";
  bool counters = false;
};

Status StatContext(const StatArgs& args, Client& client, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const auto targets, ParseTarget(args.target, args.collection));
  QUIRE_ASSIGN_OR_RETURN(const ContextStat stat, FirstFound(targets, [&](const ContextRef& target) {
                           return client.Stat(target);
                         }));
  if (context.options.json) {
    PrintJsonLine(context.out, ToJson(stat));
    return OkStatus();
  }
  const ContextInfo& info = stat.context;
  const KvSpec& spec = info.spec;
  Table table({{"FIELD"}, {"VALUE"}});
  table.AddRow({"tokens", FormatCount(info.num_tokens)});
  table.AddRow({"pages", FormatCount(info.num_pages) + " of " + std::to_string(spec.page_tokens) +
                             " tokens"});
  table.AddRow({"segments", FormatCount(info.segment_keys.size()) + " of " +
                                std::to_string(spec.segment_pages) + " pages; " +
                                std::to_string(stat.segments_in_dram) + " in DRAM, " +
                                std::to_string(stat.segments_on_ssd) + " on SSD"});
  if (stat.segments_lost > 0) {
    table.AddRow({"lost", FormatCount(stat.segments_lost) + " segments; put the document again"});
  }
  table.AddRow({"size", FormatBytes(stat.bytes)});
  table.AddRow({"model", spec.model});
  table.AddRow({"KV", std::to_string(spec.num_layers) + " layers, " +
                          std::to_string(spec.num_kv_heads) + " KV heads of " +
                          std::to_string(spec.key_dim()) + ", " + Name(spec.dtype)});
  table.AddRow({"expires (UTC)", FormatTime(stat.expires_unix_micros)});
  table.AddRow({"chain tip", info.chain_tip.Hex()});
  table.Print(context.out);
  return OkStatus();
}

Status StatServer(Client& client, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const ServerStats stats, client.Stats());
  if (context.options.json) {
    PrintJsonLine(context.out, ToJson(stats));
    return OkStatus();
  }
  Table table({{"COUNTER"}, {"VALUE", Table::kRight}});
  table.AddRow({"version", stats.version});
  table.AddRow({"uptime", FormatDuration(std::chrono::seconds(stats.uptime_seconds))});
  for (const Degradation& degradation : stats.degradations) {
    table.AddRow({"degraded", degradation.reason + " since " +
                                  FormatTime(degradation.since_unix_micros) + ": " +
                                  degradation.detail});
  }
  for (const auto& [name, value] : stats.counters) table.AddRow({name, FormatCount(value)});
  table.Print(context.out);
  return OkStatus();
}

Status RunStat(const StatArgs& args, const CommandContext& context) {
  if (args.counters) {
    QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
    return StatServer(*client, context);
  }
  GlobalOptions node = context.options;
  if (!SegmentKey::FromHex(args.target)) {
    QUIRE_ASSIGN_OR_RETURN(const auto names, ParseDocumentName(args.target, args.collection));
    QUIRE_ASSIGN_OR_RETURN(node, RouteToHolder(context, names));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.With(node).Connect());
  return StatContext(args, *client, context);
}

}  // namespace

void AddStatCommand(Commands& commands) {
  const auto args = std::make_shared<StatArgs>();
  CLI::App& command = commands.Add(
      {.name = "stat",
       .summary = "Show what is stored behind a document, or the server's counters",
       .examples = "  quire stat report.txt              the latest version, collection `default`\n"
                   "  quire stat manuals/pump.txt@2      collection `manuals`, version 2\n"
                   "  quire stat 3fa9...c1 --json        a chain, by the key of its last segment\n"
                   "  quire stat --counters              what the server has counted"},
      args, &RunStat);
  CLI::Option* counters =
      command.add_flag("--counters", args->counters, "The server's version, uptime and counters");
  command
      .add_option("TARGET", args->target,
                  "[COLLECTION/]NAME[@VERSION], or a segment key (64 hex digits)")
      ->excludes(counters);
  command.add_option("--collection", args->collection, "Collection of a name without one")
      ->excludes(counters)
      ->capture_default_str();
  command.parse_complete_callback([args] {
    if (args->target.empty() && !args->counters) throw CLI::RequiredError("TARGET or --counters");
  });
}

}  // namespace quire::cli
