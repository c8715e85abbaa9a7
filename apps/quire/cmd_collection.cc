// SPDX-License-Identifier: Apache-2.0
//
// quire collection: how documents of a collection are kept, and for how long.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/duration_flag.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

struct CollectionArgs {
  std::string name;
  std::optional<std::string> codec;
  std::optional<uint64_t> ttl_seconds;
};

std::string CodecText(const Collection& collection) {
  return collection.codec + (collection.codec_is_default ? " (the server's default)" : "");
}

Status PrintCollection(const Collection& collection, const CommandContext& context) {
  if (context.options.json) {
    PrintJsonLine(context.out, ToJson(collection));
    return OkStatus();
  }
  Table table({{"FIELD"}, {"VALUE"}});
  table.AddRow({"collection", collection.name});
  table.AddRow({"codec", CodecText(collection)});
  table.AddRow({"time to live", FormatTtl(collection.ttl_seconds)});
  table.Print(context.out);
  return OkStatus();
}

Status RunSet(const CollectionArgs& args, const CommandContext& context) {
  CollectionChange change;
  change.ttl_seconds = args.ttl_seconds;
  if (args.codec) change.codec = *args.codec == "default" ? "" : *args.codec;
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const Collection collection, client->SetCollection(args.name, change));
  return PrintCollection(collection, context);
}

Status RunGet(const CollectionArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const Collection collection, client->GetCollection(args.name));
  return PrintCollection(collection, context);
}

Status RunCollections(const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Collection> collections, client->ListCollections());
  if (context.options.json) {
    Json json = {{"collections", Json::array()}};
    for (const Collection& collection : collections) {
      json["collections"].push_back(ToJson(collection));
    }
    PrintJsonLine(context.out, json);
    return OkStatus();
  }
  if (collections.empty()) {
    context.err << "no collection has settings of its own\n";
    return OkStatus();
  }
  Table table({{"COLLECTION"}, {"CODEC"}, {"TIME TO LIVE"}});
  for (const Collection& collection : collections) {
    table.AddRow({collection.name, CodecText(collection), FormatTtl(collection.ttl_seconds)});
  }
  table.Print(context.out);
  return OkStatus();
}

void AddSet(Commands& commands, CLI::App& group, const std::shared_ptr<CollectionArgs>& args) {
  CLI::App& set = commands.Add(
      {.name = "set",
       .summary = "Change the settings of a collection; what is not named stays",
       .examples = "  quire collection set books --codec int8 --ttl 7d\n"
                   "  quire collection set scratch --ttl 12h\n"
                   "  quire collection set books --codec default --ttl none   as if never set\n"
                   "A codec holds for what is put from then on. A time to live also holds for "
                   "documents already\n"
                   "there, from when they were put: those that are older are deleted."},
      args, &RunSet, &group);
  set.add_option("NAME", args->name, "The collection; it needs no document")->required();
  set.add_option("--codec", args->codec,
                 "raw, fp8, int8 or int4, each with +zstd behind it to compress it on SSD besides; "
                 "or default, the server's")
      ->type_name("CODEC");
  AddDurationOrNoneFlag(set, "--ttl",
                        "How long documents live that are put without one of their own (90s, 12h, "
                        "7d), or none: for ever",
                        &args->ttl_seconds);
  set.parse_complete_callback([args] {
    if (!args->codec && !args->ttl_seconds) throw CLI::RequiredError("--codec or --ttl");
  });
}

}  // namespace

void AddCollectionCommand(Commands& commands) {
  const auto args = std::make_shared<CollectionArgs>();
  CLI::App& group = commands.AddGroup(
      {.name = "collection",
       .summary = "Settings of collections: codec and time to live of what is put into them",
       .examples = "  quire collection set books --codec int8 --ttl 7d\n"
                   "  quire collection ls\n"
                   "  quire collection get books"});
  AddSet(commands, group, args);
  commands.Add({.name = "ls",
                .summary = "Collections with settings of their own; all others have the server's",
                .examples = "  quire collection ls\n  quire collection ls --json"},
               &RunCollections, &group);
  commands
      .Add({.name = "get",
            .summary = "The settings of one collection",
            .examples = "  quire collection get books\n  quire collection get books --json"},
           args, &RunGet, &group)
      .add_option("NAME", args->name, "The collection")
      ->required();
}

}  // namespace quire::cli
