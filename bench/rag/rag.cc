// SPDX-License-Identifier: Apache-2.0
//
// Rag: one question over several documents that were stored alone, by every method of reuse. The
// rival is full prefill of the same prompt, by the same engine without the store.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/documents/demo_corpus.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/worker/find_model.h"
#include "bench/benchmark.h"
#include "bench/kit/random_model.h"
#include "bench/rag/prompt_sets.h"
#include "bench/rag/question_suite.h"
#include "bench/rag/rag_report.h"
#include "bench/rag/rag_run.h"
#include "bench/rag/rag_store.h"
#include "common/base/threads/stop_signals.h"

namespace quire::bench {
namespace {

constexpr char kSuiteModel[] = "recall-across";
constexpr char kSuiteWordsFile[] = "/words.json";
constexpr char kLayersCell[] = "layers";
/// Documents of the cell that the figures at the top of the report are of.
constexpr uint32_t kHeadlineDocuments = 10;
/// Tokens of SamKV's blocks: the published ones, and shorter ones for the suites' documents.
constexpr uint32_t kBlock = 64;
constexpr uint32_t kSuiteBlock = 16;
/// Makes attention of random weights peaked.
constexpr float kLayersGain = 1.4f;

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  for (const RagMethod& method : RagMethods({})) names.push_back(method.name);
  return names;
}

struct RagOptions {
  std::vector<std::string> suites = SuiteNames();
  std::vector<uint32_t> documents = {5, 10, 20};
  SuiteOptions suite = {.tasks = {"alone", "refer", "chain"}};
  uint32_t dossiers = 3;  ///< Dossiers of the bundled model; 0 for none.
  uint32_t layers = 8;    ///< Layers of the model of random weights; 0 for none.
  uint32_t layers_tokens = 8192;
  uint32_t timed = 5;  ///< Questions of each method on each tier and transport; 0 for none.
  ModelLayers model_layers = {.check = 2, .retrieving = {0, 1}};  ///< Those of recall-across.
  std::vector<std::string> methods = MethodNames();
  std::vector<std::string> tiers = {"dram", "ssd"};
  std::vector<std::string> transports = {"shm", "ucx", "grpc"};
  std::string model;
};

class RagBench {
 public:
  /// `stop`, which outlives it, ends the run between two questions.
  RagBench(const RagOptions& options, const StopSignals* stop) : options_(options), stop_(*stop) {}

  Status Run() {
    QUIRE_ASSIGN_OR_RETURN(bundled_, cli::FindModel(""));
    QUIRE_RETURN_IF_ERROR(MeasureSuites());
    if (options_.dossiers > 0) QUIRE_RETURN_IF_ERROR(MeasureDossiers());
    return options_.layers > 0 ? MeasureLayers() : OkStatus();
  }

  StatusOr<BenchReport> Report() const {
    const auto headline = std::ranges::find_if(
        cells_, [](const RagCell& cell) { return cell.documents == kHeadlineDocuments; });
    cli::Json json = {{"benchmark", "rag"}};
    AddRagJson(cells_, headline == cells_.end() ? cells_.front() : *headline, first_tokens_, &json);
    json["model"] = std::filesystem::path(suite_model_).filename().string();
    json["seed"] = options_.suite.seed;
    json["tasks"] = options_.suite.tasks;
    json["questions"] = options_.suite.questions;
    json["document_words"] = options_.suite.document_words;
    json["entries"] = options_.suite.entries;
    json["suite_block_tokens"] = kSuiteBlock;
    json["cacheblend_check_layer"] = options_.model_layers.check;
    json["samkv_stable_layers"] = options_.model_layers.stable;
    json["hops_layers"] = options_.model_layers.retrieving;
    json["layers_gain"] = kLayersGain;
    json["machine"] = Machine();
    return BenchReport{.json = std::move(json), .table = RagTable(cells_, first_tokens_)};
  }

