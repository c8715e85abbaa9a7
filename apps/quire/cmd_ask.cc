// SPDX-License-Identifier: Apache-2.0
//
// quire ask: a question about a stored document, answered by a model in this process or by a
// worker. The model recalls only the pages that it needs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "apps/kit/document_route.h"
#include "apps/kit/output/answer_line.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/moved_json.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/read_file.h"
#include "apps/kit/target.h"
#include "apps/kit/token_ids.h"
#include "apps/kit/worker/chat_flags.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/local_worker.h"
#include "apps/kit/worker/remote_worker.h"
#include "apps/kit/worker/retrieval_flags.h"
#include "apps/quire/ask_documents.h"
#include "apps/quire/commands.h"
#include "common/base/trace/span.h"
#include "common/wire/convert_context.h"
#include "gpuworker/service/documents_call.h"
#include "gpuworker/text/chat/chat_prompt.h"
#include "gpuworker/text/text_stream.h"

namespace quire::cli {
namespace {

/// Tokens of the question between two looks at the progress bar.
constexpr size_t kPromptPartTokens = 64;

struct AskArgs {
  std::string document;
  DocumentsFlags several;  ///< In place of one document.
  std::string collection = "default";
  std::string question;
  std::string token_ids;  ///< In place of the question; the answer is token ids then, too.
  std::string stop_ids;
  std::optional<std::string> prefix;  ///< Text before the question.
  std::string text_file;
  std::string model;
  ChatFlags chat;
  std::optional<std::string> worker;  ///< Address; without: answer in this process.
  std::string transport = "auto";
  uint64_t host_cache_bytes = 0;
  uint32_t question_chunk_tokens = kQuestionChunkTokens;
  RetrievalFlags retrieval;
  HeadChoice head;
  worker::GenerateParams generate;

  bool by_ids() const { return !token_ids.empty(); }
  /// The question as a model without a chat template reads it.
  std::string PlainQuestion() const { return prefix.value_or("\nQuestion: ") + question; }
  /// The question as the end of a user's message.
  std::string ChatQuestion() const { return prefix.value_or("") + question; }
};

struct Answer {
  Json document;  ///< Name of the document that was asked about, or a list of several.
  std::vector<TokenId> tokens;
  Json measures;        ///< Keys that --json adds.
  std::string summary;  ///< The measures in words.
};

/// The answer as it comes: on a terminal its words, otherwise a progress bar.
class AnswerView {
 public:
  /// Shows words on `live`; null for the bar.
  explicit AnswerView(std::ostream* live) : line_(live) {
    if (live == nullptr) progress_.emplace("answering", 0);
  }
  /// Says that the answer is one of a chat model, which may have several lines.
  void InChat() { line_.KeepLines(); }
  void Add(const std::string& piece) {
    line_.Add(piece);
    if (progress_) progress_->Advance();
  }
  /// Ends the progress.
  const std::string& Finish() {
    progress_.reset();
    return line_.text();
  }

