// SPDX-License-Identifier: Apache-2.0
//
// Decode: the cost of a decode step with the pages in a server of another process. It is ablated:
// without speculation, without double buffering, and without contiguous units. It is compared with
// the policies of the rivals and with the same budget resident. It runs over every transport, and
// over an emulated slow network link. A step is of one sequence or of a batch. ShadowKV is also
// compared in a batch of four, for which the goal is set. From step to step as many selected pages
// change as published for FreeKV (14 to 28 %).
//
// The ratios at the top of the report are of one column: the report's own shape, over shared
// memory. Every other transport, the emulated link and every other shape has an object of its own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/read_file.h"
#include "apps/kit/worker/local_worker.h"
#include "bench/answers/calibrate_threshold.h"
#include "bench/benchmark.h"
#include "bench/decode/decode_run.h"
#include "bench/decode/length_costs.h"
#include "bench/decode/length_report.h"
#include "bench/decode/row_sessions.h"
#include "bench/kit/emulated_link.h"
#include "bench/kit/random_model.h"
#include "bench/transport/serve_process.h"
#include "gpuworker/device/cuda_device.h"
#include "kernels/cpu/gemm.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint64_t kServerRoomBytes = 256 << 20;
/// A model with the KV heads and units of an 8B model and little else. Recalls are therefore a
/// large share of a step, as on an accelerator. Its context is shorter, since the server holds it
/// twice.
constexpr RandomModel kAblationModel = {
    .num_layers = 4, .num_query_heads = 8, .num_kv_heads = 8, .intermediate_size = 512};
constexpr uint32_t kAblationContextTokens = 8192;
/// Layers of Llama 3.1 8B; --model-layers sets their number. The relative cost of offloading
/// depends on the other work of a step. The goal is therefore measured with the weights of a real
/// model.
constexpr RandomModel kModelLayers = {
    .num_query_heads = 32, .num_kv_heads = 8, .intermediate_size = 14336, .own_share = 0.15f};
constexpr char kSpeContextWay[] = "specontext";
constexpr uint32_t kMostSequences = 32;  ///< Most sequences of a batch.
/// Sequences of the additional comparison with ShadowKV.
constexpr uint32_t kShadowBatch = 4;
/// Shares of the document, in percent, that the budget is in the comparison by length.
constexpr std::pair<const char*, double> kBudgetShares[] = {
    {"25", 25}, {"12_5", 12.5}, {"6_25", 6.25}};
constexpr char kPlainTransport[] = "shm";  ///< Transport of the report's top ratios.
/// More than a comparison has; sizes the contexts on the server.
constexpr uint32_t kMostWays = 16;

/// Longest document of the comparison of ways; longer ones are compared by length.
constexpr uint32_t kMostContextTokens = 64 << 10;

struct DecodeOptions {
  std::vector<uint32_t> contexts = {32768};
  bool only_length = false;     ///< Compares by length alone.
  std::string earlier;          ///< File of a report by length.
  uint32_t context_tokens = 0;  ///< The one of `contexts`, for the comparison of ways.
  uint32_t budget_tokens = 2048;
  uint32_t batch = 1;  ///< Number of sequences.
  DecodeTurns turns;
  std::vector<std::string> transports = {"shm", "ucx", "grpc"};
  double link_us = 200;
  double link_gbps = 25;
  double deadline_ms = 5;          ///< Deadline of the service's recalls.
  float drift = 0.15f;             ///< RandomModel::own_share, except in the ablation.
  double host_cache_share = 0.25;  ///< Share of the document's bytes.
  uint32_t model_layers = 2;       ///< Number of kModelLayers; 0 leaves them out.
  std::string model;
  std::string data_dir;
  std::string device = "cpu";
  bool only_shares = false;  ///< Leaves out everything but the comparison by length.
};

worker::RetrievalOptions BudgetOf(const DecodeOptions& options, uint32_t page_tokens) {
  worker::RetrievalOptions budget;
  budget.budget_tokens = options.budget_tokens;
  budget.sink_tokens = 4 * page_tokens;
  budget.window_tokens = 4 * page_tokens;
  budget.uncompressed_layers = {};
  return budget;
}

/// A model, and a document for it on the server.
struct Bed {
  std::string model = {};
  KvSpec spec = {};
  DocumentName document = {};
  uint32_t pages = 0;
  cli::Json shape = {};   ///< Its description in the report.
  RowDocument rows = {};  ///< The document as rows, for the ways without contiguous units.
};

