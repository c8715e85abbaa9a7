// SPDX-License-Identifier: Apache-2.0
//
// quire docs warm: documents brought to the server's DRAM ahead of questions.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"
#include "apps/quire/docs/docs_commands.h"

namespace quire::cli {
namespace {

struct WarmArgs {
  std::vector<std::string> names;
  std::string collection = "default";
};

StatusOr<WarmProgress> WarmOne(const Readings<DocumentName>& names, Client& client) {
  QUIRE_ASSIGN_OR_RETURN(const Document document, FirstFound(names, [&](const DocumentName& name) {
                           return client.GetDocument(name);
                         }));
  ProgressBar bar("warming " + FormatName(document.name), document.bytes, {.bytes = true});
  uint64_t shown = 0;
  return client.WarmDocument(document.name, [&](const WarmProgress& now) {
    bar.Advance(now.bytes_done - shown);
    shown = now.bytes_done;
    return true;
  });
}

Status RunWarm(const WarmArgs& args, const CommandContext& context) {
  std::vector<Readings<DocumentName>> names;
  for (const std::string& text : args.names) {
    QUIRE_ASSIGN_OR_RETURN(names.emplace_back(), ParseDocumentName(text, args.collection));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  Json json = {{"documents", Json::array()}};
  for (size_t i = 0; i < names.size(); ++i) {
    const auto warm = WarmOne(names[i], *client);
    QUIRE_RETURN_IF_ERROR(Annotate(warm.status(), args.names[i]));
    json["documents"].push_back({{"document", FormatName(warm->document.name)},
                                 {"segments", warm->num_segments},
                                 {"segments_in_dram", warm->segments_in_dram},
                                 {"segments_not_fitting", warm->segments_not_fitting},
                                 {"bytes", warm->bytes_done}});
    if (context.options.json) continue;
    context.out << FormatName(warm->document.name) << ": " << warm->segments_in_dram << " of "
                << warm->num_segments << " segments in DRAM\n";
    if (warm->segments_not_fitting > 0) {
      context.err << "warning: " << warm->segments_not_fitting
                  << " segments did not fit; give the server more --dram-bytes\n";
    }
  }
  if (context.options.json) PrintJsonLine(context.out, json);
  return OkStatus();
}

}  // namespace

void AddDocsWarm(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<WarmArgs>();
  CLI::App& warm = commands.Add(
      {.name = "warm",
       .summary = "Bring documents to the server's DRAM ahead of questions",
       .examples = "  quire docs warm handbook/intro.md\n"
                   "  quire docs warm report.txt@2 --json\n"
                   "They may leave it again; to keep them there: quire pin."},
      [args](const CommandContext& context) { return RunWarm(*args, context); }, &docs);
  warm.add_option("DOCUMENT", args->names, "[COLLECTION/]NAME[@VERSION]")->required();
  warm.add_option("--collection", args->collection, "Collection of names without one")
      ->capture_default_str();
}

}  // namespace quire::cli