 private:
  AnswerLine line_;
  std::optional<ProgressBar> progress_;
};

/// The piece of the answer that one token adds: the text that it completes, or its id in an answer
/// by ids. The end of the text may come without a token.
std::string Piece(const AskArgs& args, std::optional<TokenId> token, std::string text) {
  if (!args.by_ids()) return text;
  return token ? " " + std::to_string(*token) : "";
}

/// Options of an engine whose pages are those of `spec`.
worker::EngineOptions EngineFor(const KvSpec& spec) {
  worker::EngineOptions options;
  options.dtype = spec.dtype;
  options.page_tokens = spec.page_tokens;
  options.segment_pages = spec.segment_pages;
  return options;
}

/// The document that is asked about, and the options of an engine for it.
struct Asked {
  DocumentName document;
  worker::EngineOptions options;
};

/// Finds the document and the options of its engine. The engine must make pages of the stored
/// document's kind: its element type, p and g. A document that is lost has none: a caller that has
/// its text (`may_be_lost`) goes on with the usual ones.
StatusOr<Asked> FindDocument(const Readings<DocumentName>& names, Client& client,
                             bool may_be_lost) {
  DocumentName document = names.first;
  const auto stat = FirstFound(names, [&](const DocumentName& name) {
    auto found = client.Stat(name);
    if (found.ok()) document = name;
    return found;
  });
  worker::EngineOptions options;
  if (!stat.ok()) {
    const bool lost =
        IsNotFound(stat.status()) || IsUnavailable(stat.status()) || IsDataLoss(stat.status());
    if (lost && may_be_lost) return Asked{document, options};
    return stat.status();
  }
  return Asked{document, EngineFor(stat->context.spec)};
}

std::string Fetched(const worker::MovedBytes& moved) {
  const std::string bytes = FormatBytes(moved.total()) + " fetched";
  return moved.full == 0 ? bytes : bytes + " instead of " + FormatBytes(moved.full);
}

void Measure(const worker::SequenceStats& stats, Answer* answer) {
  Json& json = answer->measures;
  json["budget_ratio"] = stats.budget_ratio();
  AddMoved(stats.moved, &json);
  json["tokens_per_s"] = stats.seconds_generate > 0
                             ? static_cast<double>(stats.generated_tokens) / stats.seconds_generate
                             : 0;
  json["context_tokens"] = stats.context_tokens;
  json["resident_tokens"] = stats.resident_tokens;
  json["recalls"] = stats.recalls;
  json["units_recalled"] = stats.units_missed;
  json["units_landed"] = stats.units_landed;
  json["units_from_host"] = stats.units_from_host;
  json["late_recalls"] = stats.late_recalls;
  json["late_corrections"] = stats.late_corrections;
  json["recomputed_here"] = stats.local;
  json["seconds"] = stats.seconds_open + stats.seconds_append + stats.seconds_generate;
  answer->summary =
      std::to_string(answer->tokens.size()) + " tokens over a context of " +
      FormatCount(stats.context_tokens) + ": " + FormatRatio(100 * stats.budget_ratio(), 1) +
      " % of it resident, " + Fetched(stats.moved) +
      (stats.local ? "; the store was lost and the document was computed again here" : "");
}

StatusOr<std::vector<TokenId>> Prompt(const AskArgs& args, const LocalWorker& local) {
  if (args.by_ids()) return ReadTokenIds(args.token_ids);
  QUIRE_RETURN_IF_ERROR(local.NeedsTokenizer("give the question as token ids with --token-ids"));
  if (!local.chat) return local.tokenizer->Encode(args.PlainQuestion());
  return worker::QuestionInChat(*local.chat, *local.tokenizer, {{"user", args.ChatQuestion()}});
}

/// Returns the given tokens. Adds the ends of the sequence for an answer in words, and the end of
/// the line outside of a chat template.
StatusOr<std::vector<TokenId>> StopTokens(const AskArgs& args, const LocalWorker& local) {
  std::vector<TokenId> stop;
  if (!args.stop_ids.empty()) {
    QUIRE_ASSIGN_OR_RETURN(stop, ReadTokenIds(args.stop_ids));
  }
  if (args.by_ids()) return stop;
  std::ranges::copy(local.tokenizer->ends(), std::back_inserter(stop));
  if (local.chat) return stop;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> end_of_line, local.tokenizer->Encode("\n"));
  if (end_of_line.size() == 1) stop.push_back(end_of_line.front());
  return stop;
}

/// Token ids of the document when its text was given.
StatusOr<std::vector<TokenId>> TextAtHand(const AskArgs& args, const LocalWorker& local) {
  if (args.text_file.empty()) return std::vector<TokenId>{};
  QUIRE_RETURN_IF_ERROR(local.NeedsTokenizer("leave --text away"));
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadDocumentFile(args.text_file));
  return local.DocumentTokens(text);
}

