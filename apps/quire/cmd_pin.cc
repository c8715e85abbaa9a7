// SPDX-License-Identifier: Apache-2.0
//
// quire pin, quire unpin: documents that stay in the server's DRAM.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

struct PinArgs {
  std::vector<std::string> names;
  std::string collection = "default";
};

using PinMethod = StatusOr<Client::PinnedDocument> (Client::*)(const DocumentName&);

Status RunPin(const PinArgs& args, PinMethod method, bool pinned, const CommandContext& context) {
  std::vector<Readings<DocumentName>> names;  // All are understood before the first is pinned.
  for (const std::string& text : args.names) {
    QUIRE_ASSIGN_OR_RETURN(names.emplace_back(), ParseDocumentName(text, args.collection));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  Json json = {{"documents", Json::array()}};
  for (const Readings<DocumentName>& named : names) {
    const auto result =
        FirstFound(named, [&](const DocumentName& name) { return ((*client).*method)(name); });
    QUIRE_RETURN_IF_ERROR(Annotate(result.status(), FormatName(named.first)));
    const DocumentName& exact = result->document.name;
    json["documents"].push_back({{"collection", exact.collection},
                                 {"name", exact.name},
                                 {"version", exact.version},
                                 {"pinned", pinned},
                                 {"was_pinned", result->was_pinned}});
    if (context.options.json) continue;
    const bool changed = result->was_pinned != pinned;
    context.out << FormatName(exact) << (changed ? " is " : " was ")
                << (pinned ? "pinned" : "not pinned") << (changed ? "" : " already") << "\n";
  }
  if (context.options.json) PrintJsonLine(context.out, json);
  return OkStatus();
}

void AddOne(Commands& commands, const Commands::Spec& spec, PinMethod method, bool pinned) {
  const auto args = std::make_shared<PinArgs>();
  CLI::App& command = commands.Add(spec, [args, method, pinned](const CommandContext& context) {
    return RunPin(*args, method, pinned, context);
  });
  command.add_option("DOCUMENT", args->names, "[COLLECTION/]NAME[@VERSION]")->required();
  command.add_option("--collection", args->collection, "Collection of names without one")
      ->capture_default_str();
}

}  // namespace

void AddPinCommands(Commands& commands) {
  AddOne(commands,
         {.name = "pin",
          .summary = "Keep documents in the server's DRAM until they are unpinned",
          .examples = "  quire pin report.txt               the latest version\n"
                      "  quire pin manuals/pump.txt@2 manuals/valve.txt\n"
                      "Pins are kept over a restart of the server."},
         &Client::PinDocument, /*pinned=*/true);
  AddOne(commands,
         {.name = "unpin",
          .summary = "Take the pins of documents back",
          .examples = "  quire unpin report.txt             the latest version\n"
                      "  quire unpin manuals/pump.txt@2 --json"},
         &Client::UnpinDocument, /*pinned=*/false);
}

}  // namespace quire::cli
