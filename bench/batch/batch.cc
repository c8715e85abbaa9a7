// SPDX-License-Identifier: Apache-2.0
//
// Batch: tokens per second of 1, 4 and 8 sequences that run as one batch. The rival is the same
// sequences one after another. All use one document, with a quarter of it resident.
#include "gpuworker/engine/batch/batch.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "apps/kit/data_dir.h"
#include "apps/kit/worker/find_model.h"
#include "apps/kit/worker/local_worker.h"
#include "bench/benchmark.h"
#include "bench/kit/published_options.h"
#include "common/base/random.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint32_t kSizes[] = {1, 4, 8};
constexpr size_t kPromptTokens = 4;

struct BatchOptions {
  uint32_t context = 1024;
  uint32_t steps = 64;
  uint32_t repeats = 3;
  std::string policy = "freekv";
  std::string model;
  std::string data_dir;
};

/// One of the sequences: its own prompt after the common document.
StatusOr<worker::BatchRequest> MakeRequest(const cli::LocalWorker& local,
                                           const BatchOptions& options, uint32_t number) {
  const KvSpec& spec = local.engine->spec();
  SeededRandom random(number + 1);
  worker::BatchRequest request;
  request.document = DocumentName{.collection = "bench", .name = "batch"};
  for (size_t i = 0; i < kPromptTokens; ++i) {
    request.prompt.push_back(static_cast<TokenId>(random.Below(local.engine->model().vocab_size)));
  }
  const worker::RetrievalOptions budget{
      .budget_tokens = std::max(4u, PageCount(spec, options.context) / 4) * spec.page_tokens,
      .sink_tokens = spec.page_tokens,
      .window_tokens = 2 * spec.page_tokens};
  QUIRE_ASSIGN_OR_RETURN(request.retrieval,
                         PublishedWithin(budget, options.policy, spec.page_tokens));
  request.params.max_new_tokens = options.steps;
  return request;
}

/// Seconds that `count` sequences take one after another.
StatusOr<double> Sequential(const cli::LocalWorker& local, const BatchOptions& options,
                            uint32_t count) {
  const TimePoint start = SystemClock().Now();
  for (uint32_t i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const worker::BatchRequest request, MakeRequest(local, options, i));
    QUIRE_ASSIGN_OR_RETURN(
        const auto sequence,
        local.engine->OpenSequence(request.document, {.retrieval = request.retrieval}));
    QUIRE_RETURN_IF_ERROR(sequence->Append(request.prompt));
    QUIRE_RETURN_IF_ERROR(sequence->Generate(request.params).status());
  }
  return std::chrono::duration<double>(SystemClock().Now() - start).count();
}

struct Batched {
  double seconds = 0;
  double recalls_per_lane = 0;  ///< Messages per requested lane.
};

StatusOr<Batched> InBatch(const cli::LocalWorker& local, const BatchOptions& options,
                          uint32_t count) {
  QUIRE_ASSIGN_OR_RETURN(const auto batch,
                         worker::Batch::Create(local.engine.get(), {.max_running = count}));
  const TimePoint start = SystemClock().Now();
  std::vector<std::shared_ptr<worker::BatchStream>> streams;
  for (uint32_t i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(worker::BatchRequest request, MakeRequest(local, options, i));
    QUIRE_ASSIGN_OR_RETURN(streams.emplace_back(), batch->Submit(std::move(request)));
  }
  while (batch->Step()) {
  }
  Batched result;
  result.seconds = std::chrono::duration<double>(SystemClock().Now() - start).count();
  for (const auto& stream : streams) {
    uint64_t tokens = 0;
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> token, stream->Next());
      if (!token) break;
      ++tokens;
    }
    if (tokens != options.steps) {
      return Internal("a sequence ended after ", tokens, " of ", options.steps, " tokens");
    }
  }
  const auto metrics = MetricValuesOf(*batch);
  result.recalls_per_lane =
      static_cast<double>(metrics.at("batch_recall_messages")) /
      static_cast<double>(std::max<uint64_t>(metrics.at("batch_recall_lanes"), 1));
  return result;
}

struct BatchRow {
  double sequential = 0;  ///< Tokens per second.
  double batched = 0;
  double recalls_per_lane = 0;
};

double MiddleOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Medians of the repeats. Batch and rival take turns, so that both see the same machine.
StatusOr<BatchRow> Measure(const cli::LocalWorker& local, const BatchOptions& options,
                           uint32_t count) {
  std::vector<double> sequential;
  std::vector<double> batched;
  BatchRow row;
  const double tokens = double{1} * count * options.steps;
  for (uint32_t i = 0; i < options.repeats; ++i) {
    QUIRE_ASSIGN_OR_RETURN(const double seconds, Sequential(local, options, count));
    sequential.push_back(tokens / seconds);
    QUIRE_ASSIGN_OR_RETURN(const Batched run, InBatch(local, options, count));
    batched.push_back(tokens / run.seconds);
    row.recalls_per_lane = run.recalls_per_lane;
  }
  row.sequential = MiddleOf(std::move(sequential));
  row.batched = MiddleOf(std::move(batched));
  return row;
}

Status Ingest(const cli::LocalWorker& local, const BatchOptions& options) {
  const worker::ModelConfig& model = local.engine->model();
  if (options.context + kPromptTokens + options.steps > model.max_positions) {
    return InvalidArgument("--context and --steps together pass the model's context of ",
                           model.max_positions, " tokens");
  }
  SeededRandom random(1);
  std::vector<TokenId> tokens(options.context);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(model.vocab_size));
  return local.engine->Ingest(tokens, {.collection = "bench", .name = "batch"}).status();
}

StatusOr<BenchReport> Run(const BatchOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open({.data_dir = directory->path()}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  QUIRE_ASSIGN_OR_RETURN(const cli::LocalWorker local,
                         cli::LoadLocalWorker(model, client.get(), worker::EngineOptions{}));
  QUIRE_RETURN_IF_ERROR(Ingest(local, options));

  BenchReport report{.json = {{"benchmark", "batch"}},
                     .table = cli::Table({{"SEQUENCES", cli::Table::kRight},
                                          {"ONE BY ONE, TOKENS/S", cli::Table::kRight},
                                          {"BATCH, TOKENS/S", cli::Table::kRight},
                                          {"RATIO", cli::Table::kRight},
                                          {"RECALLS/LANE", cli::Table::kRight}})};
  cli::Json raw;
  for (const uint32_t count : kSizes) {
    QUIRE_ASSIGN_OR_RETURN(const BatchRow row, Measure(local, options, count));
    const std::string name = "batch" + std::to_string(count);
    const double ratio = row.batched / row.sequential;
    report.json[name + "_vs_sequential"] = ratio;
    raw[name + "_tokens_per_s"] = row.batched;
    raw["sequential" + std::to_string(count) + "_tokens_per_s"] = row.sequential;
    raw[name + "_recalls_per_lane"] = row.recalls_per_lane;
    report.table.AddRow({cli::FormatCount(count), cli::FormatRatio(row.sequential, 1),
                         cli::FormatRatio(row.batched, 1), cli::FormatRatio(ratio),
                         cli::FormatRatio(row.recalls_per_lane)});
  }
  report.json.update(raw);
  report.json["policy"] = options.policy;
  report.json["context_tokens"] = options.context;
  report.json["steps"] = options.steps;
  report.json["repeats"] = options.repeats;
  report.json["model"] = model;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddBatchBench(Benches& benches) {
  const auto options = std::make_shared<BatchOptions>();
  CLI::App& command = benches.Add(
      {.name = "batch",
       .summary = "Tokens per second of a batch against one sequence after another",
       .examples = "  quire bench batch --json\n"
                   "  quire bench batch --model DIR --context 4096 --policy quest"},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf({{.title = "Tokens a second of a batch",
                           .place_title = "sequences",
                           .value_title = "tokens a second",
                           .lines = {{.figures = R"(/(batch|sequential)(\d+)_tokens_per_s)",
                                      .name = "$1",
                                      .place = "$2"}}}})});
  command.add_option("--context", options->context, "Tokens of the document that all read")
      ->check(CLI::Range(256, 1 << 20))
      ->capture_default_str();
  command.add_option("--steps", options->steps, "Tokens that each sequence generates")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--repeats", options->repeats, "Runs of which the middle counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command.add_option("--policy", options->policy, "That selects the pages")->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