Status AppendPrompt(const AskArgs& args, std::span<const TokenId> prompt,
                    worker::Sequence* sequence) {
  QUIRE_RETURN_IF_ERROR(sequence->CheckRoom(prompt.size()));
  ProgressBar progress("reading the question", prompt.size());
  const size_t chunk = args.question_chunk_tokens;
  const size_t part = chunk > 0 && prompt.size() >= chunk ? prompt.size() : kPromptPartTokens;
  for (size_t at = 0; at < prompt.size(); at += part) {
    const size_t count = std::min(part, prompt.size() - at);
    QUIRE_RETURN_IF_ERROR(sequence->Append(prompt.subspan(at, count)));
    progress.Advance(count);
  }
  return OkStatus();
}

/// Shows generated tokens in an answer's view.
class ShownTokens {
 public:
  ShownTokens(const AskArgs& args, const LocalWorker& local, AnswerView* view)
      : args_(args), view_(view) {
    if (args.by_ids()) return;
    words_.emplace(*local.tokenizer);
    if (local.chat) view->InChat();
  }
  /// False when the token has no text.
  bool Add(TokenId token) {
    StatusOr<std::string> text = std::string();
    if (words_) text = words_->Add(token);
    status_ = text.status();
    if (!text.ok()) return false;
    view_->Add(Piece(args_, token, *std::move(text)));
    return true;
  }
  /// Shows the end of the text. The error of a token without text.
  Status Finish() {
    QUIRE_RETURN_IF_ERROR(status_);
    if (words_) view_->Add(words_->Finish());
    return OkStatus();
  }

 private:
  const AskArgs& args_;
  AnswerView* const view_;
  std::optional<worker::TextStream> words_;
  Status status_;
};

/// Loads the model for documents that are stored with `options`.
StatusOr<LocalWorker> LoadAsked(const AskArgs& args, const worker::EngineOptions& options,
                                Client* client) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, FindModel(args.model));
  QUIRE_ASSIGN_OR_RETURN(LocalWorker local,
                         LoadLocalWorker(model, client, options, "cpu", args.head));
  QUIRE_RETURN_IF_ERROR(LoadChat(args.chat, model, &local));
  return local;
}

StatusOr<Answer> AskHere(const AskArgs& args, const Readings<DocumentName>& names,
                         const CommandContext& context, AnswerView* view) {
  const auto connect = [&](const DocumentName& name) {
    return ConnectToHolder(context, std::span(&name, 1), args.transport);
  };
  QUIRE_ASSIGN_OR_RETURN(const SessionClient connected,
                         Traced("connect", [&] { return FirstFound(names, connect); }));
  Client* const client = connected.client.get();
  QUIRE_ASSIGN_OR_RETURN(Asked asked, FindDocument(names, *client, !args.text_file.empty()));
  worker::EngineOptions& options = asked.options;
  options.host_cache_bytes = args.host_cache_bytes;
  options.question_chunk_tokens = args.question_chunk_tokens;
  QUIRE_ASSIGN_OR_RETURN(const LocalWorker local,
                         Traced("load_model", [&] { return LoadAsked(args, options, client); }));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, Prompt(args, local));
  worker::GenerateParams params = args.generate;
  QUIRE_ASSIGN_OR_RETURN(params.stop_tokens, StopTokens(args, local));
  worker::SequenceOptions sequence_options;
  QUIRE_ASSIGN_OR_RETURN(sequence_options.retrieval,
                         args.retrieval.OptionsOfPolicy(options.page_tokens));
  QUIRE_ASSIGN_OR_RETURN(sequence_options.document_tokens, TextAtHand(args, local));
  ProgressBar recompute("reading the lost document", sequence_options.document_tokens.size());
  sequence_options.recompute_observer = [&](uint64_t tokens) { recompute.Advance(tokens); };
  QUIRE_ASSIGN_OR_RETURN(const auto sequence, Traced("open", [&] {
                           return local.engine->OpenSequence(asked.document, sequence_options);
                         }));
  QUIRE_RETURN_IF_ERROR(
      Traced("prompt", [&] { return AppendPrompt(args, prompt, sequence.get()); }));
  ShownTokens shown(args, local, view);
  params.on_token = [&](TokenId token) { return shown.Add(token); };
  QUIRE_ASSIGN_OR_RETURN(worker::Generation generation,
                         Traced("generate", [&] { return sequence->Generate(params); }));
  QUIRE_RETURN_IF_ERROR(shown.Finish());
  Answer answer{.document = FormatName(asked.document),
                .tokens = std::move(generation.tokens),
                .measures = {},
                .summary = {}};
  answer.measures["policy"] = sequence_options.retrieval->policy;
  Measure(sequence->stats(), &answer);
  answer.measures["transport"] = connected.path.name;
  if (connected.counts) answer.measures["cluster"] = connected.counts().ToJson();
  answer.summary += ", over " + connected.path.summary;
  return answer;
}

