// SPDX-License-Identifier: Apache-2.0
//
// quire docs rm, tag, latest and invalidate: changes of documents.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/documents/document_names.h"
#include "apps/kit/documents/tag_text.h"
#include "apps/kit/duration_flag.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "apps/quire/docs/docs_commands.h"

namespace quire::cli {
namespace {

struct ChangeArgs {
  DocumentNames names;
  std::vector<std::string> tags;
  std::vector<std::string> removed_tags;
  std::optional<uint64_t> ttl_seconds;
  std::string source;
  bool keep_segments = false;
};

/// Prints documents after a change.
void PrintChanged(const std::vector<Document>& documents, const CommandContext& context) {
  if (context.options.json) {
    PrintJsonLine(context.out, DocumentsJson(documents));
    return;
  }
  for (const Document& document : documents) {
    context.out << FormatName(document.name) << (document.is_latest ? " (latest) " : " ")
                << FormatTags(document.tags) << '\n';
  }
}

/// Prints how much was removed, in the words of `verb`.
void PrintRemoved(const RemovedDocuments& total, const char* verb, const CommandContext& context) {
  if (context.options.json) {
    PrintJsonLine(context.out, {{"documents", total.documents}, {"segments", total.segments}});
    return;
  }
  context.out << verb << ' ' << total.documents << " document versions and " << total.segments
              << " segments\n";
}

/// Changes each document by `change`, and prints them.
template <typename Change>
Status ChangeEach(const ChangeArgs& args, const CommandContext& context, const Change& change) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  std::vector<Document> changed;
  QUIRE_RETURN_IF_ERROR(args.names.ForEach([&](const DocumentName& name) -> Status {
    QUIRE_ASSIGN_OR_RETURN(changed.emplace_back(), change(*client, name));
    return OkStatus();
  }));
  PrintChanged(changed, context);
  return OkStatus();
}

/// Removes each document by `remove`, and prints how many there were.
template <typename Remove>
Status RemoveEach(const ChangeArgs& args, const char* verb, const CommandContext& context,
                  const Remove& remove) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  RemovedDocuments total;
  QUIRE_RETURN_IF_ERROR(args.names.ForEach([&](const DocumentName& name) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const RemovedDocuments removed, remove(*client, name));
    total.documents += removed.documents;
    total.segments += removed.segments;
    return OkStatus();
  }));
  PrintRemoved(total, verb, context);
  return OkStatus();
}

Status RunTag(const ChangeArgs& args, const CommandContext& context) {
  DocumentChange change{.remove_tags = args.removed_tags, .ttl_seconds = args.ttl_seconds};
  QUIRE_ASSIGN_OR_RETURN(change.set_tags, ParseTags(args.tags));
  return ChangeEach(args, context, [&](Client& client, const DocumentName& name) {
    return client.UpdateDocument(name, change);
  });
}

Status RunLatest(const ChangeArgs& args, const CommandContext& context) {
  return ChangeEach(args, context, [](Client& client, const DocumentName& name) {
    if (name.version != 0) return client.SetLatest(name);
    return StatusOr<Document>(
        InvalidArgument("name the version that is to be the latest, as NAME@2"));
  });
}

Status RunDelete(const ChangeArgs& args, const CommandContext& context) {
  return RemoveEach(args, "deleted", context, [&](Client& client, const DocumentName& name) {
    return client.DeleteDocument(name, args.keep_segments);
  });
}

Status RunInvalidate(const ChangeArgs& args, const CommandContext& context) {
  if (args.source.empty()) {
    return RemoveEach(args, "invalidated", context, [](Client& client, const DocumentName& name) {
      return client.InvalidateDocument(name);
    });
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const RemovedDocuments total, client->InvalidateSource(args.source));
  PrintRemoved(total, "invalidated", context);
  return OkStatus();
}

void AddTag(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<ChangeArgs>();
  CLI::App& tag = commands.Add(
      {.name = "tag",
       .summary = "Set and remove tags of documents, and their time to live",
       .examples = "  quire docs tag report.txt --tag team=ops --tag year=2026\n"
                   "  quire docs tag handbook/intro.md --remove draft --ttl 30d\n"
                   "Whole numbers, numbers, true and false have their type; quote them to have "
                   "text."},
      args, &RunTag, &docs);
  AddDocumentNames(tag, &args->names)->required();
  tag.add_option("--tag", args->tags, "KEY=VALUE to set; may be repeated")->expected(1)->take_all();
  tag.add_option("--remove", args->removed_tags, "Key to remove; may be repeated")
      ->expected(1)
      ->take_all();
  AddDurationOrNoneFlag(tag, "--ttl",
                        "How long the documents live from when they were put, or none: as long as "
                        "their collection says",
                        &args->ttl_seconds);
  tag.parse_complete_callback([args] {
    if (args->tags.empty() && args->removed_tags.empty() && !args->ttl_seconds) {
      throw CLI::RequiredError("--tag, --remove or --ttl");
    }
  });
}

void AddLatest(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<ChangeArgs>();
  CLI::App& latest =
      commands.Add({.name = "latest",
                    .summary = "Make versions the latest: what a name without one means",
                    .examples = "  quire docs latest report.txt@2\n"
                                "A new version becomes the latest by itself."},
                   args, &RunLatest, &docs);
  AddDocumentNames(latest, &args->names)->required();
}

void AddRm(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<ChangeArgs>();
  CLI::App& rm = commands.Add({.name = "rm",
                               .summary = "Delete documents: all versions, unless one is named",
                               .examples = "  quire docs rm report.txt\n"
                                           "  quire docs rm manuals/pump.txt@2 --keep-segments\n"
                                           "Single segments: quire rm."},
                              args, &RunDelete, &docs);
  AddDocumentNames(rm, &args->names)->required();
  rm.add_flag("--keep-segments", args->keep_segments, "Delete only the registry's entry");
}

void AddInvalidate(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<ChangeArgs>();
  CLI::App& invalidate =
      commands.Add({.name = "invalidate",
                    .summary = "Remove documents whose source has changed, and their caches",
                    .examples = "  quire docs invalidate handbook/intro.md\n"
                                "  quire docs invalidate --source https://example.org/intro\n"
                                "Watchers hear of it (quire docs watch)."},
                   args, &RunInvalidate, &docs);
  CLI::Option* const names = AddDocumentNames(invalidate, &args->names);
  invalidate
      .add_option("--source", args->source, "All documents of this source, in every collection")
      ->excludes(names);
  invalidate.parse_complete_callback([args] {
    if (args->names.texts.empty() && args->source.empty())
      throw CLI::RequiredError("DOCUMENT or --source");
  });
}

}  // namespace

void AddDocsChange(Commands& commands, CLI::App& docs) {
  AddRm(commands, docs);
  AddTag(commands, docs);
  AddLatest(commands, docs);
  AddInvalidate(commands, docs);
}

}  // namespace quire::cli
