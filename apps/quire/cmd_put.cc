// SPDX-License-Identifier: Apache-2.0
//
// quire put: a model reads text files, and their KV pages become documents of the store.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "apps/kit/document_route.h"
#include "apps/kit/duration_flag.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/read_file.h"
#include "apps/kit/target.h"
#include "apps/kit/token_ids.h"
#include "apps/kit/worker/chat_flags.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/local_worker.h"
#include "apps/quire/commands.h"
#include "common/base/trace/span.h"
#include "common/base/utf8.h"

namespace quire::cli {
namespace {

struct PutArgs {
  std::vector<std::string> files;
  std::string token_ids;  ///< In place of files.
  std::string collection = "default";
  std::string name;
  std::optional<uint64_t> ttl_seconds;
  std::string model;
  ChatFlags chat;
  DType dtype = DType::kF32;
  bool representatives = false;
  bool statistics = true;
  Hints hints;
  std::optional<uint64_t> keep_seconds;
};

struct Reading {
  std::string file;
  DocumentName name;
  std::vector<TokenId> tokens;
};

Status CheckLength(const Reading& reading, const worker::Engine& engine) {
  const size_t limit = engine.model().max_positions;
  if (reading.tokens.size() <= limit) return OkStatus();
  return InvalidArgument(reading.file, " has ", reading.tokens.size(),
                         " tokens, but the model's context is ", limit, "; split the file");
}

/// Names of the documents, in the order of the files.
std::vector<DocumentName> NamesOf(const PutArgs& args) {
  if (!args.token_ids.empty()) return {DocumentName{args.collection, args.name, 0}};
  std::vector<DocumentName> names;
  for (const std::string& file : args.files) {
    const std::string name =
        args.name.empty() ? std::filesystem::path(file).filename().string() : args.name;
    names.push_back({args.collection, name, 0});
  }
  return names;
}

StatusOr<std::vector<Reading>> ReadIds(const PutArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, ReadTokenIds(args.token_ids));
  return std::vector<Reading>{{"--token-ids", NamesOf(args).front(), std::move(tokens)}};
}

/// Says of a file that is not text what becomes of it.
void NoteBytes(const std::string& file, std::string_view text, std::ostream& err) {
  const auto wrong = FirstInvalidUtf8(text);
  if (!wrong) return;
  err << "note: " << file << " is not UTF-8 at byte " << *wrong
      << "; every byte is read as it is, and answers show U+FFFD for bytes that are no character\n";
}

StatusOr<std::vector<Reading>> ReadFiles(const PutArgs& args, const LocalWorker& local,
                                         std::ostream& err) {
  QUIRE_RETURN_IF_ERROR(
      local.NeedsTokenizer("give the document as token ids with --token-ids and --name"));
  std::vector<Reading> readings;
  const std::vector<DocumentName> names = NamesOf(args);
  for (size_t i = 0; i < args.files.size(); ++i) {
    const std::string& file = args.files[i];
    QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadDocumentFile(file));
    NoteBytes(file, text, err);
    auto tokens = local.DocumentTokens(text);
    if (!tokens.ok()) return Annotate(tokens.status(), file);
    readings.push_back({file, names[i], *std::move(tokens)});
  }
  return readings;
}

/// Reads and tokenizes everything before the first is stored, so that a wrong name costs nothing.
StatusOr<std::vector<Reading>> ReadAll(const PutArgs& args, const LocalWorker& local,
                                       std::ostream& err) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<Reading> readings,
                         args.token_ids.empty() ? ReadFiles(args, local, err) : ReadIds(args));
  for (const Reading& reading : readings) {
    QUIRE_RETURN_IF_ERROR(Annotate(CheckDocumentName(reading.name), reading.file));
    QUIRE_RETURN_IF_ERROR(CheckLength(reading, *local.engine));
  }
  return readings;
}

StatusOr<std::vector<worker::IngestResult>> IngestAll(const std::vector<Reading>& readings,
                                                      std::optional<uint64_t> ttl_seconds,
                                                      const Hints& hints,
                                                      const worker::Engine& engine) {
  uint64_t total = 0;
  for (const Reading& reading : readings) total += reading.tokens.size();
  ProgressBar progress("reading tokens", total);
  std::vector<worker::IngestResult> results;
  for (const Reading& reading : readings) {
    uint64_t shown = 0;
    const auto observer = [&](const worker::IngestProgress& now) {
      progress.Advance(now.done_tokens - shown, reading.file);
      shown = now.done_tokens;
      return true;
    };
    auto result = Traced("ingest", [&] {
      return engine.Ingest(reading.tokens, reading.name, observer, {.ttl_seconds = ttl_seconds},
                           hints);
    });
    if (!result.ok()) return Annotate(result.status(), reading.file);
    results.push_back(*std::move(result));
  }
  return results;
}

void Warn(const worker::IngestResult& result, std::ostream& err) {
  const auto warn = [&](std::string_view what, const Status& why) {
    if (why.ok()) return;
    err << "warning: " << FormatName(result.document.name) << ": " << what << ": " << Message(why)
        << '\n';
  };
  warn("not all pages have representatives, those without are scored by their means",
       result.representatives);
  warn("statistics are not stored, the first question by samkv computes them", result.statistics);
}