Answer AnswerOver(const Names& names, std::vector<TokenId> tokens, const worker::ReuseStats& stats,
                  worker::ReuseMethod method) {
  Answer answer{.document = Json::array(),
                .tokens = std::move(tokens),
                .measures = Measures(stats, method),
                .summary = Summary(stats, method)};
  for (const DocumentName& name : names) answer.document.push_back(FormatName(name));
  return answer;
}

StatusOr<Answer> AskSeveralHere(const AskArgs& args, const Names& names,
                                const CommandContext& context, AnswerView* view) {
  QUIRE_ASSIGN_OR_RETURN(worker::ReuseOptions options, args.several.Options());
  QUIRE_ASSIGN_OR_RETURN(const SessionClient connected, ConnectToStore(context, args.transport));
  Client* const client = connected.client.get();
  QUIRE_ASSIGN_OR_RETURN(const StoredIn stored, FirstStored(names, *client));
  QUIRE_ASSIGN_OR_RETURN(const LocalWorker local, Traced("load_model", [&] {
                           return LoadAsked(args, EngineFor(stored.spec), client);
                         }));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, Prompt(args, local));
  worker::GenerateParams params = args.generate;
  QUIRE_ASSIGN_OR_RETURN(params.stop_tokens, StopTokens(args, local));
  ShownTokens shown(args, local, view);
  params.on_token = [&](TokenId token) { return shown.Add(token); };
  options.bos = worker::BeginningToken(local.text());
  options.max_new_tokens = params.max_new_tokens;
  QUIRE_ASSIGN_OR_RETURN(options.retrieval,
                         args.retrieval.OptionsOfPolicy(local.engine->options().page_tokens));
  QUIRE_ASSIGN_OR_RETURN(const auto run, Traced("prompt", [&] {
                           return local.engine->OpenReuse(names, prompt, options);
                         }));
  QUIRE_ASSIGN_OR_RETURN(worker::Generation generation,
                         Traced("generate", [&] { return run->Generate(params); }));
  QUIRE_RETURN_IF_ERROR(shown.Finish());
  run->KeepVariants();
  Answer answer = AnswerOver(names, std::move(generation.tokens), run->stats(), options.method);
  answer.summary += ", over " + connected.path.summary;
  answer.measures["transport"] = TransportName(connected);
  if (connected.counts) answer.measures["cluster"] = connected.counts().ToJson();
  answer.measures["policy"] = options.retrieval->policy;
  return answer;
}

/// Only what was given travels; the worker has defaults of its own for the rest.
void SetRetrieval(const RetrievalFlags& flags, v1::GenerateRequest* request) {
  if (flags.policy) request->set_policy(*flags.policy);
  request->set_published_options(flags.published);
  if (flags.budget_tokens) request->set_budget_tokens(*flags.budget_tokens);
  if (flags.sink_tokens) request->set_sink_tokens(*flags.sink_tokens);
  if (flags.window_tokens) request->set_window_tokens(*flags.window_tokens);
  if (flags.uncompressed_layers) {
    request->mutable_uncompressed_layers()->mutable_layers()->Assign(
        flags.uncompressed_layers->begin(), flags.uncompressed_layers->end());
  }
  if (flags.correction_threshold) request->set_correction_threshold(*flags.correction_threshold);
  if (const auto micros = flags.RecallDeadlineMicros()) request->set_recall_deadline_us(*micros);
  if (flags.units_per_buffer) request->set_units_per_buffer(*flags.units_per_buffer);
  if (flags.key_rank) request->set_key_rank(*flags.key_rank);
  if (flags.side) {
    request->set_select(*flags.side == worker::SelectionSide::kServer ? v1::SELECTION_SIDE_SERVER
                                                                      : v1::SELECTION_SIDE_WORKER);
  }
}

