// SPDX-License-Identifier: Apache-2.0
//
// Answers: the accuracy that every retrieval policy loses on the bundled model's questions. Budgets
// are shares of the context; the rival is full attention over the same questions.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/read_file.h"
#include "apps/kit/worker/find_model.h"
#include "bench/answers/answers_calibration.h"
#include "bench/answers/answers_report.h"
#include "bench/answers/answers_run.h"
#include "bench/answers/bundled_questions.h"
#include "bench/answers/calibrate_threshold.h"
#include "bench/answers/question_sets.h"
#include "bench/answers/set_flags.h"
#include "bench/benchmark.h"
#include "gpuworker/retrieval/policies/shadowkv.h"
#include "kvserver/embedded/embedded_store.h"

namespace quire::bench {
namespace {

constexpr uint32_t kSegmentTokens = 256;

struct AnswersOptions {
  std::vector<std::string> policies = AnswerPolicies();
  std::vector<double> budgets = {6.25, 12.5, 25};
  SetOptions sets = {.sets = SetNames()};
  AnswerSummaryOptions summary;
  uint32_t page_tokens = 16;
  uint32_t key_rank = 0;
  uint32_t threads = 2;
  std::string model;
  std::string markdown;
  std::string blocking_plot;
  std::string earlier;
  std::string data_dir;
};

/// The cells to fill. Those of ShadowKV name their key rank, which is the published one for 0.
std::vector<AnswerCell> CellsOf(const AnswersOptions& options, const KvSpec& spec) {
  std::vector<AnswerCell> cells = MakeCells(options.policies, options.budgets);
  for (AnswerCell& cell : cells) {
    if (cell.policy != worker::ShadowKvPolicy::kName) continue;
    cell.key_rank = worker::ShadowKvPolicy::RankOf({.key_rank = options.key_rank}, spec);
  }
  return cells;
}

/// Sets tau in the cells of kCalibrated.
Status Calibrate(const cli::LocalWorker& local, Client& client,
                 std::span<const AskedDocument> documents, std::vector<AnswerCell>* cells) {
  std::optional<double> tau;
  for (AnswerCell& cell : *cells) {
    if (cell.policy != kCalibrated) continue;
    if (!tau) {
      QUIRE_ASSIGN_OR_RETURN(tau, CalibrateOnQuestions(local, client, documents));
    }
    cell.tau = tau;
  }
  return OkStatus();
}

/// Writes the report `json` to the requested files, and as a table.
StatusOr<BenchReport> Show(const AnswersOptions& options, cli::Json json) {
  QUIRE_RETURN_IF_ERROR(WriteFile(options.markdown, AnswersMarkdown(json)));
  QUIRE_RETURN_IF_ERROR(WriteFile(options.blocking_plot, ToSvg(BlockingPlot(json))));
  cli::Table table = AnswersTable(json);
  return BenchReport{.json = std::move(json), .table = std::move(table)};
}

StatusOr<BenchReport> ShowEarlier(const AnswersOptions& options, cli::Json json) {
  QUIRE_RETURN_IF_ERROR(CheckAnswersReport(json));
  return Show(options, std::move(json));
}

StatusOr<BenchReport> Run(const AnswersOptions& options) {
  QUIRE_RETURN_IF_ERROR(WriteFile(options.markdown, ""));
  QUIRE_RETURN_IF_ERROR(WriteFile(options.blocking_plot, ""));
  std::optional<cli::Json> earlier;
  if (!options.earlier.empty()) {
    QUIRE_ASSIGN_OR_RETURN(earlier, ReadReport(options.earlier));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open({.data_dir = directory->path(),
                                                                .dram_bytes = 256u << 20}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  worker::EngineOptions engine;
  engine.representatives = true;  // Used by InfLLM only.
  engine.page_tokens = options.page_tokens;
  engine.segment_pages = kSegmentTokens / options.page_tokens;
  QUIRE_ASSIGN_OR_RETURN(const cli::LocalWorker local,
                         cli::LoadLocalWorker(model, client.get(), engine));
  QUIRE_RETURN_IF_ERROR(
      local.NeedsTokenizer("the questions are text: name a model with --model DIR that has one, "
                           "or leave --model away"));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<AskedDocument> documents,
                         BundledQuestions(model, *local.tokenizer, options.sets));
  std::vector<AnswerCell> cells = CellsOf(options, local.engine->spec());
  QUIRE_RETURN_IF_ERROR(Annotate(Calibrate(local, *client, documents, &cells), kCalibrated));
  AnswerRun run(local, *client, documents, cells, options.threads);
  QUIRE_ASSIGN_OR_RETURN(const AnswerResults results, run.Run());

  cli::Json json = AnswersJson(results, options.summary);
  json["questions_seed"] = options.sets.seed;
  json["page_tokens"] = options.page_tokens;
  json["corrected_share_wanted"] = kCorrectedShare;
  json["documents"] = documents.size();
  json["model"] = model;
  json["threads"] = options.threads;
  json["machine"] = Machine();
  if (earlier) QUIRE_RETURN_IF_ERROR(Annotate(AddEarlierCells(*earlier, &json), options.earlier));
  return Show(options, std::move(json));
}

void AddOptions(CLI::App& command, AnswersOptions* options) {
  command
      .add_option("--policies", options->policies,
                  "Which to compare with full attention, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(AnswerPolicies()))
      ->capture_default_str();
  command
      .add_option("--budgets", options->budgets,
                  "Percent of the context that is resident, sinks and window included")
      ->delimiter(',')
      ->check(CLI::Range(0.1, 100.0))
      ->capture_default_str();
  AddSetFlags(command, &options->sets);
  command.add_option("--page-tokens", options->page_tokens, "Tokens of a page")
      ->check(CLI::IsMember({8, 16, 32, 64}))
      ->capture_default_str();
  command
      .add_option("--key-rank", options->key_rank,
                  "shadowkv: rank of the document's keys, 128 at most with the bundled model; 0: "
                  "the published share, 20 there")
      ->capture_default_str();
  command.add_option("--threads", options->threads, "Sequences that are asked at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--markdown", options->markdown, "Write the table to this file, in Markdown");
  command.add_option("--blocking-plot", options->blocking_plot,
                     "Write what FreeKV loses against the heads that block to this file, as SVG");
  command
      .add_option("--with", options->earlier,
                  "Report of an earlier run over the same questions, whose other cells are shown "
                  "beside this run's")
      ->excludes(command.get_option("--from"));
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace

void AddAnswersBench(Benches& benches) {
  const auto options = std::make_shared<AnswersOptions>();
  CLI::App& command = benches.Add(
      {.name = "answers",
       .summary = "What every retrieval policy costs in answers, against full attention",
       .examples =
           "  quire bench answers --json --plot answers.svg\n"
           "  quire bench answers --policies freekv,quest --sets recall,multi --samples 24   "
           "a first look\n"
           "  quire bench answers --sets needle --budgets 12.5,25\n"
           "Sets: recall, one question a sequence over a whole document; needle, facts at five\n"
           "depths of windows of four lengths; multi, all questions of a document one after the\n"
           "other, each far from the one before; reads, half of the text arrives in the sequence\n"
           "itself, with questions in between; long, a list of facts arrives in the sequence and\n"
           "is asked for line by line, again and again in other orders, while the model generates\n"
           "4,096 tokens and more, the answers and the beginning of each line. A long sequence is\n"
           "whole, some 770 questions, whatever --samples says; it has figures of its own, and is\n"
           "not in the overall ones. Every policy answers the same questions.\n"
           "Policies run as they were published, but for the budget, which is the same for all.\n"
           "Besides, freekv with other thresholds tau than the published 0.8: freekv_tau_-1, pure\n"
           "speculation, which never corrects, and freekv_calibrated, whose tau is found before\n"
           "anything is asked, so that about 13.8 % of the heads are corrected over a few of the\n"
           "questions, as in the published measurements at 0.8 (a model's queries may turn more:\n"
           "where 0.8 corrects nearly every head, freekv does what a blocking policy does).\n"
           "freekv_retrieval_heads corrects, at 0.45, only heads that copy what the text said\n"
           "before, as quire ask --policy freekv --correct-heads retrieval --tau 0.45 does.\n"
           "blocking_heads (blocked %) is the share of KV heads, in each step of each layer that\n"
           "selects, whose recall preceded attention: 1 for policies that block for every recall,\n"
           "0 for those that recall nothing. FreeKV's first step over a document blocks as well,\n"
           "and so does each as long as everything fits: freekv_tau_-1 has nothing else."},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = [](const cli::Json& json) -> StatusOr<Plot> {
         QUIRE_RETURN_IF_ERROR(CheckAnswersReport(json));
         return Plot(AnswersPlot(json));
       },
       .show = [options](cli::Json json) { return ShowEarlier(*options, std::move(json)); }});
  AddOptions(command, options.get());
}

}  // namespace quire::bench