 private:
  Status MeasureSuites() {
    suite_model_ = options_.model.empty()
                       ? (std::filesystem::path(bundled_).parent_path() / kSuiteModel).string()
                       : options_.model;
    QUIRE_ASSIGN_OR_RETURN(const SuiteWords words, ReadSuiteWords(suite_model_ + kSuiteWordsFile));
    for (const std::string& suite : options_.suites) {
      for (const uint32_t documents : DocumentsOf(suite)) {
        SuiteOptions options = options_.suite;
        options.suite = suite;
        options.documents = documents;
        QUIRE_ASSIGN_OR_RETURN(const std::vector<DocumentSet> sets,
                               MakeQuestionSuite(words, options));
        QUIRE_RETURN_IF_ERROR(MeasureSuite(options, sets));
      }
    }
    return OkStatus();
  }

  /// All numbers of documents for the first suite, and the headline's for others.
  std::vector<uint32_t> DocumentsOf(const std::string& suite) const {
    const std::vector<uint32_t>& all = options_.documents;
    if (suite == options_.suites.front()) return all;
    const bool has_headline = std::ranges::find(all, kHeadlineDocuments) != all.end();
    return {has_headline ? kHeadlineDocuments : all.front()};
  }

  Status MeasureSuite(const SuiteOptions& suite, const std::vector<DocumentSet>& sets) {
    QUIRE_ASSIGN_OR_RETURN(const RagStore store,
                           OpenRagStore(suite_model_, options_.tiers.front(), "auto", kSuiteBlock));
    QUIRE_RETURN_IF_ERROR(store.worker.NeedsTokenizer("the questions are text"));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<PromptSet> prompts,
                           SuitePrompts(*store.worker.tokenizer, sets));
    QUIRE_ASSIGN_OR_RETURN(RagTotals totals, Measure(store, prompts, suite.suite));
    cells_.push_back({suite.suite, suite.documents, std::move(totals)});
    const bool timed =
        suite.suite == options_.suites.front() && suite.documents == kHeadlineDocuments;
    return timed ? TimeTiers(suite_model_, "suite", prompts.front(), kSuiteBlock) : OkStatus();
  }