/// The worker knows whether its model has a chat template.
void SetQuestion(const AskArgs& args, v1::GenerateRequest* request) {
  request->add_stop_texts("\n");
  if (args.chat.plain) {
    request->set_text(args.PlainQuestion());
    return;
  }
  v1::ChatMessage* const message = request->mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content(args.ChatQuestion());
  request->mutable_chat()->set_without_template(args.PlainQuestion());
}

/// All but what the question is about.
StatusOr<v1::GenerateRequest> MakeRequest(const AskArgs& args, const CommandContext& context) {
  v1::GenerateRequest request;
  if (args.by_ids()) {
    QUIRE_ASSIGN_OR_RETURN(const auto ids, ReadTokenIds(args.token_ids));
    request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  } else {
    SetQuestion(args, &request);
  }
  if (!args.stop_ids.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const auto stop, ReadTokenIds(args.stop_ids));
    request.mutable_stop_token_ids()->Assign(stop.begin(), stop.end());
  }
  SetRetrieval(args.retrieval, &request);
  request.set_tenant(context.options.tenant.value_or(""));
  request.set_max_new_tokens(args.generate.max_new_tokens);
  request.mutable_sampling()->set_temperature(args.generate.temperature);
  request.mutable_sampling()->set_top_p(args.generate.top_p);
  request.mutable_sampling()->set_seed(args.generate.seed);
  return request;
}

StatusOr<WorkerAnswer> Ask(const AskArgs& args, const v1::GenerateRequest& request,
                           const CommandContext& context, AnswerView* view) {
  if (request.has_chat()) view->InChat();
  QUIRE_ASSIGN_OR_RETURN(const BearerToken token, context.Token());
  const TimePoint now = SystemClock().Now();
  const TimePoint limit = std::min(context.options.limit(), now + context.options.call_timeout());
  return AskWorker(*args.worker, request,
                   {.timeout = limit - now,
                    .unreachable_for = context.options.unreachable_for(),
                    .token = token,
                    .on_token = [&](std::optional<TokenId> id, const std::string& text) {
                      view->Add(Piece(args, id, text));
                    }});
}

StatusOr<Answer> AskThere(const AskArgs& args, const Readings<DocumentName>& names,
                          const CommandContext& context, AnswerView* view) {
  QUIRE_ASSIGN_OR_RETURN(v1::GenerateRequest request, MakeRequest(args, context));
  DocumentName document;
  QUIRE_ASSIGN_OR_RETURN(WorkerAnswer given, FirstFound(names, [&](const DocumentName& name) {
                           document = name;
                           wire::DocumentNameToProto(name, request.mutable_document());
                           return Ask(args, request, context, view);
                         }));
  Answer answer{.document = FormatName(document),
                .tokens = std::move(given.tokens),
                .measures = {},
                .summary = {}};
  answer.measures["policy"] = given.policy;
  answer.measures["budget_ratio"] = given.budget_ratio;
  AddMoved(given.moved, &answer.measures);
  answer.measures["prompt_tokens"] = given.prompt_tokens;
  answer.measures["units_recalled"] = given.units_recalled;
  answer.measures["units_landed"] = given.units_landed;
  answer.measures["units_from_host"] = given.units_from_host;
  answer.summary = std::to_string(answer.tokens.size()) + " tokens from the worker at " +
                   *args.worker + ", " + Fetched(given.moved);
  return answer;
}

