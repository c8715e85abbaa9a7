// SPDX-License-Identifier: Apache-2.0
//
// quire docs watch, quire docs history: what happened to documents.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/documents/document_lines.h"
#include "apps/kit/documents/document_query.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "apps/quire/docs/docs_commands.h"
#include "common/base/threads/stop_signals.h"

namespace quire::cli {
namespace {

constexpr uint32_t kEventsOfRead = 1000;
/// Between two looks at whether Ctrl-C was pressed.
constexpr Duration kWait = std::chrono::milliseconds(500);

struct WatchArgs {
  WatchOptions options{.from_now = true};
  std::optional<uint64_t> count;
};

void PrintEvent(const DocumentEvent& event, const CommandContext& context) {
  if (context.options.json) {
    PrintJsonLine(context.out, ToJson(event));
  } else {
    context.out << FormatEvent(event) << std::endl;
  }
}

Status RunWatch(const WatchArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StopSignals> stop, StopSignals::Install());
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  WatchOptions options = args.options;
  options.max_events = kEventsOfRead;
  options.wait = kWait;
  uint64_t seen = 0;
  while (!stop->HasArrived() && (!args.count || seen < *args.count)) {
    QUIRE_ASSIGN_OR_RETURN(const DocumentEvents read, client->WatchDocuments(options));
    for (const DocumentEvent& event : read.events) {
      if (args.count && seen == *args.count) break;
      PrintEvent(event, context);
      options.after = event.position;
      ++seen;
    }
    if (read.events.empty()) options.after = read.position;
    options.from_now = false;
  }
  context.err << "go on from here with --from " << options.after << '\n';
  return OkStatus();
}

struct HistoryArgs {
  std::string collection = "default";
  std::string name;
};

/// Versions in every state. A filter that names `state` sees them all.
StatusOr<std::vector<Document>> ReadVersions(const DocumentName& name, Client& client) {
  const ListOptions options{
      .collection = name.collection,
      .filter = "name=" + FilterValue(name.name) + " and (state=ready or state!=ready)"};
  return ReadDocuments(options, client);
}

/// Events that the log still has.
StatusOr<std::vector<DocumentEvent>> ReadEvents(const DocumentName& name, Client& client) {
  std::vector<DocumentEvent> events;
  WatchOptions options{.collection = name.collection, .max_events = kEventsOfRead};
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(const DocumentEvents read, client.WatchDocuments(options));
    if (read.events.empty() && read.position == options.after) return events;
    std::ranges::copy_if(read.events, std::back_inserter(events), [&](const DocumentEvent& event) {
      return event.document.name == name.name;
    });
    options.after = read.position;
  }
}

Status RunHistory(const HistoryArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const auto names, ParseDocumentName(args.name, args.collection));
  const DocumentName& name = names.second.value_or(names.first);
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Document> versions, ReadVersions(name, *client));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentEvent> events, ReadEvents(name, *client));
  if (versions.empty() && events.empty()) {
    return NotFound("no document ", FormatName(name), ", and no event of one");
  }
  if (context.options.json) {
    Json json = DocumentsJson(versions);
    json["events"] = Json::array();
    for (const DocumentEvent& event : events) json["events"].push_back(ToJson(event));
    PrintJsonLine(context.out, json);
    return OkStatus();
  }
  for (const Document& version : versions) {
    context.out << FormatName(version.name) << ": " << StateText(version)
                << (version.is_latest ? ", latest" : "") << '\n';
  }
  for (const DocumentEvent& event : events) context.out << FormatEvent(event) << '\n';
  return OkStatus();
}

}  // namespace

void AddDocsHistory(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<HistoryArgs>();
  CLI::App& history = commands.Add(
      {.name = "history",
       .summary = "Versions of one document in every state, and its events",
       .examples =
           "  quire docs history report.txt\n  quire docs history handbook/intro.md --json"},
      args, &RunHistory, &docs);
  history.add_option("DOCUMENT", args->name, "[COLLECTION/]NAME")->required();
  history.add_option("--collection", args->collection, "Collection of a name without one")
      ->capture_default_str();
}

void AddDocsWatch(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<WatchArgs>();
  CLI::App& watch = commands.Add(
      {.name = "watch",
       .summary = "Follow what happens to documents, until Ctrl-C",
       .examples =
           "  quire docs watch --collection handbook\n"
           "  quire docs watch --from 0 --json       from the oldest event on, a line each\n"
           "  quire docs watch --from 1742           after an event that is known\n"
           "A watcher that was away misses nothing that the log still has."},
      args, &RunWatch, &docs);
  watch.add_option("--collection", args->options.collection,
                   "Only this collection (all when not given)");
  watch
      .add_option_function<uint64_t>(
          "--from",
          [args](const uint64_t& position) {
            args->options.after = position;
            args->options.from_now = false;
          },
          "Position of the last event that is known, 0 for none; from now on when not given")
      ->type_name("POSITION");
  watch.add_option("--count", args->count, "Stop after so many events")->check(CLI::PositiveNumber);
}

}  // namespace quire::cli
