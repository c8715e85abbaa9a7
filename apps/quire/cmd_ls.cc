// SPDX-License-Identifier: Apache-2.0
//
// quire ls: one row per document, its latest version.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

struct LsArgs {
  std::string collection;
};

/// The list is in order of collection, name and version: the last of each name is its latest.
std::vector<Document> LatestVersions(std::vector<Document> documents) {
  std::vector<Document> latest;
  for (Document& document : documents) {
    if (!latest.empty() && latest.back().name.collection == document.name.collection &&
        latest.back().name.name == document.name.name) {
      latest.back() = std::move(document);
    } else {
      latest.push_back(std::move(document));
    }
  }
  return latest;
}

Status RunLs(const LsArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(std::vector<Document> all, client->ListDocuments(args.collection));
  const std::vector<Document> documents = LatestVersions(std::move(all));
  if (context.options.json) {
    PrintJsonLine(context.out, DocumentsJson(documents));
    return OkStatus();
  }
  if (documents.empty()) return SayNoDocuments(args.collection, context);
  const bool some_lost = std::ranges::any_of(
      documents, [](const Document& document) { return document.segments_lost > 0; });
  std::vector<Table::Column> columns = {{"DOCUMENT"},
                                        {"TOKENS", Table::kRight},
                                        {"SIZE", Table::kRight},
                                        {"CREATED (UTC)"},
                                        {"EXPIRES (UTC)"}};
  if (some_lost) columns.push_back({"STATE"});
  Table table(columns);
  for (const Document& document : documents) {
    std::vector<std::string> row = {
        FormatName(document.name), FormatCount(document.num_tokens), FormatBytes(document.bytes),
        FormatTime(document.created_unix_micros), FormatTime(document.expires_unix_micros)};
    if (some_lost) {
      row.push_back(document.segments_lost == 0
                        ? "whole"
                        : FormatCount(document.segments_lost) + " segments lost: put it again");
    }
    table.AddRow(std::move(row));
  }
  table.Print(context.out);
  return OkStatus();
}

}  // namespace

void AddLsCommand(Commands& commands) {
  const auto args = std::make_shared<LsArgs>();
  CLI::App& command = commands.Add(
      {.name = "ls",
       .summary = "List documents, the latest version of each (all versions: quire docs)",
       .examples = "  quire ls\n"
                   "  quire ls --collection manuals\n"
                   "  quire ls --json | jq -r '.documents[].document'\n"
                   "What stands under DOCUMENT names that version to every other command."},
      args, &RunLs);
  command.add_option("--collection", args->collection, "Only this collection (all when not given)");
}

}  // namespace quire::cli