StatusOr<Answer> AskSeveralThere(const AskArgs& args, const Names& names,
                                 const CommandContext& context, AnswerView* view) {
  QUIRE_ASSIGN_OR_RETURN(const worker::ReuseOptions options, args.several.Options());
  QUIRE_ASSIGN_OR_RETURN(v1::GenerateRequest request, MakeRequest(args, context));
  worker::DocumentsToProto(names, options, request.mutable_documents());
  QUIRE_ASSIGN_OR_RETURN(WorkerAnswer given, Ask(args, request, context, view));
  QUIRE_ASSIGN_OR_RETURN(worker::ReuseStats stats, worker::TotalsFromProto(given.documents));
  stats.attended_ratio = given.budget_ratio;
  Answer answer = AnswerOver(names, std::move(given.tokens), stats, options.method);
  answer.summary += ", from the worker at " + *args.worker;
  answer.measures["policy"] = given.policy;
  return answer;
}

StatusOr<Answer> AskSeveral(const AskArgs& args, const CommandContext& context, AnswerView* view) {
  QUIRE_ASSIGN_OR_RETURN(const Readings<Names> names,
                         ParseNames(args.several.documents, args.collection));
  return FirstFound(names, [&](const Names& reading) -> StatusOr<Answer> {
    if (args.worker) return AskSeveralThere(args, reading, context, view);
    return AskSeveralHere(args, reading, context, view);
  });
}

StatusOr<Answer> AskAny(const AskArgs& args, const CommandContext& context, AnswerView* view) {
  if (!args.several.documents.empty()) return AskSeveral(args, context, view);
  QUIRE_ASSIGN_OR_RETURN(const Readings<DocumentName> names,
                         ParseDocumentName(args.document, args.collection));
  auto answer =
      args.worker ? AskThere(args, names, context, view) : AskHere(args, names, context, view);
  if (answer.ok()) {
    answer->summary += " (" + answer->measures["policy"].get<std::string>() + ")";
  }
  return answer;
}

Status RunAsk(const AskArgs& args, const CommandContext& context) {
  QUIRE_RETURN_IF_ERROR(CheckHostMemory({.cache = args.host_cache_bytes}, ReadMemoryLimit()));
  QUIRE_RETURN_IF_ERROR(CheckIsText("--question", args.question));
  QUIRE_RETURN_IF_ERROR(CheckIsText("--prefix", args.prefix.value_or("")));
  const bool live = context.out_is_terminal && !context.options.json;
  AnswerView view(live ? &context.out : nullptr);
  const auto answer = AskAny(args, context, &view);
  const std::string& shown = view.Finish();
  if (live && !shown.empty()) context.out << '\n';
  QUIRE_RETURN_IF_ERROR(answer.status());
  if (!context.options.json) {
    if (!live) context.out << shown << '\n';
    context.err << answer->summary << '\n';
    return OkStatus();
  }
  Json json = {{"answer", shown}, {"document", answer->document}};
  if (!args.by_ids()) json["question"] = args.question;
  json["tokens"] = answer->tokens;
  json.update(answer->measures);
  PrintJsonLine(context.out, json);
  return OkStatus();
}

void AddGenerateFlags(CLI::App& command, worker::GenerateParams& params) {
  params.max_new_tokens = 32;
  command.add_option("--max-new-tokens", params.max_new_tokens, "Longest answer")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  CLI::Option* const temperature =
      command
          .add_option("--temperature", params.temperature, "0 takes the likeliest token each time")
          ->check(CLI::Range(0.0, 100.0))
          ->capture_default_str();
  command
      .add_option("--top-p", params.top_p,
                  "Sample from the likeliest tokens of this total probability; needs --temperature")
      ->needs(temperature)
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  command.add_option("--seed", params.seed, "Of the sampling")->capture_default_str();
}