/// A server of another process with the documents, and the models.
struct Setting {
  std::unique_ptr<cli::DataDir> directory;
  std::unique_ptr<ServeProcess> server;
  worker::EngineOptions engine;
  Bed bed;
  /// A model for measuring the parts of a recall. Recalls are a large share of its steps, as in the
  /// paper's ablation; in `bed` they are a small one.
  Bed ablation;
  /// For offloading against the same budget resident; null if left out.
  std::optional<Bed> model_layers;

  std::vector<Bed*> Beds() {
    std::vector<Bed*> beds = {&bed, &ablation};
    if (model_layers) beds.push_back(&*model_layers);
    return beds;
  }
};

/// Makes a bed of the model in a directory, or of a random one, written into `directory`.
StatusOr<Bed> MakeBed(const std::string& model, const worker::EngineOptions& engine,
                      const std::string& directory, const std::string& name,
                      const RandomModel& random, uint32_t context_tokens) {
  Bed bed{.model = model, .document = {.collection = "bench", .name = name}};
  if (bed.model.empty()) {
    bed.model = directory + "/" + name;
    cli::ProgressBar progress("writing weights, " + name, 1);
    QUIRE_RETURN_IF_ERROR(WriteRandomModel(bed.model, random));
    progress.Advance(1);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto decoder,
                         worker::Decoder::Load(bed.model, &worker::CpuDevice()));
  bed.spec = decoder->MakeKvSpec(engine.dtype, engine.page_tokens, engine.segment_pages);
  bed.pages = context_tokens / bed.spec.segment_tokens() * bed.spec.segment_pages;
  if (bed.pages == 0 || context_tokens >= decoder->config().max_positions) {
    return InvalidArgument("--context is ", context_tokens, "; give ", bed.spec.segment_tokens(),
                           " or more, and less than the model's ", decoder->config().max_positions);
  }
  bed.shape = {{"model", model.empty() ? "random weights" : model},
               {"context_tokens", context_tokens},
               {"num_layers", bed.spec.num_layers},
               {"num_query_heads", bed.spec.num_query_heads},
               {"num_kv_heads", bed.spec.num_kv_heads},
               {"head_dim", bed.spec.head_dim},
               {"hidden_size", decoder->config().hidden_size},
               {"intermediate_size", decoder->config().intermediate_size}};
  return bed;
}

/// Checks that pages completed by a sequence stay in its window, because they do not exist as rows.
Status CheckTurns(const DecodeOptions& options, const worker::RetrievalOptions& budget,
                  uint32_t page_tokens) {
  const DecodeTurns& turns = options.turns;
  const uint64_t most = budget.window_tokens - page_tokens;
  if (turns.steps() <= most) return OkStatus();
  return InvalidArgument(turns.turns, " turns of ", turns.steps_per_turn, " steps with each of ",
                         turns.threads.size(), " numbers of threads, and ", turns.warm_up_steps,
                         " before them, are more than ", most,
                         " steps; give fewer with --turns or --steps");
}

StatusOr<Setting> Prepare(const DecodeOptions& options) {
  Setting setting;
  setting.engine.dtype = DType::kF16;
  QUIRE_RETURN_IF_ERROR(CheckTurns(options, BudgetOf(options, setting.engine.page_tokens),
                                   setting.engine.page_tokens));
  QUIRE_ASSIGN_OR_RETURN(setting.directory, cli::DataDir::Make(options.data_dir));
  const std::string& directory = setting.directory->path();
  QUIRE_ASSIGN_OR_RETURN(
      setting.bed, MakeBed(options.model, setting.engine, directory, "decode",
                           {.own_share = options.drift, .head = true}, options.context_tokens));
  QUIRE_ASSIGN_OR_RETURN(
      setting.ablation,
      MakeBed(options.model, setting.engine, directory, "ablation", kAblationModel,
              std::min(options.context_tokens, kAblationContextTokens)));
  if (options.model.empty() && options.model_layers > 0 && !options.only_shares) {
    RandomModel layers = kModelLayers;
    layers.num_layers = options.model_layers;
    QUIRE_ASSIGN_OR_RETURN(
        setting.model_layers,
        MakeBed("", setting.engine, directory, "model-layers", layers, options.context_tokens));
  }
  uint64_t dram = kServerRoomBytes;
  for (const Bed* bed : setting.Beds()) dram += 2 * SegmentBytes(bed->spec, bed->pages);
  const uint32_t contexts = kMostWays * std::max(options.batch, kShadowBatch);
  QUIRE_ASSIGN_OR_RETURN(
      setting.server, ServeProcess::Start(directory, {"--dram-bytes", std::to_string(dram),
                                                      "--max-contexts", std::to_string(contexts)}));
  QUIRE_ASSIGN_OR_RETURN(const auto client,
                         Client::Create({.transport = setting.server->control()}));
  for (Bed* bed : setting.Beds()) {
    QUIRE_RETURN_IF_ERROR(PutRandomDocument(*client, bed->spec, bed->pages, bed->document));
    QUIRE_ASSIGN_OR_RETURN(bed->rows, PutRowDocument(*client, bed->spec, bed->pages));
  }
  return setting;
}

