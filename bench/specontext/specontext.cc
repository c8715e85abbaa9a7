// SPDX-License-Identifier: Apache-2.0
//
// SpeContext: selections of a retrieval head, in each of its modes and at each granularity. Their
// quality stands beside that of the best pages and of Quest, and answers beside full attention.
#include "gpuworker/retrieval/policies/specontext.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/local_worker.h"
#include "bench/answers/answers_report.h"
#include "bench/answers/answers_run.h"
#include "bench/answers/bundled_questions.h"
#include "bench/answers/set_flags.h"
#include "bench/benchmark.h"
#include "bench/kit/budget_share.h"
#include "bench/specontext/head_costs.h"
#include "bench/specontext/head_quality.h"
#include "bench/specontext/head_variants.h"
#include "gpuworker/model/checkpoint/companions.h"
#include "gpuworker/retrieval/policies/full.h"
#include "gpuworker/retrieval/policies/quest.h"
#include "kvserver/embedded/embedded_store.h"

namespace quire::bench {
namespace {

constexpr uint32_t kTokensOfSegment = 256;
constexpr double kMostLost = 0.01;
/// Folder of a second head of the bundled model, of mode eagle.
constexpr const char* kEagleFolder = "retrieval-head-eagle";
constexpr const char* kBestPages = "oracle";
constexpr std::string_view kFull = worker::FullPolicy::kName;
constexpr std::string_view kQuest = worker::QuestPolicy::kName;
constexpr std::string_view kSpeContext = worker::SpeContextPolicy::kName;

struct SpeContextOptions {
  std::string model;
  std::string data_dir;
  cli::HeadChoice head;
  std::vector<uint32_t> page_tokens = {16, 32, 1};
  double percent = 12.5;
  QualityOptions quality;
  SetOptions sets = {.sets = {"recall", "needle", "multi", "reads"}};
  uint32_t other_samples = 50;  ///< SetOptions::samples of granularities after the first.
  AnswerSummaryOptions summary;
  uint32_t steps = 64;
  uint32_t threads = 2;
};

/// The heads to measure, by mode. `first` is that of the report's own figures.
struct Heads {
  HeadsByMode by_mode;
  std::map<worker::HeadMode, cli::HeadChoice> choices;
  worker::HeadMode first = worker::HeadMode::kTrained;
};

Status AddHead(const std::string& model, const worker::ModelConfig& config,
               const cli::HeadChoice& choice, Heads* heads) {
  QUIRE_ASSIGN_OR_RETURN(auto head, cli::LoadRetrievalHead(model, config, choice));
  if (head == nullptr) {
    return FailedPrecondition(model, " has no folder ", worker::kHeadFolder,
                              "; name the folder of a draft of this model with --draft");
  }
  const worker::HeadMode mode = head->mode;
  if (heads->by_mode.empty()) heads->first = mode;
  heads->choices[mode] = {.directory = choice.directory, .mode = mode};
  heads->by_mode[mode] = std::move(head);
  return OkStatus();
}

/// The chosen draft in the chosen mode. Without a mode also as embed_only, and without a draft also
/// the one that sees hidden states, if the model has one.
StatusOr<Heads> LoadHeads(const SpeContextOptions& options, const std::string& model) {
  QUIRE_ASSIGN_OR_RETURN(const worker::ModelConfig config,
                         worker::LoadModelConfig(model + "/config.json"));
  Heads heads;
  QUIRE_RETURN_IF_ERROR(AddHead(model, config, options.head, &heads));
  if (options.head.mode) return heads;
  const cli::HeadChoice less{options.head.directory, worker::HeadMode::kEmbedOnly};
  QUIRE_RETURN_IF_ERROR(AddHead(model, config, less, &heads));
  const std::string eagle = model + "/" + kEagleFolder;
  std::error_code error;
  if (!options.head.directory.empty() || !std::filesystem::is_directory(eagle, error)) return heads;
  QUIRE_RETURN_IF_ERROR(AddHead(model, config, {.directory = eagle}, &heads));
  return heads;
}

/// Name of a cell beside those of other variants; those of `first` have plain ones, and full
/// attention everywhere.
std::string KeyOf(const AnswerCell& cell, const HeadVariant& variant, const HeadVariant& first) {
  if (cell.policy == kFull) return cell.key;
  if (cell.policy == kSpeContext && variant.mode != first.mode) {
    return cell.key + "_" + variant.key();
  }
  std::string key = cell.key;
  if (variant.page_tokens != first.page_tokens) {
    key += variant.key().substr(worker::Name(variant.mode).size());
  }
  return key + (variant.as_published ? kAsPublished : "");
}

class SpeContextBench {
 public:
  SpeContextBench(const SpeContextOptions& options, std::string model, Heads heads, Client* client)
      : options_(options), model_(std::move(model)), heads_(std::move(heads)), client_(client) {}