void AddPromptFlags(Commands& commands, CLI::App& command, AskArgs& args) {
  CLI::Option* const question = command.add_option(
      "--question", args.question, "The question, as the model was trained to read it");
  CLI::Option* const positional =
      command.add_option("question", args.question, "The question, in place of --question")
          ->type_name("QUESTION")
          ->excludes(question);
  CLI::Option* const ids =
      command
          .add_option("--token-ids", args.token_ids,
                      "The question as token ids, or @FILE with them; the answer is token ids then")
          ->type_name("IDS")
          ->excludes(question)
          ->excludes(positional);
  commands.MayBeEmpty(
      command
          .add_option(
              "--prefix", args.prefix,
              "What stands between document and question; may be empty. When not given: a line "
              "'Question: ', or nothing in a chat template")
          ->excludes(ids));
  command
      .add_option(
          "--stop-ids", args.stop_ids,
          "Token ids that end the answer, besides the line end of one in words without a chat "
          "template")
      ->type_name("IDS");
  command.parse_complete_callback([&command, question, positional, ids] {
    if (question->empty() && positional->empty() && ids->empty()) {
      throw CLI::RequiredError("--question or --token-ids");
    }
    if (command.get_option("--document")->empty() && command.get_option("--docs")->empty()) {
      throw CLI::RequiredError("--document or --docs");
    }
  });
}

}  // namespace

void AddAskCommand(Commands& commands) {
  const auto args = std::make_shared<AskArgs>();
  CLI::App& command = commands.Add(
      {.name = "ask",
       .summary = "Ask a question about a stored document",
       .examples =
           "  quire ask --document dossier-01.txt --question 'Hector Nash has instrument'\n"
           "  quire ask --document dossier-01.txt --question 'Hector Nash has office' --policy "
           "full\n"
           "  quire ask --document dossier-01.txt --question 'Hector Nash has office' --budget "
           "512 --select server --json\n"
           "  quire ask --document dossier-01.txt --question 'Hector Nash has office' --policy "
           "freekv --tau 0.9 --recall-deadline-ms 5\n"
           "  quire ask --document dossier-01.txt --question 'Hector Nash has office' --worker "
           "127.0.0.1:7411\n"
           "  quire ask --document dossier-01.txt --question 'Hector Nash has office' --policy "
           "specontext --draft DIR\n"
           "  quire ask --document ids --token-ids 5,8,13 --model DIR\n"
           "  quire ask --docs dossier-01.txt,dossier-02.txt --method cacheblend "
           "'Hector Nash has office'\n"
           "  quire ask --docs a.txt,b.txt 'Who?' --server 10.0.0.3:7410,10.0.0.4:7410   documents "
           "of several nodes\n"
           "The first six ask about a document of the bundled model: quire put "
           "models/recall-small/documents/dossier-01.txt\n"
           "A worker uses its own store and model, and its own defaults for what is not given "
           "here."},
      args, &RunAsk);
  CLI::Option* const document =
      command.add_option("--document", args->document, "[COLLECTION/]NAME[@VERSION]");
  AddDocumentsFlags(command, args->several);
  command.get_option("--docs")->excludes(document);
  command.add_option("--collection", args->collection, "Collection of a name without one")
      ->capture_default_str();
  AddPromptFlags(commands, command, *args);
  CLI::Option* const text = command.add_option(
      "--text", args->text_file,
      "File with the document's text: if the store has lost it, it is read again from here");
  CLI::Option* const model = command.add_option(
      "--model", args->model,
      "Directory of the model that read the document (the bundled one when not given)");
  AddChatFlags(command, &args->chat);
  AddTransportFlag(command, &args->transport);
  AddRetrievalFlags(command, args->retrieval);
  AddHeadFlags(command, &args->head);
  AddHostCacheFlag(command, &args->host_cache_bytes);
  AddQuestionChunkFlag(command, &args->question_chunk_tokens);
  command
      .add_option("--worker", args->worker,
                  "Address of a worker that answers instead of this process, from its own store")
      ->excludes(model)
      ->excludes(text)
      ->excludes(command.get_option("--chat-template"))
      ->excludes(command.get_option("--transport"))
      ->excludes(command.get_option("--selection-memory"))
      ->excludes(command.get_option("--correct-heads"))
      ->excludes(command.get_option("--draft"))
      ->excludes(command.get_option("--draft-mode"))
      ->excludes(command.get_option("--host-cache-bytes"))
      ->excludes(command.get_option("--question-chunk"))
      ->excludes(command.get_parent()->get_option("--server"))
      ->excludes(command.get_parent()->get_option("--max-message-bytes"));
  AddGenerateFlags(command, args->generate);
}

}  // namespace quire::cli
