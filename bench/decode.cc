// SPDX-License-Identifier: Apache-2.0
//
// Decode: tokens per second of a model over a long context, with every page resident (the rival)
// and with a quarter of it (Quire), on the same document and the same machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bench/benchmark.h"
#include "client/cli/data_dir.h"
#include "client/cli/find_model.h"
#include "client/cli/local_worker.h"
#include "client/cli/moved_json.h"
#include "client/cli/progress.h"
#include "common/base/random.h"
#include "common/page/layout.h"
#include "embedded/embedded_store.h"

namespace quire::bench {
namespace {

constexpr uint32_t kLongestContext = 32768;
constexpr uint32_t kSinkPages = 1;
constexpr uint32_t kWindowPages = 2;
constexpr TokenId kFirstToken = 0;  ///< That decoding goes on from; any that every model has.

/// A document that leaves room for `steps` tokens in the model's context.
StatusOr<std::vector<TokenId>> RandomDocument(const worker::ModelConfig& model, uint32_t steps) {
  const uint32_t context = std::min(model.max_positions, kLongestContext);
  if (steps + 1 >= context) {
    return InvalidArgument("--steps is ", steps, ", but the model's context is ",
                           model.max_positions, " tokens");
  }
  SeededRandom random(1);
  std::vector<TokenId> tokens(context - steps - 1);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(model.vocab_size));
  return tokens;
}

worker::RetrievalOptions QuarterBudget(const KvSpec& spec, uint64_t context_tokens) {
  const uint32_t pages =
      std::max(kSinkPages + kWindowPages + 1, PageCount(spec, context_tokens) / 4);
  worker::RetrievalOptions options;
  options.budget_tokens = pages * spec.page_tokens;
  options.sink_tokens = kSinkPages * spec.page_tokens;
  options.window_tokens = kWindowPages * spec.page_tokens;
  options.uncompressed_layers = {};
  return options;
}

Status Ingest(const cli::LocalWorker& local, const std::vector<TokenId>& tokens,
              const DocumentName& document) {
  cli::ProgressBar progress("reading a document", tokens.size());
  uint64_t shown = 0;
  const auto observer = [&](const worker::IngestProgress& now) {
    progress.Advance(now.done_tokens - shown);
    shown = now.done_tokens;
  };
  return local.engine->Ingest(tokens, document, observer).status();
}

StatusOr<worker::SequenceStats> Decode(const cli::LocalWorker& local, const DocumentName& document,
                                       const worker::RetrievalOptions& retrieval, uint32_t steps) {
  QUIRE_ASSIGN_OR_RETURN(const auto sequence,
                         local.engine->OpenSequence(document, {.retrieval = retrieval}));
  QUIRE_RETURN_IF_ERROR(sequence->Append(std::vector<TokenId>{kFirstToken}));
  worker::GenerateParams params;
  params.max_new_tokens = steps;
  cli::ProgressBar progress("decoding, " + retrieval.policy, steps);
  params.on_token = [&](TokenId) {
    progress.Advance();
    return true;
  };
  QUIRE_RETURN_IF_ERROR(sequence->Generate(params).status());
  return sequence->stats();
}

double TokensPerSecond(const worker::SequenceStats& stats) {
  return stats.seconds_generate > 0
             ? static_cast<double>(stats.generated_tokens) / stats.seconds_generate
             : 0;
}

void AddRow(const std::string& policy, const worker::SequenceStats& stats, cli::Table* table) {
  table->AddRow({policy, cli::FormatCount(stats.generated_tokens),
                 cli::FormatRatio(TokensPerSecond(stats), 1),
                 cli::FormatRatio(stats.budget_ratio()), cli::FormatBytes(stats.moved.total())});
}

struct DecodeOptions {
  uint32_t steps = 64;
  std::string model;
  std::string data_dir;
  std::string device = "cpu";
};

StatusOr<BenchReport> Run(const DecodeOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open({.data_dir = directory->path()}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  QUIRE_ASSIGN_OR_RETURN(
      const cli::LocalWorker local,
      cli::LoadLocalWorker(model, client.get(), worker::EngineOptions{}, options.device));
  QUIRE_ASSIGN_OR_RETURN(const auto tokens, RandomDocument(local.engine->model(), options.steps));
  const DocumentName document{.collection = "bench", .name = "decode"};
  QUIRE_RETURN_IF_ERROR(Ingest(local, tokens, document));

  worker::RetrievalOptions retrieval = QuarterBudget(local.engine->spec(), tokens.size());
  QUIRE_ASSIGN_OR_RETURN(const auto sparse, Decode(local, document, retrieval, options.steps));
  retrieval.policy = "full";
  QUIRE_ASSIGN_OR_RETURN(const auto full, Decode(local, document, retrieval, options.steps));

  BenchReport report{.json = {{"benchmark", "decode"}},
                     .table = cli::Table({{"POLICY"},
                                          {"TOKENS", cli::Table::kRight},
                                          {"TOKENS/S", cli::Table::kRight},
                                          {"RESIDENT", cli::Table::kRight},
                                          {"MOVED", cli::Table::kRight}})};
  AddRow("full", full, &report.table);
  AddRow("quest", sparse, &report.table);
  report.json["speed_ratio"] = TokensPerSecond(sparse) / std::max(TokensPerSecond(full), 1e-9);
  report.json["budget_ratio"] = sparse.budget_ratio();
  report.json["tokens_per_s_full"] = TokensPerSecond(full);
  report.json["tokens_per_s_sparse"] = TokensPerSecond(sparse);
  cli::AddMoved(sparse.moved, &report.json);
  report.json["context_tokens"] = sparse.context_tokens;
  report.json["steps"] = options.steps;
  report.json["model"] = model;
  report.json["device"] = options.device;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddDecodeBench(Benches& benches) {
  const auto options = std::make_shared<DecodeOptions>();
  CLI::App& command = benches.Add({.name = "decode",
                                   .summary = "Tokens per second of a model, full against sparse",
                                   .examples = "  quire bench decode --json\n"
                                               "  quire bench decode --model DIR --steps 256"},
                                  [options](const cli::CommandContext&) { return Run(*options); });
  command.add_option("--steps", options->steps, "Decoding steps measured")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
  cli::AddDataDirOption(command, &options->data_dir);
  cli::AddDeviceFlag(command, &options->device);
}

}  // namespace quire::bench