/// Size of the service's host tier.
uint64_t HostCacheBytes(const Bed& bed, const DecodeOptions& options) {
  return static_cast<uint64_t>(options.host_cache_share *
                               static_cast<double>(SegmentBytes(bed.spec, bed.pages)));
}

/// A worker whose recalls come over one transport.
struct Lane {
  std::unique_ptr<Client> client;
  std::string detail;
  cli::LocalWorker worker;
  std::unique_ptr<RowSessions> row_sessions;
  std::unique_ptr<worker::Engine> rows_engine;  ///< The worker's model with rows.
  std::unique_ptr<worker::Engine> kept_engine;  ///< The worker's model with a host tier.
  const RowDocument* rows = nullptr;

  DecodeEngines engines() const {
    return {.units = worker.engine.get(),
            .kept = kept_engine.get(),
            .rows = rows_engine.get(),
            .client = client.get(),
            .row_document = rows};
  }
};

/// The lane's model in a separate engine.
StatusOr<std::unique_ptr<worker::Engine>> AnotherEngine(const Lane& lane,
                                                        const worker::EngineOptions& options,
                                                        const std::string& device_name) {
  QUIRE_ASSIGN_OR_RETURN(worker::Device* const device, worker::FindDevice(device_name));
  return worker::Engine::Create(lane.worker.decoder.get(), lane.client.get(), device, options);
}

StatusOr<Lane> Connect(const Setting& setting, const Bed& bed, const std::string& transport,
                       const LinkShape& link, const DecodeOptions& wanted) {
  Lane lane;
  QUIRE_ASSIGN_OR_RETURN(auto recalls, setting.server->ConnectRecalls(transport, &lane.detail));
  if (link.emulated()) recalls = std::make_shared<EmulatedLink>(std::move(recalls), link);
  QUIRE_ASSIGN_OR_RETURN(lane.client, Client::Create({.transport = setting.server->control(),
                                                      .data_transport = std::move(recalls)}));
  QUIRE_ASSIGN_OR_RETURN(lane.worker, cli::LoadLocalWorker(bed.model, lane.client.get(),
                                                           setting.engine, wanted.device));
  lane.rows = &bed.rows;
  lane.row_sessions = std::make_unique<RowSessions>(lane.client.get(), &bed.spec, lane.rows);
  worker::EngineOptions options = setting.engine;
  options.sessions = lane.row_sessions.get();
  QUIRE_ASSIGN_OR_RETURN(lane.rows_engine, AnotherEngine(lane, options, wanted.device));
  options = setting.engine;
  options.host_cache_bytes = HostCacheBytes(bed, wanted);
  QUIRE_ASSIGN_OR_RETURN(lane.kept_engine, AnotherEngine(lane, options, wanted.device));
  return lane;
}

double Milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// A quantile; Median(times) for a half.
double Quantile(std::vector<Duration> times, double share) {
  if (times.empty()) return 0;
  const auto index = static_cast<size_t>(share * static_cast<double>(times.size()));
  const auto at = times.begin() + static_cast<ptrdiff_t>(std::min(index, times.size() - 1));
  std::ranges::nth_element(times, at);
  return Milliseconds(*at);
}

/// Adds the ratios of a comparison, each the median over the turns. `spread` holds the number of
/// turns and their spread.
void AddRatios(const DecodeComparison& comparison, cli::Json* json) {
  const auto add = [&](const char* key, const char* slower, const char* faster) {
    const std::optional<RatioSpread> ratio = comparison.Ratio(slower, faster);
    if (!ratio) return;
    (*json)[key] = ratio->median;
    (*json)["spread"][key] = {{"median", ratio->median},
                              {"lower_quartile", ratio->lower_quartile},
                              {"upper_quartile", ratio->upper_quartile},
                              {"turns", ratio->turns}};
  };
  add("speculation_vs_blocking", "blocking", "freekv");
  add("contiguous_vs_fragmented", "fragmented", "one_buffer");
  add("double_vs_single_buffer", "one_buffer", "blocking");
  add("offloaded_vs_resident", "freekv", "resident");
  add("service_vs_resident", "service", "resident");
  add("vs_arkvale_blocking", "arkvale", "freekv");
  add("vs_shadowkv", "shadowkv", "freekv");
}

