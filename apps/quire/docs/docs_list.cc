// SPDX-License-Identifier: Apache-2.0
//
// quire docs ls, quire docs search: documents as rows.
#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "apps/kit/documents/document_lines.h"
#include "apps/kit/documents/document_query.h"
#include "apps/kit/documents/tag_text.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"
#include "apps/quire/docs/docs_commands.h"

namespace quire::cli {
namespace {

struct ListArgs {
  ListOptions options;
  uint64_t limit = std::numeric_limits<uint64_t>::max();
};

void PrintDocuments(const std::vector<Document>& documents, std::ostream& out) {
  Table table({{"DOCUMENT"},
               {"STATE"},
               {"TOKENS", Table::kRight},
               {"SIZE", Table::kRight},
               {"MODEL"},
               {"CREATED (UTC)"},
               {"EXPIRES (UTC)"},
               {"TAGS"}});
  for (const Document& document : documents) {
    table.AddRow({FormatName(document.name), StateText(document), FormatCount(document.num_tokens),
                  FormatBytes(document.bytes), document.model,
                  FormatTime(document.created_unix_micros),
                  FormatTime(document.expires_unix_micros), FormatTags(document.tags)});
  }
  table.Print(out);
}

Status RunList(const ListArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Document> documents,
                         ReadDocuments(args.options, *client, args.limit));
  if (context.options.json) {
    PrintJsonLine(context.out, DocumentsJson(documents));
    return OkStatus();
  }
  if (!documents.empty()) {
    PrintDocuments(documents, context.out);
  } else if (args.options.filter.empty()) {
    return SayNoDocuments(args.options.collection, context);
  } else {
    context.err << "no document matches " << args.options.filter << '\n';
  }
  return OkStatus();
}

void AddListOptions(CLI::App& command, const std::shared_ptr<ListArgs>& args) {
  command.add_option("--collection", args->options.collection,
                     "Only this collection (all when not given)");
}

void AddSearchOptions(CLI::App& command, const std::shared_ptr<ListArgs>& args) {
  AddListOptions(command, args);
  command.add_option("--limit", args->limit, "Documents at most")->check(CLI::PositiveNumber);
  command.add_flag_callback(
      "--newest", [args] { args->options.order = DocumentOrder::kNewest; },
      "The newest first, instead of by name");
}

}  // namespace

CLI::App& AddDocsList(Commands& commands, const Commands::Spec& group) {
  const auto args = std::make_shared<ListArgs>();
  const auto run = [args](const CommandContext& context) { return RunList(*args, context); };
  CLI::App& docs = commands.Add(group, run);
  docs.require_subcommand(0, 1);
  AddListOptions(docs, args);
  for (const std::string name : {"ls", "list"}) {
    CLI::App& list =
        commands.Add({.name = name,
                      .summary = name == "ls" ? "All documents and versions, in order of names"
                                              : "The same as ls",
                      .examples = "  quire docs " + name + " --collection manuals --json\n" +
                                  "  quire docs " + name + " --newest --limit 10"},
                     run, &docs);
    AddSearchOptions(list, args);
  }
  CLI::App& search = commands.Add(
      {.name = "search",
       .summary = "Documents that match a filter",
       .examples =
           "  quire docs search --where 'team=ops and created>2026-01-01'\n"
           "  quire docs search --where 'tokens>10000 and not pinned=true' --newest --limit 10\n"
           "  quire docs search --where 'state=failed' --json\n"
           "Fields: name, collection, version, model, state, source, tokens, bytes, created, "
           "expires, used, pinned,\n"
           "latest, and tags by their keys. Operators: = != < <= > >= and ~ for a part of a text; "
           "and, or, not, ( )."},
      run, &docs);
  AddSearchOptions(search, args);
  search.add_option("--where", args->options.filter, "The filter")->required();
  return docs;
}

}  // namespace quire::cli
