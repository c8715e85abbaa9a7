// SPDX-License-Identifier: Apache-2.0
//
// Step: launches of a decode step, and waits of the host for the device, for batches of 1, 4 and 16
// sequences. They depend on the program alone, so the emulated device counts what a GPU would. All
// sequences continue one document; each has its own tokens. Means are over the steps in which every
// sequence completes a page a layer, behind those that open the sequences.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/worker/head_choice.h"
#include "bench/benchmark.h"
#include "bench/kit/published_options.h"
#include "bench/kit/random_model.h"
#include "bench/step/emulated_device.h"
#include "common/base/random.h"
#include "gpuworker/device/cuda_device.h"
#include "gpuworker/engine/batch/batch.h"
#include "kvserver/embedded/embedded_store.h"

namespace quire::bench {
namespace {

constexpr char kEmulated[] = "emulated";
constexpr uint32_t kBatches[] = {1, 4, 16};
constexpr const char* kCountedPolicies[] = {"freekv", "specontext"};
constexpr uint32_t kWarmUpSteps = 4;
constexpr uint32_t kTokensOfPage = 16;
constexpr uint32_t kPagesOfDocument = 32;
constexpr uint32_t kBudgetPages = 8;

struct StepOptions {
  uint32_t layers = 4;
  uint32_t pages = 1;  ///< Pages that a sequence completes while steps are counted.
  float temperature = 0;
  std::string device = kEmulated;
  std::string data_dir;

  uint32_t steps() const { return pages * kTokensOfPage; }
};

const DocumentName& DocumentOfSteps() {
  static const auto* const name = new DocumentName{.collection = "bench", .name = "step"};
  return *name;
}

/// A store with the document, and an engine on the device.
struct StepBed {
  std::unique_ptr<cli::DataDir> directory;
  std::unique_ptr<EmbeddedStore> store;
  std::unique_ptr<Client> client;
  worker::Device* device = nullptr;
  std::unique_ptr<worker::Decoder> decoder;
  std::unique_ptr<worker::Engine> engine;
};

Status LoadModel(const StepOptions& options, StepBed* bed) {
  const std::string model = bed->directory->path() + "/model";
  QUIRE_RETURN_IF_ERROR(WriteRandomModel(model, {.num_layers = options.layers,
                                                 .num_query_heads = 4,
                                                 .num_kv_heads = 2,
                                                 .head_dim = 32,
                                                 .intermediate_size = 128,
                                                 .max_positions = 1 << 20,
                                                 .head = true}));
  QUIRE_ASSIGN_OR_RETURN(bed->decoder, worker::Decoder::Load(model, bed->device));
  worker::EngineOptions engine;
  engine.dtype = DType::kF16;
  engine.page_tokens = kTokensOfPage;
  QUIRE_ASSIGN_OR_RETURN(engine.head, cli::LoadRetrievalHead(model, bed->decoder->config(), {}));
  QUIRE_ASSIGN_OR_RETURN(bed->engine, worker::Engine::Create(bed->decoder.get(), bed->client.get(),
                                                             bed->device, engine));
  return OkStatus();
}

StatusOr<StepBed> MakeStepBed(const StepOptions& options) {
  StepBed bed;
  QUIRE_ASSIGN_OR_RETURN(bed.device, options.device == kEmulated
                                         ? EmulatedDevice()
                                         : worker::FindDevice(options.device));
  QUIRE_ASSIGN_OR_RETURN(bed.directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(bed.store, EmbeddedStore::Open({.data_dir = bed.directory->path()}));
  QUIRE_ASSIGN_OR_RETURN(bed.client, Client::Create({.transport = bed.store->transport()}));
  QUIRE_RETURN_IF_ERROR(LoadModel(options, &bed));
  QUIRE_RETURN_IF_ERROR(
      PutRandomDocument(*bed.client, bed.engine->spec(), kPagesOfDocument, DocumentOfSteps()));
  return bed;
}

/// Means over the steps that are counted.
struct StepCosts {
  double launches = 0;
  double host_waits = 0;
};

class CountedBatch {
 public:
  static StatusOr<CountedBatch> Open(const StepBed& bed, const std::string& policy,
                                     uint32_t sequences, float temperature) {
    CountedBatch counted;
    const worker::BatchLimits limits{.max_running = sequences, .max_waiting = sequences};
    QUIRE_ASSIGN_OR_RETURN(counted.batch_, worker::Batch::Create(bed.engine.get(), limits));
    worker::BatchRequest request{.document = DocumentOfSteps()};
    const worker::RetrievalOptions budget{.budget_tokens = kBudgetPages * kTokensOfPage,
                                          .sink_tokens = kTokensOfPage,
                                          .window_tokens = 2 * kTokensOfPage,
                                          .uncompressed_layers = {}};
    QUIRE_ASSIGN_OR_RETURN(request.retrieval, PublishedWithin(budget, policy, kTokensOfPage));
    request.params.max_new_tokens = 1 << 20;
    request.params.temperature = temperature;
    for (uint32_t i = 0; i < sequences; ++i) {
      request.prompt = {
          static_cast<TokenId>(SeededRandom(i + 1).Below(bed.engine->model().vocab_size))};
      request.params.seed = i + 1;
      QUIRE_ASSIGN_OR_RETURN(counted.streams_.emplace_back(), counted.batch_->Submit(request));
    }
    return counted;
  }

  /// Every sequence generates a token.
  Status Step() {
    batch_->Step();
    for (const auto& stream : streams_) {
      if (!stream->WaitFor(Duration::zero())) return Internal("a sequence had no part in a step");
      QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> token, stream->Next());
      if (!token) return Internal("a sequence ended before the steps were counted");
    }
    return OkStatus();
  }

 private:
  CountedBatch() = default;

  std::unique_ptr<worker::Batch> batch_;
  std::vector<std::shared_ptr<worker::BatchStream>> streams_;
};

StatusOr<StepCosts> CountSteps(const StepBed& bed, const StepOptions& options,
                               const std::string& policy, uint32_t sequences) {
  QUIRE_ASSIGN_OR_RETURN(CountedBatch batch,
                         CountedBatch::Open(bed, policy, sequences, options.temperature));
  for (uint32_t step = 0; step < kWarmUpSteps; ++step) QUIRE_RETURN_IF_ERROR(batch.Step());
  const worker::DeviceUse before = bed.device->use();
  for (uint32_t step = 0; step < options.steps(); ++step) QUIRE_RETURN_IF_ERROR(batch.Step());
  const worker::DeviceUse used = bed.device->use() - before;
  const double steps = options.steps();
  return StepCosts{.launches = static_cast<double>(used.launches) / steps,
                   .host_waits = static_cast<double>(used.host_waits) / steps};
}

/// Reports the costs of a policy, and how they grow from the smallest batch to the largest.
cli::Json JsonOf(const std::map<uint32_t, StepCosts>& costs) {
  cli::Json json;
  for (const auto& [sequences, cost] : costs) {
    const std::string batch = std::to_string(sequences);
    json["launches_per_step"][batch] = cost.launches;
    json["host_waits_per_step"][batch] = cost.host_waits;
  }
  const StepCosts& one = costs.begin()->second;
  const StepCosts& most = costs.rbegin()->second;
  json["launches_growth_1_to_16"] = most.launches / one.launches;
  json["host_waits_growth_1_to_16"] = most.host_waits / one.host_waits;
  return json;
}

void AddStepRow(const std::string& policy, uint32_t sequences, const StepCosts& cost,
                cli::Table* table) {
  table->AddRow({policy, std::to_string(sequences), cli::FormatRatio(cost.launches, 1),
                 cli::FormatRatio(cost.host_waits, 2)});
}

StatusOr<BenchReport> RunSteps(const StepOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const StepBed bed, MakeStepBed(options));
  BenchReport report{.json = {{"benchmark", "step"}},
                     .table = cli::Table({{"POLICY"},
                                          {"SEQUENCES", cli::Table::kRight},
                                          {"LAUNCHES A STEP", cli::Table::kRight},
                                          {"HOST WAITS A STEP", cli::Table::kRight}})};
  cli::Json policies;
  double launches = 0, host_waits = 0;
  for (const char* const policy : kCountedPolicies) {
    std::map<uint32_t, StepCosts> costs;
    for (const uint32_t sequences : kBatches) {
      QUIRE_ASSIGN_OR_RETURN(costs[sequences], CountSteps(bed, options, policy, sequences));
      AddStepRow(policy, sequences, costs[sequences], &report.table);
    }
    const cli::Json& json = policies[policy] = JsonOf(costs);
    launches = std::max(launches, json.at("launches_growth_1_to_16").get<double>());
    host_waits = std::max(host_waits, json.at("host_waits_growth_1_to_16").get<double>());
  }
  report.json["launches_growth_1_to_16"] = launches;
  report.json["host_waits_growth_1_to_16"] = host_waits;
  report.json["policies"] = std::move(policies);
  report.json.update(cli::Json{{"device", options.device},
                               {"gpu", bed.device->hardware()},
                               {"num_layers", options.layers},
                               {"context_tokens", kPagesOfDocument * kTokensOfPage},
                               {"budget_tokens", kBudgetPages * kTokensOfPage},
                               {"page_tokens", kTokensOfPage},
                               {"steps", options.steps()},
                               {"temperature", options.temperature},
                               {"machine", Machine()}});
  return report;
}

}  // namespace

