// SPDX-License-Identifier: Apache-2.0
//
// quire docs: the document registry, every version with its details.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/kit/json_output.h"
#include "apps/kit/table.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

struct DocsArgs {
  std::string collection;
  std::string name;
};

Status RunList(const DocsArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Document> documents,
                         client->ListDocuments(args.collection));
  if (context.options.json) {
    PrintJsonLine(context.out, DocumentsJson(documents));
    return OkStatus();
  }
  if (documents.empty()) return SayNoDocuments(args.collection, context);
  Table table({{"DOCUMENT"},
               {"TOKENS", Table::kRight},
               {"SIZE", Table::kRight},
               {"MODEL"},
               {"CREATED (UTC)"},
               {"EXPIRES (UTC)"},
               {"CHAIN TIP"}});
  for (const Document& document : documents) {
    table.AddRow({FormatName(document.name), FormatCount(document.num_tokens),
                  FormatBytes(document.bytes), document.model,
                  FormatTime(document.created_unix_micros),
                  FormatTime(document.expires_unix_micros), document.chain_tip.Hex()});
  }
  table.Print(context.out);
  return OkStatus();
}

Status RunGet(const DocsArgs& args, const CommandContext& context) {
  const std::string collection = args.collection.empty() ? "default" : args.collection;
  QUIRE_ASSIGN_OR_RETURN(const auto names, ParseDocumentName(args.name, collection));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const Document document, FirstFound(names, [&](const DocumentName& name) {
                           return client->GetDocument(name);
                         }));
  if (context.options.json) {
    PrintJsonLine(context.out, ToJson(document));
    return OkStatus();
  }
  Table table({{"FIELD"}, {"VALUE"}});
  table.AddRow({"document", FormatName(document.name)});
  table.AddRow({"tokens", FormatCount(document.num_tokens)});
  table.AddRow({"size", FormatBytes(document.bytes)});
  table.AddRow({"model", document.model});
  table.AddRow({"created (UTC)", FormatTime(document.created_unix_micros)});
  table.AddRow({"expires (UTC)", FormatTime(document.expires_unix_micros)});
  table.AddRow({"chain tip", document.chain_tip.Hex()});
  table.Print(context.out);
  return OkStatus();
}

void AddCollectionOption(CLI::App& command, DocsArgs& args) {
  command.add_option("--collection", args.collection,
                     "Only this collection (all when not given); of `get`: of a name without one");
}

}  // namespace

void AddDocsCommand(Commands& commands) {
  const auto args = std::make_shared<DocsArgs>();
  const auto list = [args](const CommandContext& context) { return RunList(*args, context); };
  CLI::App& docs = commands.Add(
      {.name = "docs",
       .summary = "The document registry: every version, with model, time and chain",
       .examples = "  quire docs                         the same as `quire docs list`\n"
                   "  quire docs list --collection manuals\n"
                   "  quire docs get manuals/pump.txt@2\n"
                   "To delete documents: quire rm."},
      list);
  AddCollectionOption(docs, *args);
  docs.require_subcommand(0, 1);
  AddCollectionOption(
      commands.Add({.name = "list",
                    .summary = "All documents in order of collection, name and version",
                    .examples = "  quire docs list --collection manuals --json"},
                   list, &docs),
      *args);
  commands
      .Add(
          {.name = "get",
           .summary = "One document as the registry has it",
           .examples = "  quire docs get report.txt\n  quire docs get manuals/pump.txt@2 --json"},
          [args](const CommandContext& context) { return RunGet(*args, context); }, &docs)
      .add_option("DOCUMENT", args->name, "[COLLECTION/]NAME[@VERSION]")
      ->required();
}

}  // namespace quire::cli