/// Reports a run. A step is a token of every sequence, and figures per step cover all of them.
cli::Json JsonOf(const DecodeRun& run, uint32_t num_layers) {
  const DecodeTotals& totals = run.totals;
  const auto steps = static_cast<double>(run.steps.size());
  const double layer_steps = steps * num_layers;
  return {
      {"step_ms_p50", Quantile(run.steps, 0.5)},
      {"step_ms_p99", Quantile(run.steps, 0.99)},
      {"stall_ms_per_step", totals.stall_seconds * 1e3 / steps},
      {"units_per_layer_step", static_cast<double>(totals.units_recalled) / layer_steps},
      {"bytes_per_step", static_cast<double>(totals.bytes_recalled) / steps},
      {"turnover", totals.units_selected == 0
                       ? 0.0
                       : static_cast<double>(totals.units_recalled + totals.units_from_host) /
                             static_cast<double>(totals.units_selected)},
      {"host_units_per_layer_step", static_cast<double>(totals.units_from_host) / layer_steps},
      {"late_layers_per_step", static_cast<double>(totals.late_recalls) / steps},
      {"late_corrections_per_step", static_cast<double>(totals.late_corrections) / steps},
      {"corrected_heads_per_layer_step", static_cast<double>(totals.blocking_heads) / layer_steps},
      {"recalls_per_step", static_cast<double>(totals.recalls) / steps},
      {"messages_per_step", static_cast<double>(totals.messages) / steps},
      {"attended_tokens", totals.attended_tokens},
      // Zeros on the CPU.
      {"launches_per_step", static_cast<double>(totals.used.launches) / steps},
      {"host_waits_per_step", static_cast<double>(totals.used.host_waits) / steps},
      {"steps", run.steps.size()}};
}

/// Adds tokens per second of each way, and SpeContext's over those of the others.
void AddThroughput(const DecodeComparison& comparison, uint32_t sequences, cli::Json* json) {
  for (const auto& [name, runs] : comparison.ways) {
    const double seconds = Quantile(comparison.Best(name).steps, 0.5) / 1e3;
    (*json)["tokens_per_second"][name] = sequences / std::max(seconds, 1e-9);
    const std::optional<RatioSpread> ratio = comparison.Ratio(name, kSpeContextWay);
    if (ratio && name != kSpeContextWay) (*json)["specontext_vs_" + name] = ratio->median;
  }
}

/// Reports each way at its fastest number of threads, and the steps of all.
cli::Json JsonOf(const DecodeComparison& comparison, uint32_t num_layers) {
  cli::Json json;
  AddRatios(comparison, &json);
  for (const auto& [name, runs] : comparison.ways) {
    cli::Json& way = json["ways"][name] = JsonOf(comparison.Best(name), num_layers);
    way["threads"] = comparison.BestThreads(name);
    for (const auto& [threads, run] : runs) {
      way["step_ms_p50_by_threads"][std::to_string(threads)] = Quantile(run.steps, 0.5);
    }
  }
  return json;
}

void AddRows(const std::string& path, const DecodeComparison& comparison, cli::Table* table) {
  for (const auto& [name, runs] : comparison.ways) {
    const DecodeRun& run = comparison.Best(name);
    const auto steps = static_cast<double>(run.steps.size());
    table->AddRow({path, name, std::to_string(comparison.BestThreads(name)),
                   cli::FormatRatio(Quantile(run.steps, 0.5), 2),
                   cli::FormatRatio(Quantile(run.steps, 0.99), 2),
                   cli::FormatRatio(run.totals.stall_seconds * 1e3 / steps, 2),
                   cli::FormatBytes(static_cast<uint64_t>(
                       static_cast<double>(run.totals.bytes_recalled) / steps))});
  }
}

/// The comparison, transport by transport and then over the emulated link.
class DecodeBench {
 public:
  DecodeBench(const DecodeOptions& options, const Setting& setting)
      : options_(options),
        setting_(setting),
        budget_(BudgetOf(options, setting.bed.spec.page_tokens)),
        report_{.json = {{"benchmark", "decode"}},
                .table = cli::Table({{"PAGES OVER"},
                                     {"WAY"},
                                     {"THREADS", cli::Table::kRight},
                                     {"STEP MS", cli::Table::kRight},
                                     {"P99", cli::Table::kRight},
                                     {"STALL", cli::Table::kRight},
                                     {"A STEP", cli::Table::kRight}})} {}

