// SPDX-License-Identifier: Apache-2.0
//
// quire rm: deletes documents, or segments that no document uses.
#include <CLI/CLI.hpp>
#include <memory>
#include <variant>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

struct RmArgs {
  std::vector<std::string> targets;
  std::string collection = "default";
  bool keep_segments = false;
};

/// Deletes one target and adds to `total` what went.
Status Remove(const ContextRef& target, const RmArgs& args, Client& client,
              Client::DeletedDocuments* total) {
  if (const auto* key = std::get_if<SegmentKey>(&target)) {
    // NOT_FOUND: what is named so may still be a document.
    if (args.keep_segments) {
      return NotFound("with --keep-segments only documents are deleted, and none is named so");
    }
    QUIRE_ASSIGN_OR_RETURN(const uint32_t segments, client.DeleteSegments({key, 1}));
    if (segments == 0) return NotFound("there is no such segment");
    total->segments += segments;
    return OkStatus();
  }
  const auto& name = std::get<DocumentName>(target);
  QUIRE_ASSIGN_OR_RETURN(const auto deleted, client.DeleteDocument(name, args.keep_segments));
  total->documents += deleted.documents;
  total->segments += deleted.segments;
  return OkStatus();
}

Status RunRm(const RmArgs& args, const CommandContext& context) {
  std::vector<Readings<ContextRef>> targets;  // All are understood before the first is deleted.
  for (const std::string& text : args.targets) {
    QUIRE_ASSIGN_OR_RETURN(targets.emplace_back(), ParseTarget(text, args.collection));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  Client::DeletedDocuments total;
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto remove = [&](const ContextRef& ref) { return Remove(ref, args, *client, &total); };
    QUIRE_RETURN_IF_ERROR(Annotate(FirstFound(targets[i], remove), args.targets[i]));
  }
  if (context.options.json) {
    PrintJsonLine(context.out, {{"documents", total.documents}, {"segments", total.segments}});
  } else {
    context.out << "deleted " << total.documents << " document versions and " << total.segments
                << " segments\n";
  }
  return OkStatus();
}

}  // namespace

void AddRmCommand(Commands& commands) {
  const auto args = std::make_shared<RmArgs>();
  CLI::App& command = commands.Add(
      {.name = "rm",
       .summary = "Delete documents (all versions, unless one is named) or single segments",
       .examples =
           "  quire rm report.txt                all versions, and the segments nobody else uses\n"
           "  quire rm manuals/pump.txt@2        one version\n"
           "  quire rm report.txt --keep-segments   forget the name, keep the pages\n"
           "  quire rm 3fa9...c1                 one segment; refused while a document uses it"},
      args, &RunRm);
  command
      .add_option("TARGET", args->targets,
                  "[COLLECTION/]NAME[@VERSION], or a segment key (64 hex digits)")
      ->required();
  command.add_option("--collection", args->collection, "Collection of names without one")
      ->capture_default_str();
  command.add_flag("--keep-segments", args->keep_segments, "Delete only the registry's entry");
}

}  // namespace quire::cli
