// SPDX-License-Identifier: Apache-2.0
//
// quire ask: a question about a stored document, answered by a model in this process, or by a
// worker in another, that recalls from the store only the pages it needs.
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/find_model.h"
#include "client/cli/json_output.h"
#include "client/cli/local_worker.h"
#include "client/cli/remote_worker.h"
#include "client/cli/retrieval_flags.h"
#include "client/cli/table.h"
#include "client/cli/target.h"
#include "common/wire/convert_context.h"

namespace quire::cli {
namespace {

struct AskArgs {
  std::string document;
  std::string collection = "default";
  std::string question;
  std::string prefix = "\nQuestion: ";
  std::string model;
  std::string worker;  ///< Address; empty: answer in this process.
  worker::RetrievalOptions retrieval;
  worker::GenerateParams generate;
};

struct Answer {
  std::string text;
  std::vector<TokenId> tokens;
  Json measures;        ///< What --json adds.
  std::string summary;  ///< The same for people.
};

/// An answer is one line.
std::string FirstLine(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  return text.substr(0, text.find('\n'));
}

double Ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }

/// The engine must make pages of the stored document's kind: its element type, p and g.
StatusOr<worker::EngineOptions> EngineOptionsFor(const DocumentName& document, Client& client) {
  QUIRE_ASSIGN_OR_RETURN(const ContextStat stat, client.Stat(document));
  worker::EngineOptions options;
  options.dtype = stat.context.spec.dtype;
  options.page_tokens = stat.context.spec.page_tokens;
  options.segment_pages = stat.context.spec.segment_pages;
  return options;
}

void Measure(const worker::SequenceStats& stats, Answer* answer) {
  const auto bytes_moved = static_cast<double>(stats.bytes_moved);
  Json& json = answer->measures;
  json["budget_ratio"] = stats.budget_ratio();
  json["moved_ratio"] = Ratio(bytes_moved, static_cast<double>(stats.bytes_full));
  json["tokens_per_s"] = Ratio(static_cast<double>(stats.generated_tokens), stats.seconds_generate);
  json["context_tokens"] = stats.context_tokens;
  json["resident_tokens"] = stats.resident_tokens;
  json["bytes_at_open"] = stats.bytes_at_open;
  json["bytes_digests"] = stats.bytes_digests;
  json["bytes_moved"] = stats.bytes_moved;
  json["bytes_full"] = stats.bytes_full;
  json["recalls"] = stats.recalls;
  json["seconds"] = stats.seconds_open + stats.seconds_append + stats.seconds_generate;
  answer->summary = std::to_string(answer->tokens.size()) + " tokens over a context of " +
                    FormatCount(stats.context_tokens) + ": " +
                    FormatRatio(100 * stats.budget_ratio(), 1) + " % of it resident, " +
                    FormatBytes(stats.bytes_moved) + " recalled instead of " +
                    FormatBytes(stats.bytes_full);
}

StatusOr<Answer> AskHere(const AskArgs& args, const DocumentName& document,
                         const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const worker::EngineOptions options, EngineOptionsFor(document, *client));
  QUIRE_ASSIGN_OR_RETURN(const std::string model, FindModel(args.model));
  QUIRE_ASSIGN_OR_RETURN(const LocalWorker local, LoadLocalWorker(model, client.get(), options));
  const worker::Tokenizer& tokenizer = *local.tokenizer;
  QUIRE_ASSIGN_OR_RETURN(auto sequence,
                         local.engine->OpenSequence(document, {.retrieval = args.retrieval}));
  QUIRE_RETURN_IF_ERROR(sequence->Append(tokenizer.Encode(args.prefix + args.question)));
  worker::GenerateParams params = args.generate;
  params.stop_tokens = tokenizer.Encode("\n");
  params.stop_tokens.push_back(tokenizer.eos_id());
  QUIRE_ASSIGN_OR_RETURN(worker::Generation generation, sequence->Generate(params));
  Answer answer;
  QUIRE_ASSIGN_OR_RETURN(answer.text, tokenizer.Decode(generation.tokens));
  answer.tokens = std::move(generation.tokens);
  Measure(sequence->stats(), &answer);
  return answer;
}