  Status MeasureDossiers() {
    QUIRE_ASSIGN_OR_RETURN(const cli::DemoCorpus corpus,
                           cli::LoadDemoCorpus(bundled_ + "/documents"));
    QUIRE_ASSIGN_OR_RETURN(const RagStore store,
                           OpenRagStore(bundled_, options_.tiers.front(), "auto", kBlock));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<PromptSet> prompts,
                           DossierPrompts(*store.worker.tokenizer, corpus, options_.dossiers));
    QUIRE_ASSIGN_OR_RETURN(RagTotals totals, Measure(store, prompts, "dossiers"));
    cells_.push_back(
        {"dossiers", static_cast<uint32_t>(prompts.front().documents.size()), std::move(totals)});
    return OkStatus();
  }

  Status MeasureLayers() {
    QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(""));
    const std::string model = directory->path() + "/model";
    const RandomModel layers{.num_layers = options_.layers,
                             .num_query_heads = 8,
                             .num_kv_heads = 4,
                             .head_dim = 64,
                             .intermediate_size = 1536,
                             .own_share = 0,
                             .gain = kLayersGain};
    QUIRE_RETURN_IF_ERROR(WriteRandomModel(model, layers));
    const PromptSet prompts = RandomPromptSet({.documents = kHeadlineDocuments,
                                               .tokens = options_.layers_tokens,
                                               .questions = std::max(options_.timed, 1u),
                                               .vocab_size = layers.vocab_size,
                                               .seed = options_.suite.seed});
    QUIRE_ASSIGN_OR_RETURN(const RagStore store,
                           OpenRagStore(model, options_.tiers.front(), "auto", kBlock));
    QUIRE_ASSIGN_OR_RETURN(RagTotals totals, Measure(store, {&prompts, 1}, kLayersCell));
    cells_.push_back({kLayersCell, kHeadlineDocuments, std::move(totals)});
    return TimeTiers(model, kLayersCell, prompts, kBlock);
  }

  StatusOr<RagTotals> Measure(const RagStore& store, std::span<const PromptSet> prompts,
                              const std::string& what, bool times_all = false) {
    RagRunOptions options{.times_all = times_all,
                          .keep_going = [this] { return !stop_.HasArrived(); }};
    if (store.worker.tokenizer && !store.worker.tokenizer->starts().empty()) {
      options.bos = store.worker.tokenizer->starts().front();
    }
    ModelLayers layers = options_.model_layers;
    layers.check = std::min(layers.check, store.worker.decoder->config().num_layers - 1);
    std::vector<RagMethod> methods = RagMethods(layers);
    std::erase_if(methods, [&](const RagMethod& method) {
      return std::ranges::find(options_.methods, method.name) == options_.methods.end();
    });
    uint64_t questions = 0;
    for (const PromptSet& set : prompts) questions += set.questions.size();
    cli::ProgressBar progress("asking " + what, questions * (methods.size() + 1));
    RagRun run(*store.worker.engine, *store.worker.decoder, std::move(methods), options,
               [&](const std::string& method) { progress.Advance(1, method); });
    return run.Run(prompts);
  }

  /// Times the methods over `prompts` on every tier, over every transport that there is.
  Status TimeTiers(const std::string& model, const std::string& what, PromptSet prompts,
                   uint32_t block_tokens) {
    if (options_.timed == 0) return OkStatus();
    prompts.questions.resize(std::min<size_t>(prompts.questions.size(), options_.timed));
    for (const std::string& tier : options_.tiers) {
      for (const std::string& transport : options_.transports) {
        const StatusOr<RagStore> store = OpenRagStore(model, tier, transport, block_tokens);
        if (store.status().code() == StatusCode::kUnavailable) continue;
        QUIRE_RETURN_IF_ERROR(store.status());
        QUIRE_ASSIGN_OR_RETURN(
            const RagTotals totals,
            Measure(*store, {&prompts, 1}, what + ", " + tier + ", " + transport, true));
        for (const auto& [method, measured] : totals.methods) {
          first_tokens_.push_back({.model = what,
                                   .tier = tier,
                                   .transport = transport,
                                   .method = method,
                                   .seconds = MedianSeconds(measured.seconds),
                                   .full_seconds = MedianSeconds(totals.full.seconds),
                                   .prompt_tokens = totals.prompt_tokens / totals.full.questions});
        }
      }
    }
    return OkStatus();
  }

  const RagOptions options_;
  const StopSignals& stop_;
  std::string bundled_;
  std::string suite_model_;
  std::vector<RagCell> cells_;
  std::vector<FirstToken> first_tokens_;
};

StatusOr<BenchReport> RunRag(const RagOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto stop, StopSignals::Install());
  RagBench bench(options, stop.get());
  QUIRE_RETURN_IF_ERROR(bench.Run());
  return bench.Report();
}

void AddSuiteOptions(CLI::App& command, RagOptions* options) {
  command.add_option("--suites", options->suites, "Which suites of questions are asked")
      ->delimiter(',')
      ->check(CLI::IsMember(SuiteNames()))
      ->capture_default_str();
  command.add_option("--tasks", options->suite.tasks, "Which kinds of entries are asked for")
      ->delimiter(',')
      ->check(CLI::IsMember(SuiteTasks()))
      ->capture_default_str();
  command
      .add_option(
          "--documents", options->documents,
          "Documents under one question of the first suite; of others 10, or the first number")
      ->delimiter(',')
      ->check(CLI::Range(3, 64))
      ->capture_default_str();
  command.add_option("--questions", options->suite.questions, "Questions of each cell, at least")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--document-words", options->suite.document_words, "Words of a document")
      ->check(CLI::Range(48, 4096))
      ->capture_default_str();
  command.add_option("--entries", options->suite.entries, "Entries of a document")
      ->check(CLI::Range(1, 7))
      ->capture_default_str();
  command.add_option("--seed", options->suite.seed, "Seed of the suites and the random prompts")
      ->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model that the suites are asked of (the bundled "
                     "recall-across when not given)");
}