  StatusOr<BenchReport> Run() {
    for (const uint32_t page_tokens : options_.page_tokens) {
      QUIRE_ASSIGN_OR_RETURN(quality_[page_tokens],
                             MeasureQuality(model_, heads_.by_mode, page_tokens, QualityShare()));
    }
    for (const HeadVariant& variant : Variants()) {
      QUIRE_RETURN_IF_ERROR(Annotate(Answer(variant), variant.key()));
    }
    return Report();
  }

 private:
  QualityOptions QualityShare() const {
    QualityOptions quality = options_.quality;
    quality.percent = options_.percent;
    return quality;
  }
  std::vector<HeadVariant> Variants() const {
    return MakeVariants(heads_.by_mode, heads_.first, options_.page_tokens);
  }
  uint32_t MemoryOf(const HeadVariant& variant) const {
    return variant.as_published ? 1 : options_.quality.memory;
  }

  /// The questions of all variants with pages of `page_tokens`.
  SetOptions SetsOf(uint32_t page_tokens) const {
    SetOptions sets = options_.sets;
    if (page_tokens != options_.page_tokens.front()) sets.samples = options_.other_samples;
    return sets;
  }

  /// The cells of a variant that no variant before it with the same pages has.
  std::vector<AnswerCell> CellsOf(const HeadVariant& variant) const {
    const std::vector<std::string> policies = {std::string(kQuest), std::string(kSpeContext)};
    const double percents[] = {options_.percent};
    std::vector<AnswerCell> cells = MakeCells(policies, percents);
    for (AnswerCell& cell : cells) cell.selection_memory = MemoryOf(variant);
    const bool has_others = results_.contains(variant.page_tokens);
    std::erase_if(cells,
                  [&](const AnswerCell& cell) { return cell.policy != kSpeContext && has_others; });
    return cells;
  }

  Status Answer(const HeadVariant& variant) {
    worker::EngineOptions engine;
    engine.page_tokens = variant.page_tokens;
    engine.segment_pages = kTokensOfSegment / variant.page_tokens;
    engine.statistics = false;
    QUIRE_ASSIGN_OR_RETURN(
        const cli::LocalWorker local,
        cli::LoadLocalWorker(model_, client_, engine, "cpu", heads_.choices.at(variant.mode)));
    QUIRE_RETURN_IF_ERROR(
        local.NeedsTokenizer("the questions are text: name a model that has one"));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<AskedDocument> documents,
                           BundledQuestions(model_, *local.tokenizer, SetsOf(variant.page_tokens)));
    AnswerRun run(local, *client_, documents, CellsOf(variant), options_.threads);
    QUIRE_ASSIGN_OR_RETURN(AnswerResults results, run.Run());
    AnswerResults& all = results_[variant.page_tokens];
    all.samples = std::move(results.samples);
    for (CellAnswers& cell : results.cells) {
      cell.cell.key = KeyOf(cell.cell, variant, Variants().front());
      if (cell.cell.policy == kSpeContext) keys_[variant.key()] = cell.cell.key;
      all.cells.push_back(std::move(cell));
    }
    return Measure(variant, local, documents.front());
  }

  worker::RetrievalOptions BudgetOf(const HeadVariant& variant, uint64_t tokens) const {
    worker::RetrievalOptions budget = BudgetShare(options_.percent, tokens, variant.page_tokens);
    budget.selection_memory = MemoryOf(variant);
    return budget;
  }

  Status Measure(const HeadVariant& variant, const cli::LocalWorker& local,
                 const AskedDocument& asked) {
    const DocumentName name{.collection = "bench", .name = "costs"};
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens,
                           cli::DocumentTokens(*local.tokenizer, asked.text));
    QUIRE_RETURN_IF_ERROR(local.engine->Ingest(tokens, name).status());
    QUIRE_ASSIGN_OR_RETURN(costs_[variant.key()],
                           MeasureHeadCosts(*local.engine, name, tokens,
                                            BudgetOf(variant, tokens.size()), options_.steps));
    return client_->DeleteDocument(name).status();
  }

  cli::Json QualityJson(const SelectionQuality& quality) const {
    return {{"mass", quality.figures.mean_mass()},
            {"mass_p5", quality.figures.low_mass()},
            {"oracle_page_recall", quality.figures.mean_recall()},
            {"output_error", quality.figures.mean_error()},
            {"overlap", quality.figures.mean_overlap()},
            {"moved_ratio", quality.decoded.moved_ratio()}};
  }

