// SPDX-License-Identifier: Apache-2.0
//
// quire docs show: one document, what is stored beside its pages, and which of them questions used.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/documents/document_lines.h"
#include "apps/kit/documents/page_strip_text.h"
#include "apps/kit/documents/tag_text.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/table.h"
#include "apps/kit/target.h"
#include "apps/quire/docs/docs_commands.h"
#include "apps/quire/top/terminal.h"
#include "gpuworker/ingest/document_ingest.h"

namespace quire::cli {
namespace {

struct ShowArgs {
  std::string collection = "default";
  std::string name;
};

std::string TextOf(const Payload& payload) {
  std::string text(payload.size_bytes(), '\0');
  payload.CopyTo(reinterpret_cast<std::byte*>(text.data()));
  return text;
}

/// The ingest's summary; null when it left none, or one of another version.
StatusOr<Json> ReadSummary(const DocumentName& name, Client& client) {
  const auto summary = client.GetExtra(name, worker::kSummaryExtra);
  if (IsNotFound(summary.status())) return Json(nullptr);
  QUIRE_RETURN_IF_ERROR(summary.status());
  if (summary->extra.version != worker::kSummaryVersion) return Json(nullptr);
  const Json json = Json::parse(TextOf(summary->payload), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json(nullptr);
}

/// Nullopt from a server that does not count them, and when a segment is lost.
StatusOr<std::optional<PageUses>> ReadPageUses(const DocumentName& name, Client& client) {
  auto pages = client.GetPageUses(name);
  if (pages.ok()) return std::optional<PageUses>(*std::move(pages));
  const bool unknown = pages.status().code() == StatusCode::kUnimplemented;
  if (unknown || IsNotFound(pages.status())) return std::optional<PageUses>();
  return pages.status();
}

Json ExtrasJson(const std::vector<Extra>& extras) {
  Json json = Json::array();
  for (const Extra& extra : extras) {
    json.push_back({{"name", extra.name},
                    {"version", extra.version},
                    {"bytes", extra.size},
                    {"created_unix_micros", extra.created_unix_micros}});
  }
  return json;
}

std::string ExtrasText(const std::vector<Extra>& extras) {
  std::string text;
  for (const Extra& extra : extras) {
    if (!text.empty()) text += ", ";
    text += extra.name + " (" + FormatBytes(extra.size) + ")";
  }
  return text;
}

void PrintDocument(const Document& document, const std::vector<Extra>& extras, const Json& summary,
                   std::ostream& out) {
  const DocumentStatistics& used = document.statistics;
  Table table({{"FIELD"}, {"VALUE"}});
  table.AddRow({"document", FormatName(document.name)});
  table.AddRow({"state", StateText(document)});
  table.AddRow({"latest", document.is_latest ? "yes" : "no"});
  table.AddRow({"tokens", FormatCount(document.num_tokens)});
  table.AddRow({"size", FormatBytes(document.bytes)});
  table.AddRow({"model", document.model});
  table.AddRow({"created (UTC)", FormatTime(document.created_unix_micros)});
  table.AddRow({"expires (UTC)", FormatTime(document.expires_unix_micros)});
  table.AddRow({"source", document.source});
  table.AddRow({"tags", FormatTags(document.tags)});
  table.AddRow({"pinned", document.pinned ? "yes" : "no"});
  table.AddRow({"questions", FormatCount(used.questions)});
  table.AddRow({"tokens saved", FormatCount(used.tokens_saved)});
  table.AddRow({"bytes served", FormatBytes(used.bytes_served)});
  table.AddRow({"used (UTC)", FormatTime(used.last_used_unix_micros)});
  table.AddRow({"extras", ExtrasText(extras)});
  if (summary.is_object()) table.AddRow({"read as", summary.value("reader", "")});
  table.AddRow({"chain tip", document.chain_tip.Hex()});
  table.Print(out);
}

Status RunShow(const ShowArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const auto names, ParseDocumentName(args.name, args.collection));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const Document document, FirstFound(names, [&](const DocumentName& name) {
                           return client->GetDocument(name);
                         }));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Extra> extras, client->ListExtras(document.name));
  QUIRE_ASSIGN_OR_RETURN(const Json summary, ReadSummary(document.name, *client));
  QUIRE_ASSIGN_OR_RETURN(const std::optional<PageUses> pages, ReadPageUses(document.name, *client));
  if (!context.options.json) {
    PrintDocument(document, extras, summary, context.out);
    if (!pages) return OkStatus();
    context.out << '\n' << PageStripText(*pages, Terminal::size().width, context.out_is_terminal);
    return OkStatus();
  }
  Json json = ToJson(document);
  json["extras"] = ExtrasJson(extras);
  json["ingest"] = summary;
  json["page_tokens"] = pages ? Json(pages->page_tokens) : Json(nullptr);
  json["page_uses"] = pages ? Json(pages->uses) : Json(nullptr);
  PrintJsonLine(context.out, json);
  return OkStatus();
}

}  // namespace

void AddDocsShow(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<ShowArgs>();
  for (const std::string name : {"show", "get"}) {
    CLI::App& show = commands.Add(
        {.name = name,
         .summary = name == "show" ? "One document, its tags, how it was read, and its used pages"
                                   : "The same as show",
         .examples = "  quire docs " + name + " report.txt\n" + "  quire docs " + name +
                     " manuals/pump.txt@2 --json"},
        args, &RunShow, &docs);
    show.add_option("DOCUMENT", args->name, "[COLLECTION/]NAME[@VERSION]")->required();
    show.add_option("--collection", args->collection, "Collection of a name without one")
        ->capture_default_str();
  }
}

}  // namespace quire::cli