void AddMeasureOptions(CLI::App& command, RagOptions* options) {
  command
      .add_option("--dossiers", options->dossiers,
                  "Bundled dossiers whose questions are asked of recall-small; 0 for none")
      ->check(CLI::Range(0, 24))
      ->capture_default_str();
  command
      .add_option("--layers", options->layers,
                  "Layers of a model of random weights that methods are compared on; 0 for none")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command.add_option("--layers-tokens", options->layers_tokens, "Tokens of its documents")
      ->check(CLI::Range(512, 65000))
      ->capture_default_str();
  command.add_option("--timed", options->timed, "Questions timed on each tier and transport")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command.add_option("--methods", options->methods, "Methods to compare with full prefill")
      ->delimiter(',')
      ->check(CLI::IsMember(MethodNames()))
      ->capture_default_str();
  command.add_option("--tiers", options->tiers, "Where documents are kept")
      ->delimiter(',')
      ->check(CLI::IsMember({"dram", "ssd"}))
      ->capture_default_str();
  command.add_option("--transports", options->transports, "Ways of units to the worker")
      ->delimiter(',')
      ->check(CLI::IsMember({"shm", "ucx", "grpc"}))
      ->capture_default_str();
  command
      .add_option("--check-layer", options->model_layers.check,
                  "cacheblend: the layer that compares fresh and stored values")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command
      .add_option(
          "--stable-layers", options->model_layers.stable,
          "samkv: the layers whose scores decide how much is read; the last eighth when not "
          "given")
      ->delimiter(',')
      ->check(CLI::Range(0, 64));
  command
      .add_option("--hop-layers", options->model_layers.retrieving,
                  "hops: the layers that retrieve")
      ->delimiter(',')
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
}

/// Cells of the suite of the first cell.
const std::pair<std::string, std::string> kFirstSuite = {"{/cells/$1/suite}", "{/cells/0/suite}"};

}  // namespace

void AddRagBench(Benches& benches) {
  const auto options = std::make_shared<RagOptions>();
  CLI::App& command = benches.Add(
      {.name = "rag",
       .summary = "Answers and time to the first token over documents stored alone, by method",
       .examples =
           "  quire bench rag --json\n"
           "  quire bench rag --suites edges --documents 10 --questions 40   a first look\n"
           "  quire bench rag --layers 8 --layers-tokens 16384 --transports shm\n"
           "The suites: edges has entries at the beginnings and ends of documents, anywhere has\n"
           "them anywhere, and in alone no document needs another. METHOD_recovery is\n"
           "(method - reuse_strict) / (full - reuse_strict). METHOD_kl is the divergence from\n"
           "full prefill after the question; METHOD_kl_documents is that over the tokens of\n"
           "all documents but the first. Figures at the top of the report are of the first\n"
           "suite with 10 documents, and those of other suites begin with the suite. "
           "METHOD_ttft_speedup is of the model of random weights:\n"
           "the time to the first token of dense prefill over the method's."},
      [options](const cli::CommandContext&) { return RunRag(*options); },
      {.plot = PlotterOf({{.title = "Answers right against bytes read, suite {/cells/0/suite}",
                           .place_title = "% of the documents' bytes that were read",
                           .value_title = "% of answers right",
                           .lines = {{.figures = R"(/cells/(\d+)/methods/([^/]+)/accuracy)",
                                      .name = "$2",
                                      .place = "{/cells/$1/methods/$2/bytes_vs_full}",
                                      .times = 100,
                                      .place_times = 100,
                                      .where = kFirstSuite}},
                           .levels = {{.figures = R"(/cells/(\d+)/full/accuracy)",
                                       .name = "full, {/cells/$1/documents} documents",
                                       .times = 100,
                                       .where = kFirstSuite}}}})});
  AddSuiteOptions(command, options.get());
  AddMeasureOptions(command, options.get());
}

}  // namespace quire::bench