  StatusOr<BenchReport> Run() {
    // Runs every way over every transport, and over the emulated link with the first available one.
    bool first = true;
    for (const std::string& transport : options_.transports) {
      auto lane = Connect(setting_, setting_.bed, transport, {}, options_);
      if (!lane.ok()) {
        report_.json["absent"][transport] = Message(lane.status());
        continue;
      }
      if (first) QUIRE_RETURN_IF_ERROR(RunShares(transport, *lane));
      if (options_.only_shares) {
        first = false;
        break;
      }
      QUIRE_RETURN_IF_ERROR(RunTransport(transport, *lane));
      if (first) QUIRE_RETURN_IF_ERROR(RunShadowBatch(transport, *lane));
      QUIRE_RETURN_IF_ERROR(RunAblation(transport, {}));
      QUIRE_RETURN_IF_ERROR(RunModelLayers(transport, {}));
      if (first && Link().emulated()) {
        QUIRE_RETURN_IF_ERROR(RunLink(transport));
        QUIRE_RETURN_IF_ERROR(RunAblation(transport, Link()));
        QUIRE_RETURN_IF_ERROR(RunModelLayers(transport, Link()));
      }
      first = false;
    }
    if (first) return Unavailable("none of the transports works");
    AddSizes();
    return std::move(report_);
  }

 private:
  using Names = std::vector<std::string>;

  LinkShape Link() const {
    return {.round_trip = std::chrono::nanoseconds(static_cast<int64_t>(options_.link_us * 1e3)),
            .bytes_per_second = options_.link_gbps * 1e9 / 8};
  }

  Duration Deadline() const {
    return std::chrono::nanoseconds(static_cast<int64_t>(options_.deadline_ms * 1e6));
  }

  /// Compares the named ways over `document`, with that many sequences each. Without a retrieval
  /// head SpeContext does not take part.
  StatusOr<DecodeComparison> Compare(const Lane& lane, const Bed& bed, const DocumentName& document,
                                     const Names& names, uint32_t sequences) {
    std::optional<float>& tau = taus_[bed.document.name];
    if (!tau) {
      QUIRE_ASSIGN_OR_RETURN(
          tau, CalibrateDecoding(*lane.worker.engine, bed.document, budget_, kCorrectedShare));
    }
    QUIRE_ASSIGN_OR_RETURN(std::vector<DecodeWay> ways,
                           DecodeWays(budget_, bed.spec.page_tokens, *tau, Deadline()));
    const bool head = lane.worker.engine->options().head != nullptr;
    std::erase_if(ways, [&](const DecodeWay& way) {
      return std::ranges::find(names, way.name) == names.end() ||
             (way.name == kSpeContextWay && !head);
    });
    return CompareDecoding(lane.engines(), document, ways, options_.turns, sequences);
  }
  StatusOr<DecodeComparison> Compare(const Lane& lane, const Bed& bed, const Names& names,
                                     uint32_t sequences) {
    return Compare(lane, bed, bed.document, names, sequences);
  }

  Status RunTransport(const std::string& transport, const Lane& lane) {
    QUIRE_ASSIGN_OR_RETURN(const DecodeComparison comparison,
                           Compare(lane, setting_.bed, kAllWays, options_.batch));
    if (transport == kPlainTransport) {
      AddRatios(comparison, &report_.json);
      report_.json["transport"] = transport;
      report_.json["resident_threads"] = comparison.BestThreads("resident");
    }
    cli::Json& json = report_.json["transports"][transport] =
        JsonOf(comparison, setting_.bed.spec.num_layers);
    json["detail"] = lane.detail;
    AddRows(transport, comparison, &report_.table);
    return OkStatus();
  }