  cli::Json VariantJson(const HeadVariant& variant, const cli::Json& answers) const {
    const QualityByName& quality = quality_.at(variant.page_tokens);
    const std::string mode(worker::Name(variant.mode));
    const std::string trial = variant.as_published ? mode + kAsPublished : mode;
    const HeadCosts& costs = costs_.at(variant.key());
    const auto ms = [](Duration time) {
      return std::chrono::duration<double, std::milli>(time).count();
    };
    cli::Json json = QualityJson(quality.at(trial));
    const cli::Json& cell = answers.at("cells").at(keys_.at(variant.key()));
    json["accuracy"] = cell.at("accuracy");
    json["loss"] = cell.at("loss");
    json["loss_95"] = cell.at("loss_95");
    json["samples"] = cell.at("samples");
    json["recall_vs_quest"] = quality.at(trial).figures.mean_recall() /
                              std::max(quality.at("quest").figures.mean_recall(), 1e-9);
    json["mass_vs_quest"] = quality.at(trial).figures.mean_mass() /
                            std::max(quality.at("quest").figures.mean_mass(), 1e-9);
    json["head_share"] = costs.head_share();
    json["head_ms"] = ms(costs.head);
    json["step_ms"] = ms(costs.step);
    json["quest_step_ms"] = ms(costs.quest_step);
    json["messages_per_step"] = costs.messages_per_step;
    json["mode"] = mode;
    json["page_tokens"] = variant.page_tokens;
    json["selection_memory"] = MemoryOf(variant);
    json["answers_key"] = keys_.at(variant.key());
    return json;
  }

  /// Answers at all granularities; what is about the questions is of the first.
  cli::Json Answers() const {
    const uint32_t first = options_.page_tokens.front();
    cli::Json json = AnswersJson(results_.at(first), options_.summary);
    for (const auto& [page_tokens, results] : results_) {
      if (page_tokens == first) continue;
      const cli::Json more = AnswersJson(results, options_.summary);
      for (const auto& [key, cell] : more.at("cells").items()) {
        const bool full = key == kFull;  // The first has its name.
        const std::string name = full ? key + "_page_" + std::to_string(page_tokens) : key;
        json["cells"][name] = cell;
        json[name] = cell.at("accuracy");
      }
    }
    return json;
  }

  StatusOr<BenchReport> Report() {
    cli::Json json = Answers();
    const std::vector<HeadVariant> variants = Variants();
    cli::Json of = cli::Json::object();
    for (const HeadVariant& variant : variants) of[variant.key()] = VariantJson(variant, json);
    const cli::Json first = of.at(variants.front().key());
    json["benchmark"] = kSpeContext;
    json["full_minus_specontext"] = first.at("loss");
    json["full_minus_specontext_95"] = first.at("loss_95");
    json["within_1_point"] = first.at("loss").get<double>() <= kMostLost ? 1 : 0;
    json["within_1_point_by_interval"] = first.at("loss_95")[1].get<double>() <= kMostLost ? 1 : 0;
    const cli::Json& published = of.at(variants[1].key());
    json["moved_ratio_as_published"] = published.at("moved_ratio");
    json["full_minus_specontext_as_published"] = published.at("loss");
    for (const char* const key :
         {"moved_ratio", "overlap", "oracle_page_recall", "mass", "recall_vs_quest",
          "mass_vs_quest", "head_share", "messages_per_step", "selection_memory"}) {
      json[key] = first.at(key);
    }
    cli::Table table = TableOf(of);
    json["first"] = variants.front().key();
    json["variants"] = std::move(of);
    for (const auto& [page_tokens, quality] : quality_) {
      for (const char* const name : {kBestPages, "quest"}) {
        json["references"]["page_" + std::to_string(page_tokens)][name] =
            QualityJson(quality.at(name));
      }
    }
    AddSizes(&json);
    return BenchReport{.json = std::move(json), .table = std::move(table)};
  }

  void AddSizes(cli::Json* json) const {
    json->update(cli::Json{{"budget_percent", options_.percent},
                           {"page_tokens", options_.page_tokens},
                           {"sets", options_.sets.sets},
                           {"questions_seed", options_.sets.seed},
                           {"samples_of_each_set", options_.sets.samples},
                           {"other_samples_of_each_set", options_.other_samples},
                           {"quality_questions", options_.quality.questions},
                           {"decoded_tokens_per_question", options_.quality.decoded_tokens},
                           {"cost_steps", options_.steps},
                           {"threads", options_.threads},
                           {"model", model_},
                           {"machine", Machine()}});
  }

