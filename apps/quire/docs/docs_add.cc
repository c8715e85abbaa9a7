// SPDX-License-Identifier: Apache-2.0
//
// quire docs add: files, folders and standard input become documents.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/documents/document_files.h"
#include "apps/kit/documents/document_query.h"
#include "apps/kit/documents/tag_text.h"
#include "apps/kit/duration_flag.h"
#include "apps/kit/target.h"
#include "apps/kit/worker/chat_flags.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/ingest_target.h"
#include "apps/kit/worker/local_worker.h"
#include "apps/quire/docs/add_files.h"
#include "apps/quire/docs/add_report.h"
#include "apps/quire/docs/docs_commands.h"
#include "common/base/threads/stop_signals.h"

namespace quire::cli {
namespace {

constexpr uint32_t kJobsOfWorker = 4;
constexpr uint32_t kMostJobs = 64;

struct AddArgs {
  std::vector<std::string> paths;
  FileChoice choice;
  AddOptions options;
  std::vector<std::string> tags;
  std::string name;
  std::string model;
  ChatFlags chat;
  std::string device = "cpu";
  DType dtype = DType::kF32;
  bool statistics = true;
  std::optional<std::string> worker;
  std::optional<uint32_t> jobs;
  bool prune = false;

  bool reads_input() const { return paths.size() == 1 && paths.front() == "-"; }
};

/// A model in this process, or a worker.
struct Place {
  std::unique_ptr<Client> client;
  std::optional<LocalWorker> local;
  std::unique_ptr<IngestTarget> target;
};

StatusOr<std::unique_ptr<IngestTarget>> TargetThere(const AddArgs& args,
                                                    const CommandContext& context) {
  IngestThereOptions options{.address = *args.worker,
                             .tenant = context.options.tenant.value_or(""),
                             .unreachable_for = context.options.unreachable_for()};
  QUIRE_ASSIGN_OR_RETURN(options.token, context.Token());
  if (context.options.timeout_seconds) options.timeout = context.options.call_timeout();
  return IngestThere(options);
}

StatusOr<Place> FindPlace(const AddArgs& args, const CommandContext& context) {
  Place place;
  QUIRE_ASSIGN_OR_RETURN(place.client, context.Connect());
  if (args.worker) {
    QUIRE_ASSIGN_OR_RETURN(place.target, TargetThere(args, context));
    return place;
  }
  QUIRE_RETURN_IF_ERROR(place.client->Stats().status());  // Is the server there?
  QUIRE_ASSIGN_OR_RETURN(const std::string model, FindModel(args.model));
  worker::EngineOptions options;
  options.dtype = args.dtype;
  options.statistics = args.statistics;
  QUIRE_ASSIGN_OR_RETURN(place.local,
                         LoadLocalWorker(model, place.client.get(), options, args.device));
  QUIRE_RETURN_IF_ERROR(place.local->NeedsTokenizer("put token ids with quire put --token-ids"));
  QUIRE_RETURN_IF_ERROR(LoadChat(args.chat, model, &*place.local));
  place.target = IngestHere(&*place.local);
  return place;
}

/// Files that the command line names; one without a path for standard input.
StatusOr<FoundFiles> FindFiles(const AddArgs& args, const std::string& input) {
  if (args.reads_input()) {
    QUIRE_RETURN_IF_ERROR(CheckDocumentName({args.options.collection, args.name, 0}));
    return FoundFiles{.files = {{.path = "-", .name = args.name, .bytes = input.size()}}};
  }
  QUIRE_ASSIGN_OR_RETURN(FoundFiles found, FindDocumentFiles(args.paths, args.choice));
  if (args.name.empty()) return found;
  if (found.files.size() != 1) {
    return InvalidArgument("--name names one document, but there are ", found.files.size(),
                           " files");
  }
  QUIRE_RETURN_IF_ERROR(CheckDocumentName({args.options.collection, args.name, 0}));
  found.files.front().name = args.name;
  return found;
}

/// Sources below `folder` that documents of the collection have, and the disk has no more.
StatusOr<std::vector<std::string>> GoneSources(const std::string& folder,
                                               const std::string& collection, Client& client) {
  QUIRE_ASSIGN_OR_RETURN(
      const std::vector<Document> documents,
      ReadDocuments({.collection = collection, .filter = "source~" + FilterValue(folder + "/")},
                    client));
  std::vector<std::string> gone;
  for (const Document& document : documents) {
    std::error_code error;
    const bool is_there = std::filesystem::exists(document.source, error);
    if (!is_there && !error && document.source.starts_with(folder + "/")) {
      gone.push_back(document.source);
    }
  }
  std::ranges::sort(gone);
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  return gone;
}

Status Prune(const FoundFiles& found, const std::string& collection, Client& client,
             AddReport* report) {
  for (const std::string& folder : found.folders) {
    QUIRE_ASSIGN_OR_RETURN(const auto gone, GoneSources(folder, collection, client));
    for (const std::string& source : gone) {
      QUIRE_RETURN_IF_ERROR(client.InvalidateSource(source).status());
      report->pruned.push_back(source);
    }
  }
  return OkStatus();
}

Status RunAdd(const AddArgs& args, const CommandContext& context) {
  AddOptions options = args.options;
  QUIRE_ASSIGN_OR_RETURN(options.tags, ParseTags(args.tags));
  options.jobs = args.jobs.value_or(args.worker ? kJobsOfWorker : 1);
  std::string input;
  if (args.reads_input()) input.assign(std::istreambuf_iterator<char>(std::cin), {});
  QUIRE_ASSIGN_OR_RETURN(const FoundFiles found, FindFiles(args, input));
  if (found.files.empty() && found.refused.empty()) {
    return NotFound("there are no files to add; see --include and --exclude");
  }
  QUIRE_ASSIGN_OR_RETURN(const Place place, FindPlace(args, context));
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StopSignals> stop, StopSignals::Install());
  AddReport report =
      AddFiles(found, input, options, *place.target, [&] { return stop->HasArrived(); });
  if (args.prune && report.ended.ok()) {
    report.ended = Prune(found, options.collection, *place.client, &report);
  }
  return PrintReport(report, context);
}

void AddPlaceOptions(CLI::App& add, const std::shared_ptr<AddArgs>& args) {
  const std::map<std::string, DType> dtypes = {
      {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
  CLI::Option* const model = add.add_option(
      "--model", args->model, "Directory of the model (the bundled one when not given)");
  CLI::Option* const dtype =
      add.add_option("--dtype", args->dtype, "Element type of the pages: f32, f16 or bf16")
          ->transform(CLI::Transformer(dtypes))
          ->default_str("f32");
  AddChatFlags(add, &args->chat);
  AddDeviceFlag(add, &args->device);
  CLI::Option* const statistics = AddStatisticsFlag(add, &args->statistics);
  add.add_option("--worker", args->worker,
                 "Address of a worker that reads the documents, with its own model and store")
      ->excludes(model)
      ->excludes(dtype)
      ->excludes(statistics)
      ->excludes(add.get_option("--chat-template"))
      ->excludes(add.get_option("--no-chat-template"));
  add.add_option("--jobs", args->jobs, "Documents at a time (4 with --worker, else 1)")
      ->check(CLI::Range(1u, kMostJobs));
}

void AddFileOptions(CLI::App& add, const std::shared_ptr<AddArgs>& args) {
  add.add_option("PATH", args->paths,
                 "Files, and folders with all below them; - for standard input")
      ->required();
  add.add_option("--include", args->choice.include,
                 "Shell pattern of files in folders to add, as '*.md'; may be repeated")
      ->expected(1)
      ->take_all();
  add.add_option("--exclude", args->choice.exclude,
                 "Shell pattern of files in folders to leave out; may be repeated")
      ->expected(1)
      ->take_all();
  add.add_option_function<std::string>(
         "--as",
         [args](const std::string& kind) { args->options.reading.as = ParseTextKind(kind); },
         "Kind of every file, instead of by name and content")
      ->check(CLI::IsMember({"text", "markdown", "html"}));
  add.add_flag("--raw", args->options.reading.raw, "Keep Markdown and HTML as they are");
  add.add_flag("--split", args->options.split,
               "Make NAME#1, NAME#2 and so on of a document longer than the model's context");
  add.add_flag("--prune", args->prune, "Invalidate documents of the folders whose files are gone");
}

}  // namespace

void AddDocsAdd(Commands& commands, CLI::App& docs) {
  const auto args = std::make_shared<AddArgs>();
  CLI::App& add = commands.Add(
      {.name = "add",
       .summary = "Make documents of text, Markdown and HTML files",
       .examples =
           "  quire docs add ~/handbook --collection handbook --model DIR --tag team=ops --ttl "
           "30d\n"
           "  quire docs add ~/handbook --include '*.md' --exclude 'drafts/*' --prune\n"
           "  quire docs add ~/handbook --worker 127.0.0.1:7411\n"
           "  curl -s https://example.org | quire docs add - --name example --as html\n"
           "A file below a folder is named by its path, with ':' for '/'. What is stored is not "
           "computed or sent\n"
           "again: the same command goes on after Ctrl-C, and does nothing where nothing has "
           "changed."},
      args, &RunAdd, &docs);
  AddFileOptions(add, args);
  AddPlaceOptions(add, args);
  add.add_option("--collection", args->options.collection, "Collection of the documents")
      ->capture_default_str();
  add.add_option("--name", args->name, "Name of the document (one file only)");
  add.add_option("--tag", args->tags, "KEY=VALUE that the documents get; may be repeated")
      ->expected(1)
      ->take_all();
  AddDurationFlag(add, "--ttl",
                  "How long the documents live (90s, 12h, 7d); as long as their collection says "
                  "when not given",
                  &args->options.ttl_seconds);
  add.parse_complete_callback([args] {
    const bool has_input = std::ranges::find(args->paths, "-") != args->paths.end();
    if (has_input && !args->reads_input()) {
      throw CLI::ValidationError("PATH", "- stands for standard input, and goes alone");
    }
    if (has_input && args->name.empty()) throw CLI::RequiredError("--name of standard input");
  });
}

}  // namespace quire::cli