  /// Compares ShadowKV in the goal's batch, unless the report already is of that.
  Status RunShadowBatch(const std::string& transport, const Lane& lane) {
    if (options_.batch == kShadowBatch) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const DecodeComparison comparison,
                           Compare(lane, setting_.bed, kShadow, kShadowBatch));
    cli::Json json = JsonOf(comparison, setting_.bed.spec.num_layers);
    json["batch"] = kShadowBatch;
    json["transport"] = transport;
    report_.json["shadowkv_batch4"] = std::move(json);
    AddRows(transport + ", batch " + std::to_string(kShadowBatch), comparison, &report_.table);
    return OkStatus();
  }

  /// Compares throughput at the lengths at which the budget is each of kBudgetShares. The shorter
  /// documents are the first pages of the report's own.
  Status RunShares(const std::string& transport, const Lane& lane) {
    for (const auto& [name, share] : kBudgetShares) {
      const Bed& bed = setting_.bed;
      const auto tokens = static_cast<uint32_t>(options_.budget_tokens * 100 / share);
      const uint32_t pages = tokens / bed.spec.segment_tokens() * bed.spec.segment_pages;
      if (pages == 0 || pages > bed.pages) continue;
      const DocumentName document{.collection = "bench",
                                  .name = "decode-" + std::to_string(tokens)};
      QUIRE_RETURN_IF_ERROR(PutRandomDocument(*lane.client, bed.spec, pages, document));
      QUIRE_ASSIGN_OR_RETURN(const DecodeComparison comparison,
                             Compare(lane, bed, document, kOfShares, options_.batch));
      cli::Json& json = report_.json["budget_shares"][name] =
          JsonOf(comparison, bed.spec.num_layers);
      AddThroughput(comparison, options_.batch, &json);
      json["context_tokens"] = tokens;
      json["transport"] = transport;
      AddRows("budget " + cli::FormatRatio(share, 2) + " %", comparison, &report_.table);
    }
    if (report_.json.contains("budget_shares") || !options_.only_shares) return OkStatus();
    return InvalidArgument("--context is ", options_.context_tokens, ", less than four budgets of ",
                           options_.budget_tokens, "; raise it, or lower --budget");
  }

  Status RunLink(const std::string& transport) {
    QUIRE_ASSIGN_OR_RETURN(const Lane lane,
                           Connect(setting_, setting_.bed, transport, Link(), options_));
    QUIRE_ASSIGN_OR_RETURN(const DecodeComparison comparison,
                           Compare(lane, setting_.bed, kAllWays, options_.batch));
    cli::Json& json = report_.json["over_emulated_link"] =
        JsonOf(comparison, setting_.bed.spec.num_layers);
    DescribeLink(transport, &json);
    AddRows("link", comparison, &report_.table);
    return OkStatus();
  }

  /// Measures what the parts of a recall contribute, over a transport or over the link. Recalls are
  /// a large share of this model's steps.
  Status RunAblation(const std::string& transport, const LinkShape& link) {
    return RunBed(setting_.ablation, kAblated, "ablation", transport, link,
                  &report_.json["ablation"]);
  }

  /// Measures the cost of offloading for a real model, over a transport or over the link.
  Status RunModelLayers(const std::string& transport, const LinkShape& link) {
    if (!setting_.model_layers) return OkStatus();
    return RunBed(*setting_.model_layers, kOffloaded, "model layers", transport, link,
                  &report_.json["model_layers"]);
  }

  /// Compares the named ways over a transport or over the link, for `json`.
  Status RunBed(const Bed& bed, const Names& names, const std::string& title,
                const std::string& transport, const LinkShape& link, cli::Json* json) {
    QUIRE_ASSIGN_OR_RETURN(const Lane lane, Connect(setting_, bed, transport, link, options_));
    QUIRE_ASSIGN_OR_RETURN(const DecodeComparison comparison,
                           Compare(lane, bed, names, options_.batch));
    cli::Json& part =
        link.emulated() ? (*json)["over_emulated_link"] : (*json)["transports"][transport];
    part = JsonOf(comparison, bed.spec.num_layers);
    if (link.emulated()) DescribeLink(transport, &part);
    AddRows(title + ", " + (link.emulated() ? std::string("link") : transport), comparison,
            &report_.table);
    return OkStatus();
  }

  void DescribeLink(const std::string& transport, cli::Json* json) const {
    (*json)["carried_by"] = transport;
    (*json)["link_us"] = options_.link_us;
    (*json)["link_gbps"] = options_.link_gbps;
  }

  void AddSizes() {
    const KvSpec& spec = setting_.bed.spec;
    const Bed& ablation = setting_.ablation;
    report_.json.update(setting_.bed.shape);
    report_.json.update(cli::DescribeDevice(options_.device));
    report_.json.update(cli::Json{{"budget_tokens", options_.budget_tokens},
                                  {"sink_tokens", budget_.sink_tokens},
                                  {"window_tokens", budget_.window_tokens},
                                  {"page_tokens", spec.page_tokens},
                                  {"unit_bytes", UnitBytes(spec)},
                                  {"tau", *taus_[setting_.bed.document.name]},
                                  {"corrected_share_wanted", kCorrectedShare},
                                  {"batch", options_.batch},
                                  {"service",
                                   {{"deadline_ms", options_.deadline_ms},
                                    {"host_cache_bytes", HostCacheBytes(setting_.bed, options_)}}},
                                  {"warm_up_steps", options_.turns.warm_up_steps},
                                  {"turns", options_.turns.turns},
                                  {"steps_per_turn", options_.turns.steps_per_turn},
                                  {"threads_tried", options_.turns.threads},
                                  {"machine", Machine()}});
    if (options_.only_shares) return;
    report_.json["ablation"].update(cli::Json{{"shape", ablation.shape},
                                              {"fragment_bytes", UnitBytes(ablation.rows.spec)},
                                              {"fragments_per_unit", ablation.spec.page_tokens},
                                              {"tau", *taus_[ablation.document.name]}});
    if (!setting_.model_layers) return;
    const Bed& layers = *setting_.model_layers;
    report_.json["model_layers"].update(
        cli::Json{{"shape", layers.shape}, {"tau", *taus_[layers.document.name]}});
  }

  const DecodeOptions& options_;
  const Setting& setting_;
  const worker::RetrievalOptions budget_;
  const Names kAllWays = {"freekv",  "service",  "blocking",     "one_buffer", "fragmented",
                          "arkvale", "shadowkv", kSpeContextWay, "resident"};
  const Names kOfShares = {"full", "freekv", "shadowkv", kSpeContextWay};
  const Names kAblated = {"freekv", "blocking", "one_buffer", "fragmented", "resident"};
  const Names kShadow = {"freekv", "shadowkv"};
  const Names kOffloaded = {"freekv", "blocking", "resident"};
  std::map<std::string, std::optional<float>> taus_;  ///< By document.
  BenchReport report_;
};