  static cli::Table TableOf(const cli::Json& variants) {
    cli::Table table({{"VARIANT"},
                      {"RIGHT", cli::Table::kRight},
                      {"LOSS", cli::Table::kRight},
                      {"BEST PAGES", cli::Table::kRight},
                      {"MASS", cli::Table::kRight},
                      {"OVERLAP", cli::Table::kRight},
                      {"MOVED", cli::Table::kRight},
                      {"OF A STEP", cli::Table::kRight},
                      {"MESSAGES", cli::Table::kRight}});
    for (const auto& [name, variant] : variants.items()) {
      std::vector<std::string> row = {name};
      for (const char* const key : {"accuracy", "loss", "oracle_page_recall", "mass", "overlap",
                                    "moved_ratio", "head_share", "messages_per_step"}) {
        row.push_back(cli::FormatRatio(variant.at(key).get<double>()));
      }
      table.AddRow(std::move(row));
    }
    return table;
  }

  const SpeContextOptions& options_;
  const std::string model_;
  const Heads heads_;
  Client* const client_;
  std::map<uint32_t, QualityByName> quality_;  ///< By page size.
  std::map<uint32_t, AnswerResults> results_;  ///< By page size.
  std::map<std::string, std::string> keys_;    ///< Key of a variant's cell.
  std::map<std::string, HeadCosts> costs_;     ///< By variant.
};

StatusOr<BenchReport> Run(const SpeContextOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  QUIRE_ASSIGN_OR_RETURN(Heads heads, LoadHeads(options, model));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open({.data_dir = directory->path(),
                                                                .dram_bytes = 256u << 20}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  return SpeContextBench(options, model, std::move(heads), client.get()).Run();
}

void AddOptions(CLI::App& command, SpeContextOptions* options) {
  command
      .add_option("--page-tokens", options->page_tokens,
                  "Granularities: tokens of a page, 1 for token granularity; the first is that of "
                  "the report's own figures")
      ->delimiter(',')
      ->check(CLI::IsMember({1, 8, 16, 32, 64}))
      ->capture_default_str();
  command
      .add_option("--budget", options->percent,
                  "Percent of the context that is resident, sinks and window included")
      ->check(CLI::Range(0.1, 100.0))
      ->capture_default_str();
  command
      .add_option("--questions", options->quality.questions,
                  "Questions that selections are followed over")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      .add_option("--decoded-tokens", options->quality.decoded_tokens,
                  "Tokens decoded after each of them")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  AddSetFlags(command, &options->sets);
  command
      .add_option("--other-samples", options->other_samples,
                  "The same as --samples for granularities after the first")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      .add_option("--memory", options->quality.memory,
                  "Tokens that selections look back on (quire ask --selection-memory), but for "
                  "the variant as published, which looks back on none")
      ->check(CLI::Range(uint32_t{1}, worker::kMostSelectionMemory))
      ->capture_default_str();
  command.add_option("--steps", options->steps, "Decode steps that are timed")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--threads", options->threads, "Sequences that are asked at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
  cli::AddHeadFlags(command, &options->head);
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace

void AddSpeContextBench(Benches& benches) {
  const auto options = std::make_shared<SpeContextOptions>();
  CLI::App& command = benches.Add(
      {.name = "specontext",
       .summary = "Selections of a retrieval head, beside the best pages, Quest and full attention",
       .examples =
           "  quire bench specontext --json\n"
           "  quire bench specontext --page-tokens 32 --questions 2 --samples 12   a first look\n"
           "  quire bench specontext --draft-mode embed_only --budget 25\n"
           "A variant is a mode of the head and a granularity. Those at the top of the JSON are "
           "of\n"
           "the draft's own mode and the first of --page-tokens; variants has all. Keys that end "
           "in\n"
           "as_published are of a selection by one token alone, as SpeContext was published.\n"
           "oracle_page_recall is the share of the pages with the most attention that are "
           "attended\n"
           "to, recall_vs_quest that over Quest's. overlap is of all attended pages from step to\n"
           "step, sinks and window included. moved_ratio is of the units that are selected: those\n"
           "not selected at the step before, over the decoded tokens.\n"
           "head_share is the head's time by itself over that of a whole step of one sequence.\n"
           "messages_per_step is of a batch of four sequences, all layers together: a mean."},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf(
           {{.title = "Answers right, by what selects",
             .value_title = "% of answers right",
             .bars = {{.figures = "/cells/([^/]+)/accuracy", .place = "$1", .times = 100}}}})});
  AddOptions(command, options.get());
}

}  // namespace quire::bench