void PrintResults(const std::vector<worker::IngestResult>& results, const CommandContext& context) {
  Json json = {{"documents", Json::array()}};
  Table table({{"DOCUMENT"},
               {"TOKENS", Table::kRight},
               {"REUSED", Table::kRight},
               {"SENT", Table::kRight},
               {"TIME", Table::kRight}});
  for (const worker::IngestResult& result : results) {
    Warn(result, context.err);
    Json document = ToJson(result.document);
    document["reused_tokens"] = result.reused_tokens;
    document["bytes_sent"] = result.bytes_sent;
    document["seconds"] = result.seconds;
    json["documents"].push_back(std::move(document));
    const auto time = std::chrono::duration<double>(result.seconds);
    table.AddRow({FormatName(result.document.name), FormatCount(result.document.num_tokens),
                  FormatCount(result.reused_tokens), FormatBytes(result.bytes_sent),
                  FormatDuration(std::chrono::duration_cast<Duration>(time))});
  }
  if (context.options.json) {
    PrintJsonLine(context.out, json);
  } else {
    table.Print(context.out);
  }
}

Status RunPut(const PutArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ConnectForPuts(context));
  QUIRE_RETURN_IF_ERROR(client->Stats().status());  // Before a long prefill: is the server there?
  QUIRE_ASSIGN_OR_RETURN(const std::string model, FindModel(args.model));
  worker::EngineOptions options;
  options.dtype = args.dtype;
  options.representatives = args.representatives;
  options.statistics = args.statistics;
  QUIRE_ASSIGN_OR_RETURN(LocalWorker local, Traced("load_model", [&] {
                           return LoadLocalWorker(model, client.get(), options);
                         }));
  QUIRE_RETURN_IF_ERROR(LoadChat(args.chat, model, &local));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Reading> readings, ReadAll(args, local, context.err));
  Hints hints = args.hints;
  hints.keep_seconds = args.keep_seconds.value_or(0);
  QUIRE_ASSIGN_OR_RETURN(const auto results,
                         IngestAll(readings, args.ttl_seconds, hints, *local.engine));
  PrintResults(results, context);
  return OkStatus();
}

/// Flags of what is known of the pages' future.
void AddHintFlags(CLI::App& command, PutArgs* args) {
  const std::map<std::string, KeepPriority> priorities = {{"low", KeepPriority::kLow},
                                                          {"normal", KeepPriority::kNormal},
                                                          {"high", KeepPriority::kHigh}};
  command
      .add_option("--priority", args->hints.priority,
                  "When the pages leave a tier that needs room: low (early), normal or high (late)")
      ->transform(CLI::CheckedTransformer(priorities).description("low|normal|high"))
      ->default_str("normal");
  AddDurationFlag(command, "--keep",
                  "How long the pages leave after all others from now on (90s, 10m), at most 30d",
                  &args->keep_seconds);
  command.add_option("--conversation", args->hints.conversation,
                     "The agent or user whose turns use the pages: see quire conversation");
}

}  // namespace

void AddPutCommand(Commands& commands) {
  const auto args = std::make_shared<PutArgs>();
  CLI::App& command = commands.Add(
      {.name = "put",
       .summary = "Read text files with a model and store their KV pages as documents",
       .examples =
           "  quire put models/recall-small/documents/dossier-01.txt\n"
           "  quire put models/recall-small/documents/*.txt --collection dossiers\n"
           "  quire put *.txt --server 10.0.0.3:7410,10.0.0.4:7410   each to a node of its own\n"
           "  quire put draft.txt --name report.txt   a new "
           "version of report.txt\n"
           "  quire put draft.txt --ttl 7d   deleted a week from now\n"
           "  quire put turn.txt --conversation agent-7 --keep 10m   leaves DRAM last for ten "
           "minutes\n"
           "  quire put draft.txt --representatives   to be asked with --policy infllm\n"
           "  quire put draft.txt --model DIR --no-chat-template   not as a user's message\n"
           "  quire put --token-ids @ids.txt --name ids --model DIR\n"
           "Each file becomes a document under its file name; putting it again makes a new "
           "version, and what\n"
           "is stored already is not computed or sent again. Files need not be UTF-8: the "
           "bundled model reads\n"
           "any byte as a token of its own."},
      args, &RunPut);
  const std::map<std::string, DType> dtypes = {
      {"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
  CLI::Option* const files = command.add_option("FILE", args->files, "Text files");
  CLI::Option* const ids =
      command
          .add_option("--token-ids", args->token_ids,
                      "In place of files: the document as token ids, or @FILE with them, for a "
                      "model without a tokenizer; needs --name")
          ->type_name("IDS")
          ->excludes(files);
  command.add_option("--model", args->model,
                     "Directory of the model: config.json, *.safetensors and, to read text, "
                     "tokenizer.json (the bundled one when not given)");
  AddChatFlags(command, &args->chat);
  command
      .add_option("--collection", args->collection,
                  "Collection of the documents, whose codec they are stored with")
      ->capture_default_str();
  AddDurationFlag(
      command, "--ttl",
      "How long the documents live (90s, 12h, 7d); as long as their collection says when "
      "not given",
      &args->ttl_seconds);
  command.add_option("--name", args->name, "Name of the document (one only)");
  command.add_option("--dtype", args->dtype, "Element type of the pages: f32, f16 or bf16")
      ->transform(CLI::Transformer(dtypes))
      ->default_str("f32");
  command.add_flag("--representatives", args->representatives,
                   "Also find which tokens represent the pages, and store that with them: what the "
                   "policy infllm scores pages by. Takes longer; pages that are stored already "
                   "keep what they have");
  AddStatisticsFlag(command, &args->statistics);
  AddHintFlags(command, args.get());
  command.parse_complete_callback([args, files, ids] {
    if (files->empty() && ids->empty()) throw CLI::RequiredError("FILE or --token-ids");
    if (!ids->empty() && args->name.empty()) throw CLI::RequiredError("--name of the token ids");
    if (!args->name.empty() && args->files.size() > 1) {
      throw CLI::ValidationError("--name", "names one document, but there are several files");
    }
  });
}

}  // namespace quire::cli