/// True if costs by length are measured, false for every way at one context.
bool ComparesLengths(const DecodeOptions& options) {
  return options.only_length || options.contexts.size() > 1 ||
         options.contexts.front() > kMostContextTokens;
}

StatusOr<LengthCosts> ReadLengths(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, cli::ReadTextFile(path));
  const cli::Json json = cli::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  StatusOr<LengthCosts> costs = LengthCostsOf(json);
  if (!costs.ok()) return Annotate(costs.status(), path);
  return costs;
}

StatusOr<BenchReport> RunLengths(const DecodeOptions& options) {
  if (!options.model.empty()) {
    return InvalidArgument("costs by length are of a model of random weights; leave --model out");
  }
  LengthOptions lengths{.lengths = options.contexts,
                        .budget_tokens = options.budget_tokens,
                        .drift = options.drift,
                        .transport = options.transports.front(),
                        .data_dir = options.data_dir,
                        .device = options.device};
  lengths.turns.threads = {options.turns.threads.back()};  // Long steps have work for all.
  std::optional<LengthCosts> earlier;
  if (!options.earlier.empty()) {
    QUIRE_ASSIGN_OR_RETURN(earlier, ReadLengths(options.earlier));
    lengths.tau = earlier->tau;
    lengths.agent = earlier->agents.empty();
  }
  QUIRE_ASSIGN_OR_RETURN(LengthCosts costs, MeasureLengths(lengths));
  if (earlier) QUIRE_RETURN_IF_ERROR(Annotate(AddEarlier(*earlier, &costs), options.earlier));
  BenchReport report{.json = LengthJson(costs), .table = LengthTable(costs)};
  report.json.update(cli::DescribeDevice(options.device));
  report.json.update(cli::Json{{"transport", lengths.transport},
                               {"budget_tokens", options.budget_tokens},
                               {"warm_up_steps", lengths.turns.warm_up_steps},
                               {"steps", lengths.turns.steps_per_turn},
                               {"threads_tried", lengths.turns.threads},
                               {"machine", Machine()}});
  return report;
}

/// Costs by length where there are any, else throughput by budget, else steps of every way.
StatusOr<Plot> PlotOf(const cli::Json& report) {
  static const Plotter others =
      PlotterOf({{.title = "Tokens a second under a budget of 2,048 tokens",
                  .place_title = "Ki tokens of the document",
                  .value_title = "tokens a second",
                  .lines = {{.figures = R"(/budget_shares/([^/]+)/tokens_per_second/(\w+))",
                             .name = "$2",
                             .place = "{/budget_shares/$1/context_tokens}",
                             .place_times = 1.0 / 1024}}},
                 {.title = "A decode step, by transport",
                  .value_title = "ms a step",
                  .bars = {{.figures = R"(/transports/(\w+)/ways/(\w+)/step_ms_p50)",
                            .name = "$1",
                            .place = "$2"}}}});
  if (!report.contains("by_length") || report["by_length"].empty()) return others(report);
  QUIRE_ASSIGN_OR_RETURN(const LengthCosts costs, LengthCostsOf(report));
  return Plot(LengthPlot(costs));
}

StatusOr<BenchReport> Run(DecodeOptions options) {
  // A model on a GPU runs its products there.
  options.turns.threads =
      options.device == "cpu" ? ThreadsToTry() : std::vector<uint32_t>{kernels::GemmThreads()};
  if (ComparesLengths(options)) return RunLengths(options);
  if (!options.earlier.empty()) {
    return InvalidArgument("--with is a report of costs by length; add --only-length");
  }
  options.context_tokens = options.contexts.front();
  QUIRE_ASSIGN_OR_RETURN(const Setting setting, Prepare(options));
  return DecodeBench(options, setting).Run();
}

}  // namespace

