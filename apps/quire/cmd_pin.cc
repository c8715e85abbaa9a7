// SPDX-License-Identifier: Apache-2.0
//
// quire pin, quire unpin: documents that stay in the server's DRAM.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/kit/documents/document_names.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

using PinMethod = StatusOr<Client::PinnedDocument> (Client::*)(const DocumentName&);

Json PinJson(const DocumentName& name, bool pinned, bool was_pinned) {
  return {{"collection", name.collection},
          {"name", name.name},
          {"version", name.version},
          {"pinned", pinned},
          {"was_pinned", was_pinned}};
}

std::string PinText(const DocumentName& name, bool pinned, bool was_pinned) {
  const bool changed = was_pinned != pinned;
  return FormatName(name) + (changed ? " is " : " was ") + (pinned ? "pinned" : "not pinned") +
         (changed ? "" : " already");
}

Status RunPin(const DocumentNames& names, PinMethod method, bool pinned,
              const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  Json json = {{"documents", Json::array()}};
  QUIRE_RETURN_IF_ERROR(names.ForEach([&](const DocumentName& name) -> Status {
    QUIRE_ASSIGN_OR_RETURN(const Client::PinnedDocument result, ((*client).*method)(name));
    const DocumentName& exact = result.document.name;
    json["documents"].push_back(PinJson(exact, pinned, result.was_pinned));
    if (!context.options.json) context.out << PinText(exact, pinned, result.was_pinned) << '\n';
    return OkStatus();
  }));
  if (context.options.json) PrintJsonLine(context.out, json);
  return OkStatus();
}

void AddOne(Commands& commands, const Commands::Spec& spec, PinMethod method, bool pinned) {
  const auto args = std::make_shared<DocumentNames>();
  CLI::App& command = commands.Add(spec, [args, method, pinned](const CommandContext& context) {
    return RunPin(*args, method, pinned, context);
  });
  AddDocumentNames(command, args.get())->required();
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
