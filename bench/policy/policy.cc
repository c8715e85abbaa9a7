// SPDX-License-Identifier: Apache-2.0
//
// Policy: the share of exact attention that every retrieval policy captures. Runs on the synthetic
// stream over a grid of parameters, and on recorded steps of a model. Figures: attention mass,
// pages of the oracle, error of the output, overlap from step to step, frequency of corrections,
// and bytes to recall. There is no server: policies decide, and moves are only counted.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <utility>

#include "apps/kit/worker/find_model.h"
#include "bench/benchmark.h"
#include "bench/policy/policy_grid.h"
#include "bench/policy/policy_model.h"

namespace quire::bench {
namespace {

constexpr uint32_t kRecordedPageTokens = 32;
constexpr uint32_t kModelSinks = 32;
constexpr uint32_t kModelWindow = 64;
constexpr uint32_t kModelShare = 8;  ///< The budget is this fraction of the document.

struct PolicyOptions {
  GridOptions grid;
  uint32_t questions = 12;
  std::string model;
};

StatusOr<FiguresByPolicy> FollowModel(const std::string& model, uint32_t questions,
                                      uint32_t key_rank) {
  const std::vector<std::string> trials = TrialNames();
  const RecordOptions recorded{.questions = questions, .page_tokens = kRecordedPageTokens};
  FiguresByPolicy figures;
  QUIRE_RETURN_IF_ERROR(RecordModel(model, recorded, [&](const RecordedLayer& layer) -> Status {
    const KvSpec& spec = layer.spec;
    QUIRE_ASSIGN_OR_RETURN(const PagedRows rows, PagedRows::Make(spec, layer.units));
    worker::RetrievalOptions options;
    options.budget_tokens = static_cast<uint32_t>(layer.tokens / kModelShare / kRecordedPageTokens *
                                                  kRecordedPageTokens);
    options.sink_tokens = kModelSinks;
    options.window_tokens = kModelWindow;
    options.uncompressed_layers = {};
    options.key_rank = key_rank;
    QUIRE_ASSIGN_OR_RETURN(const auto set, TrialSet::Make(rows, options, trials, layer.tokens));
    const float scale = 1 / std::sqrt(static_cast<float>(spec.head_dim));
    const size_t row = size_t{spec.num_query_heads} * spec.head_dim;
    for (uint64_t step = 0; step < layer.steps; ++step) {
      QUIRE_RETURN_IF_ERROR(set->Step(layer.tokens + step + 1,
                                      std::span(layer.queries).subspan(step * row, row), scale));
    }
    for (const auto& [name, trial] : set->trials()) figures[name].Add(trial.figures());
    return OkStatus();
  }));
  return figures;
}

cli::Json ToJson(const PolicyFigures& figures) {
  return {{"mass", figures.mean_mass()},
          {"mass_p5", figures.low_mass()},
          {"oracle_page_recall", figures.mean_recall()},
          {"output_error", figures.mean_error()},
          {"overlap", figures.mean_overlap()},
          {"corrected_heads", figures.head_rate()},
          {"corrected_layers", figures.layer_rate()},
          {"bytes_per_token", figures.bytes_per_token()},
          {"head_steps", figures.head_steps}};
}

cli::Json ToJson(const FiguresByPolicy& figures) {
  cli::Json json;
  for (const auto& [name, of_policy] : figures) json[name] = ToJson(of_policy);
  return json;
}

cli::Json MassesJson(const FiguresByPolicy& figures) {
  cli::Json json;
  for (const auto& [name, of_policy] : figures) json[name] = of_policy.mean_mass();
  return json;
}

cli::Json ToJson(const Orderings& orderings) {
  JumpOrdering jumps;
  cli::Json by_rate = cli::Json::object();
  for (const auto& [rate, of_rate] : orderings.by_jump_rate) {
    jumps.Add(of_rate);
    by_rate["rho=" + cli::FormatRatio(rate, 2)] = {{"cells", of_rate.cells},
                                                   {"jumps", of_rate.jumps},
                                                   {"corrected", of_rate.corrected},
                                                   {"not_improved", of_rate.not_improved},
                                                   {"freekv_mass", of_rate.freekv_mass},
                                                   {"speculation_mass", of_rate.speculation_mass}};
  }
  return {{"cells", orderings.cells},
          {"oracle_below_quest", orderings.oracle_below_quest},
          {"quest_below_streaming", orderings.quest_below_streaming},
          {"correction_differs_from_quest", orderings.correction_differs_from_quest},
          {"speculation_is_not_a_step_old", orderings.speculation_is_not_a_step_old},
          {"jumps_corrected", jumps.corrected},
          {"jumps_not_improved", jumps.not_improved},
          {"quest_mass", orderings.quest_mass},
          {"streaming_mass", orderings.streaming_mass},
          {"jumps_freekv_mass", jumps.freekv_mass},
          {"jumps_speculation_mass", jumps.speculation_mass},
          {"by_jump_rate", std::move(by_rate)}};
}

void AddRows(const std::string& source, const FiguresByPolicy& figures, cli::Table* table) {
  for (const auto& [name, of_policy] : figures) {
    table->AddRow(
        {source, name, cli::FormatRatio(of_policy.mean_mass()),
         cli::FormatRatio(of_policy.low_mass()), cli::FormatRatio(of_policy.mean_recall()),
         cli::FormatRatio(of_policy.mean_error()), cli::FormatRatio(of_policy.mean_overlap()),
         cli::FormatRatio(of_policy.head_rate()),
         cli::FormatBytes(static_cast<uint64_t>(of_policy.bytes_per_token()))});
  }
}

StatusOr<BenchReport> RunPolicy(const PolicyOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  QUIRE_ASSIGN_OR_RETURN(const FiguresByPolicy recorded,
                         FollowModel(model, options.questions, options.grid.key_rank));
  QUIRE_ASSIGN_OR_RETURN(const GridResult grid, RunGrid(options.grid));
  BenchReport report{.json = {{"benchmark", "policy"}},
                     .table = cli::Table({{"SOURCE"},
                                          {"POLICY"},
                                          {"MASS", cli::Table::kRight},
                                          {"P5", cli::Table::kRight},
                                          {"PAGES", cli::Table::kRight},
                                          {"ERROR", cli::Table::kRight},
                                          {"OVERLAP", cli::Table::kRight},
                                          {"BLOCKED", cli::Table::kRight},
                                          {"PER TOKEN", cli::Table::kRight}})};
  AddRows("stream", grid.all, &report.table);
  AddRows("model", recorded, &report.table);
  report.json["orderings_hold"] = grid.orderings.hold() ? 1 : 0;
  report.json["orderings"] = ToJson(grid.orderings);
  report.json["stream"] = ToJson(grid.all);
  report.json["model"] = ToJson(recorded);
  for (const auto& [value, figures] : grid.by_value) {
    report.json["stream_mass"][value] = MassesJson(figures);
  }
  report.json["steps"] = options.grid.steps;
  report.json["seed"] = options.grid.seed;
  report.json["max_tokens"] = options.grid.max_tokens;
  report.json["page_tokens"] = options.grid.page_tokens;
  report.json["group_sizes"] = options.grid.group_sizes;
  report.json["key_rank"] = options.grid.key_rank;
  report.json["questions"] = options.questions;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddPolicyBench(Benches& benches) {
  const auto options = std::make_shared<PolicyOptions>();
  CLI::App& command = benches.Add(
      {.name = "policy",
       .summary =
           "What every retrieval policy captures of exact attention, and what it would recall",
       .examples =
           "  quire bench policy --json\n"
           "  quire bench policy --max-tokens 8192 --steps 64\n"
           "  quire bench policy --max-tokens 8192 --page-tokens 32 --group-sizes 4   "
           "a first look\n"
           "Policies run as they were published, but for the budget, which is the same for all.\n"
           "Besides: oracle, which knows the attention; freekv_tau_0.9; speculation and\n"
           "correction, freekv that never and that always corrects; quest_mean_softmax, quest\n"
           "that pools as freekv does, whose pages correction has to select.\n"
           "On the stream, where no model says which heads retrieve, razor keeps everything for\n"
           "one of the two heads.\n"
           "orderings_hold is 1 when the orderings hold: those between policies in every cell;\n"
           "that corrections capture more than speculation alone, in the mean of the cells of\n"
           "each rate of jumps (rho) in which queries turn otherwise less than the threshold\n"
           "(c > 0.8). A run of so few steps that none of them jumps at some rate\n"
           "cannot show that, and it is 0."},
      [options](const cli::CommandContext&) { return RunPolicy(*options); },
      {.plot = PlotterOf(
           {{.title = "Share of exact attention that a policy captures",
             .value_title = "mass, on the synthetic stream and on a model",
             .bars = {
                 {.figures = "/(stream|model)/([^/]+)/mass", .name = "$1", .place = "$2"}}}})});
  command.add_option("--steps", options->grid.steps, "Steps of each cell of the grid")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  command
      .add_option("--max-tokens", options->grid.max_tokens,
                  "Leaves out longer contexts of 8192, 32768 and 131072 tokens")
      ->check(CLI::Range(8192, 131072))
      ->capture_default_str();
  command.add_option("--page-tokens", options->grid.page_tokens, "Tokens of a page in the grid")
      ->delimiter(',')
      ->check(CLI::IsMember({16, 32, 64}))
      ->capture_default_str();
  command
      .add_option("--group-sizes", options->grid.group_sizes, "Query heads per KV head in the grid")
      ->delimiter(',')
      ->check(CLI::IsMember({1, 4, 7}))
      ->capture_default_str();
  command
      .add_option("--key-rank", options->grid.key_rank,
                  "shadowkv: rank of the document's keys, 128 at most in the grid; 0: the "
                  "published share, 20 there")
      ->check(CLI::Range(0, 128))
      ->capture_default_str();
  command
      .add_option("--questions", options->questions, "Questions that the model is followed over")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--threads", options->grid.threads, "Cells of the grid at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--seed", options->grid.seed, "Of keys and queries")->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
}

}  // namespace quire::bench