void AddDecodeBench(Benches& benches) {
  const auto options = std::make_shared<DecodeOptions>();
  CLI::App& command = benches.Add(
      {.name = "decode",
       .summary = "Step and stall time with pages in a remote server, ablated, beside rivals",
       .examples =
           "  quire bench decode --json\n"
           "  quire bench decode --context 8192 --budget 1024 --transports shm\n"
           "  quire bench decode --batch 4 --transports shm\n"
           "  quire bench decode --model DIR --link-us 500 --link-gbps 10\n"
           "  quire bench decode --model-layers 0\n"
           "  quire bench decode --only-shares --transports shm\n"
           "  quire bench decode --context 131072\n"
           "  quire bench decode --context 32768,131072,524288,1048576 --plot length.svg --json\n"
           "The ratios are of step times, the rival's over ours, except\n"
           "offloaded_vs_resident, which is ours over that of the same budget resident, and\n"
           "service_vs_resident, which is the same where the worker keeps units in its memory\n"
           "and its layers do not wait longer than a deadline. Those at the top of the JSON are\n"
           "of the shape that stands there, over shared memory; those of other transports, of\n"
           "the emulated link and of other shapes are in objects of their own: transports,\n"
           "over_emulated_link, ablation, model_layers (--model-layers layers with the shapes of\n"
           "Llama 3.1 8B, of 0.9 GB of weights each) and shadowkv_batch4. budget_shares has the\n"
           "throughput of SpeContext and others, over documents that the budget is 25 %, 12.5 % "
           "and\n"
           "6.25 % of. by_length has step, scoring, stall, bytes and memory of full attention,\n"
           "FreeKV and SpeContext by length, with one and four sequences; agents has a run over\n"
           "142 Ki tokens that generates 444. Pages of these documents are written straight into\n"
           "the store. A million tokens take 10 GB of memory. On a processor every\n"
           "way decodes with one thread and with all, and counts with what is faster for it\n"
           "(threads; resident_threads is that of the budget resident).\n"
           "A step is a token of every sequence of --batch; all continue one document, and\n"
           "figures per step are of all of them."},
      [options](const cli::CommandContext&) { return Run(*options); }, {.plot = PlotOf});
  command
      .add_option(
          "--context", options->contexts,
          "Tokens of the document, in whole segments. Above 65536, or several of them: the\n"
          "costs by length, of one and of four sequences")
      ->delimiter(',')
      ->capture_default_str();
  command.add_flag("--only-length", options->only_length,
                   "Compare the costs by length alone (by_length), also below 65537 tokens");
  command.add_option("--with", options->earlier,
                     "Report of costs by length whose other lengths are shown beside this run's");
  command.add_option("--budget", options->budget_tokens, "Tokens resident per KV head")
      ->capture_default_str();
  command
      .add_option("--batch", options->batch,
                  "Sequences that every way decodes together; 1 is a sequence by itself")
      ->check(CLI::Range(1u, kMostSequences))
      ->capture_default_str();
  command.add_option("--turns", options->turns.turns, "Turns of every way")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--steps", options->turns.steps_per_turn, "Decoding steps of a turn")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      .add_option("--transports", options->transports,
                  "What recalls come over; the first is also slowed down to the emulated link")
      ->delimiter(',')
      ->check(CLI::IsMember({"shm", "ucx", "grpc"}))
      ->capture_default_str();
  command
      .add_option("--link-us", options->link_us,
                  "Round trip of the emulated link; with --link-gbps 0 too there is none")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--link-gbps", options->link_gbps, "Gigabits a second of the emulated link")
      ->check(CLI::Range(0.0, 1e4))
      ->capture_default_str();
  command
      .add_option("--drift", options->drift,
                  "Of the random model's embeddings, the share that is a token's own: how many of "
                  "the pages selected change from step to step (turnover in the report)")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command
      .add_option("--deadline-ms", options->deadline_ms,
                  "The way \"service\": layers go on without what is later than this; 0: never")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--host-cache-share", options->host_cache_share,
                  "The way \"service\": units are kept in the worker's memory, in this share of\n"
                  "the document's bytes")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--model-layers", options->model_layers,
                  "Layers with the shapes of Llama 3.1 8B that offloading is measured with, too,\n"
                  "as many GB of memory and disk; 0: none; --model has none")
      ->check(CLI::Range(0u, 32u))
      ->capture_default_str();
  command.add_flag("--only-shares", options->only_shares,
                   "Compare throughput by length alone (budget_shares)");
  command.add_option("--model", options->model,
                     "Directory of the model (one of random weights when not given)");
  cli::AddDataDirOption(command, &options->data_dir);
  cli::AddDeviceFlag(command, &options->device);
}

}  // namespace quire::bench