StatusOr<Answer> AskThere(const AskArgs& args, const DocumentName& document,
                          const CommandContext& context) {
  v1::GenerateRequest request;
  wire::DocumentNameToProto(document, request.mutable_document());
  request.set_text(args.prefix + args.question);
  request.set_max_new_tokens(args.generate.max_new_tokens);
  request.set_policy(args.retrieval.policy);
  request.set_budget_tokens(args.retrieval.budget_tokens);
  request.mutable_sampling()->set_temperature(args.generate.temperature);
  request.mutable_sampling()->set_top_p(args.generate.top_p);
  request.mutable_sampling()->set_seed(args.generate.seed);
  const auto timeout = std::chrono::duration<double>(context.options.timeout_seconds);
  QUIRE_ASSIGN_OR_RETURN(
      WorkerAnswer given,
      AskWorker(args.worker, request, std::chrono::duration_cast<Duration>(timeout)));
  Answer answer{.text = std::move(given.text),
                .tokens = std::move(given.tokens),
                .measures = {},
                .summary = {}};
  answer.measures["prompt_tokens"] = given.prompt_tokens;
  answer.measures["bytes_moved"] = given.bytes_moved;
  answer.summary = std::to_string(answer.tokens.size()) + " tokens from the worker at " +
                   args.worker + ", " + FormatBytes(given.bytes_moved) + " recalled";
  return answer;
}

Status RunAsk(const AskArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const DocumentName document,
                         ParseDocumentName(args.document, args.collection));
  QUIRE_ASSIGN_OR_RETURN(const Answer answer, args.worker.empty()
                                                  ? AskHere(args, document, context)
                                                  : AskThere(args, document, context));
  if (!context.options.json) {
    context.out << FirstLine(answer.text) << '\n';
    context.err << answer.summary << " (" << args.retrieval.policy << ")\n";
    return OkStatus();
  }
  Json json = {{"answer", FirstLine(answer.text)},
               {"document", FormatName(document)},
               {"question", args.question},
               {"policy", args.retrieval.policy},
               {"tokens", answer.tokens}};
  json.update(answer.measures);
  PrintJsonLine(context.out, json);
  return OkStatus();
}

void AddGenerateFlags(CLI::App& command, worker::GenerateParams& params) {
  params.max_new_tokens = 32;
  command.add_option("--max-new-tokens", params.max_new_tokens, "Longest answer")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command.add_option("--temperature", params.temperature, "0 takes the likeliest token each time")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command
      .add_option("--top-p", params.top_p,
                  "Sample from the likeliest tokens of this total probability")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  command.add_option("--seed", params.seed, "Of the sampling")->capture_default_str();
}

}  // namespace

void AddAskCommand(Commands& commands) {
  const auto args = std::make_shared<AskArgs>();
  CLI::App& command = commands.Add(
      {.name = "ask",
       .summary = "Ask a question about a stored document",
       .examples = "  quire ask --document report.txt --question 'The code of Maria Vance is'\n"
                   "  quire ask --document report.txt --question '...' --policy full\n"
                   "  quire ask --document report.txt --question '...' --budget 512 --select "
                   "server --json\n"
                   "  quire ask --document report.txt --question '...' --worker 127.0.0.1:7411"},
      [args](const CommandContext& context) { return RunAsk(*args, context); });
  command.add_option("--document", args->document, "[COLLECTION/]NAME[@VERSION]")->required();
  command.add_option("--collection", args->collection, "Collection of a name without one")
      ->capture_default_str();
  command
      .add_option("--question", args->question, "The question, as the model was trained to read it")
      ->required();
  command.add_option("--prefix", args->prefix,
                     "What stands between document and question (a line 'Question: ')");
  auto* model = command.add_option(
      "--model", args->model,
      "Directory of the model that read the document (the bundled one when not given)");
  command
      .add_option("--worker", args->worker,
                  "Address of a worker that answers instead of this process")
      ->excludes(model);
  AddRetrievalFlags(command, args->retrieval);
  AddGenerateFlags(command, args->generate);
}

}  // namespace quire::cli
