// SPDX-License-Identifier: Apache-2.0
//
// quire docs warm: documents brought to the server's DRAM ahead of questions.
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/kit/documents/document_names.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/target.h"
#include "apps/quire/docs/docs_commands.h"

namespace quire::cli {
namespace {

StatusOr<WarmProgress> WarmOne(const DocumentName& name, Client& client) {
  QUIRE_ASSIGN_OR_RETURN(const Document document, client.GetDocument(name));
  ProgressBar bar("warming " + FormatName(document.name), document.bytes, {.bytes = true});
  uint64_t shown = 0;
  return client.WarmDocument(document.name, [&](const WarmProgress& now) {
    bar.Advance(now.bytes_done - shown);
    shown = now.bytes_done;
    return true;
  });
}

Json WarmJson(const WarmProgress& warm) {
  return {{"document", FormatName(warm.document.name)},
          {"segments", warm.num_segments},
          {"segments_in_dram", warm.segments_in_dram},
          {"segments_not_fitting", warm.segments_not_fitting},
          {"bytes", warm.bytes_done}};
}

void PrintWarm(const WarmProgress& warm, const CommandContext& context) {
  context.out << FormatName(warm.document.name) << ": " << warm.segments_in_dram << " of "
              << warm.num_segments << " segments in DRAM\n";
  if (warm.segments_not_fitting > 0) {
    context.err << "warning: " << warm.segments_not_fitting
                << " segments did not fit; give the server more --dram-bytes\n";
  }
}

Status RunWarm(const DocumentNames& names, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  Json json = {{"documents", Json::array()}};
  QUIRE_RETURN_IF_ERROR(names.ForEach([&](const DocumentName& name) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const WarmProgress warm, WarmOne(name, *client));
    json["documents"].push_back(WarmJson(warm));
    if (!context.options.json) PrintWarm(warm, context);
    return OkStatus();
  }));
  if (context.options.json) PrintJsonLine(context.out, json);
  return OkStatus();
}

}  // namespace

void AddDocsWarm(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<DocumentNames>();
  CLI::App& warm =
      commands.Add({.name = "warm",
                    .summary = "Bring documents to the server's DRAM ahead of questions",
                    .examples = "  quire docs warm handbook/intro.md\n"
                                "  quire docs warm report.txt@2 --json\n"
                                "They may leave it again; to keep them there: quire pin."},
                   args, &RunWarm, &docs);
  AddDocumentNames(warm, args.get())->required();
}

}  // namespace quire::cli