void AddStepBench(Benches& benches) {
  const auto options = std::make_shared<StepOptions>();
  CLI::App& command = benches.Add(
      {.name = "step",
       .summary = "Launches and host waits of a decode step, for batches of 1, 4 and 16",
       .examples =
           "  quire bench step --json\n"
           "  quire bench step --layers 8 --temperature 0.8\n"
           "  quire bench step --device cuda\n"
           "Launches are kernels and recorded stretches. Waits are calls of the host for\n"
           "work that the device has not done. On the emulated device that is all work, so\n"
           "its waits are the most that a GPU has. A step waits once for its tokens, and\n"
           "once for each layer whose queries select (docs/design/0057). The figures at\n"
           "the top of the JSON are of the policy that grows most."},
      [options](const cli::CommandContext&) { return RunSteps(*options); },
      {.plot = PlotterOf({{.title = "Launches of a decode step",
                           .place_title = "sequences of the batch",
                           .value_title = "launches a step",
                           .lines = {{.figures = R"(/policies/([^/]+)/launches_per_step/(\d+))",
                                      .name = "$1",
                                      .place = "$2"}}}})});
  command.add_option("--layers", options->layers, "Layers of the random model")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command
      .add_option("--pages", options->pages,
                  "Pages of 16 tokens that every sequence completes while steps are counted")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command
      .add_option("--temperature", options->temperature,
                  "Tokens are drawn; 0: each is the likeliest, chosen on the device")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--device", options->device, "Where the model runs")
      ->check(CLI::IsMember({kEmulated, "cuda"}))
      ->capture_default_str();
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
