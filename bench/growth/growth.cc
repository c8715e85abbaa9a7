// SPDX-License-Identifier: Apache-2.0
//
// Growth: tokens a second of a sequence that outgrows the slots of its device. Layers leave the
// device one after the other (SpeContext, Algorithm 2). The rival is static offloading, which takes
// all layers off with the first that has to be. Beside them stand the two ends: a device without a
// limit, and one with every layer off. All ways decode the same tokens behind the same document in
// turns. Pages are in a server of another process.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/worker/local_worker.h"
#include "bench/benchmark.h"
#include "bench/kit/published_options.h"
#include "bench/kit/random_model.h"
#include "bench/transport/serve_process.h"
#include "common/base/observe/metrics.h"
#include "common/base/random.h"
#include "gpuworker/engine/batch/batch.h"
#include "kernels/cpu/gemm.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint64_t kGrowthRoomBytes = 256 << 20;
constexpr uint64_t kSeed = 3;
constexpr float kUniform = 1e30f;  ///< Temperature at which all tokens are equally likely.
constexpr uint32_t kTurnTokens = 8;
constexpr char kOurs[] = "layer_by_layer";
constexpr char kRival[] = "all_at_once";

struct GrowthOptions {
  uint32_t context_tokens = 4096;
  uint32_t growth_tokens = 3072;
  uint32_t window_tokens = 256;
  uint32_t budget_tokens = 512;
  uint32_t layers = 16;
  uint64_t slot_bytes = 0;
  std::string policy = "quest";
  std::string transport = "shm";
  std::string device = "cpu";
  std::string data_dir;
};

/// Figures of a way in one window of lengths.
struct Window {
  double step_ms = 0;  ///< Median.
  double most_ms = 0;
  uint64_t offloaded = 0;   ///< Layers at its end.
  uint64_t slot_bytes = 0;  ///< Most at a time.
};

double StepMilliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// One way: a batch of one sequence.
class Way {
 public:
  Way(std::string name, worker::OffloadRule rule, uint64_t slot_bytes)
      : name_(std::move(name)), rule_(rule), slot_bytes_(slot_bytes) {}

  const std::string& name() const { return name_; }
  const std::vector<Window>& windows() const { return windows_; }

  Status Open(const worker::Engine& engine, worker::BatchRequest request) {
    QUIRE_ASSIGN_OR_RETURN(batch_, worker::Batch::Create(&engine, {.max_running = 1,
                                                                   .step_tokens = 1,
                                                                   .slot_bytes = slot_bytes_,
                                                                   .offload = rule_}));
    QUIRE_ASSIGN_OR_RETURN(stream_, batch_->Submit(std::move(request)));
    return Step().status();  // Opens the sequence.
  }

  /// Decodes `tokens` of a window.
  Status Run(uint32_t tokens) {
    for (uint32_t i = 0; i < tokens; ++i) {
      QUIRE_ASSIGN_OR_RETURN(const Duration time, Step());
      steps_.push_back(StepMilliseconds(time));
      slot_bytes_used_ = std::max(slot_bytes_used_, batch_->Stats().front().slot_bytes);
    }
    return OkStatus();
  }
  void EndWindow() {
    Window window{.most_ms = *std::ranges::max_element(steps_),
                  .offloaded = MetricValuesOf(*batch_).at("batch_offloaded_layers"),
                  .slot_bytes = std::exchange(slot_bytes_used_, 0)};
    const auto middle = steps_.begin() + static_cast<ptrdiff_t>(steps_.size() / 2);
    std::ranges::nth_element(steps_, middle);
    window.step_ms = *middle;
    steps_.clear();
    windows_.push_back(window);
  }

  /// Tokens generated so far.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  double TokensPerSecond(size_t window) const { return 1e3 / windows_[window].step_ms; }
  /// The largest share of throughput that is lost from one window to the next.
  double LargestStepLoss() const {
    double loss = 0;
    for (size_t i = 1; i < windows_.size(); ++i) {
      loss = std::max(loss, 1 - TokensPerSecond(i) / TokensPerSecond(i - 1));
    }
    return loss;
  }
  cli::Json ToJson() const {
    cli::Json json = {{"largest_step_loss", LargestStepLoss()}};
    for (size_t i = 0; i < windows_.size(); ++i) {
      json["tokens_per_second"].push_back(TokensPerSecond(i));
      json["offloaded_layers"].push_back(windows_[i].offloaded);
      json["longest_step_ms"].push_back(windows_[i].most_ms);
      json["slot_bytes"].push_back(windows_[i].slot_bytes);
    }
    return json;
  }

 private:
  StatusOr<Duration> Step() {
    const TimePoint start = SystemClock().Now();
    batch_->Step();
    const Duration time = SystemClock().Now() - start;
    if (!stream_->WaitFor(Duration::zero())) {
      return Unavailable("the server lost the sequence of ", name_, "; run the benchmark again");
    }
    QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> token, stream_->Next());
    if (!token) return Internal("the sequence of ", name_, " has ended");
    tokens_.push_back(*token);
    return time;
  }

  const std::string name_;
  const worker::OffloadRule rule_;
  const uint64_t slot_bytes_;
  std::unique_ptr<worker::Batch> batch_;
  std::shared_ptr<worker::BatchStream> stream_;
  std::vector<TokenId> tokens_;
  std::vector<Window> windows_;
  // Steps of the window that runs.
  std::vector<double> steps_;
  uint64_t slot_bytes_used_ = 0;
};

/// A server of another process with the document, and a worker beside it.
struct Bench {
  std::unique_ptr<cli::DataDir> directory;
  std::unique_ptr<ServeProcess> server;
  std::unique_ptr<Client> client;
  std::string detail;
  cli::LocalWorker local;
  DocumentName document = {.collection = "bench", .name = "growth"};
};

StatusOr<Bench> Prepare(const GrowthOptions& options) {
  Bench bench;
  QUIRE_ASSIGN_OR_RETURN(bench.directory, cli::DataDir::Make(options.data_dir));
  const std::string& directory = bench.directory->path();
  const std::string model = directory + "/growth";
  const RandomModel shape{
      .num_layers = options.layers,
      .num_query_heads = 4,
      .num_kv_heads = 2,
      .intermediate_size = 128,
      .max_positions = options.context_tokens + options.growth_tokens + options.window_tokens,
      .head = true};
  QUIRE_RETURN_IF_ERROR(WriteRandomModel(model, shape));
  const worker::EngineOptions engine{.dtype = DType::kF16};
  // Every way appends its own pages to the document.
  const uint64_t tokens = options.context_tokens + uint64_t{5} * options.growth_tokens;
  const uint64_t row = uint64_t{2} * shape.num_kv_heads * shape.head_dim * sizeof(uint16_t);
  const uint64_t dram = kGrowthRoomBytes + 2 * tokens * row * options.layers;
  QUIRE_ASSIGN_OR_RETURN(bench.server,
                         ServeProcess::Start(directory, {"--dram-bytes", std::to_string(dram)}));
  QUIRE_ASSIGN_OR_RETURN(bench.client, bench.server->Connect(options.transport, &bench.detail));
  QUIRE_ASSIGN_OR_RETURN(bench.local,
                         cli::LoadLocalWorker(model, bench.client.get(), engine, options.device));
  const KvSpec& spec = bench.local.engine->spec();
  const uint32_t segments = options.context_tokens / spec.segment_tokens();
  if (segments == 0) {
    return InvalidArgument("--context is ", options.context_tokens, "; give ",
                           spec.segment_tokens(), " or more");
  }
  QUIRE_RETURN_IF_ERROR(
      PutRandomDocument(*bench.client, spec, segments * spec.segment_pages, bench.document));
  return bench;
}

StatusOr<worker::BatchRequest> MakeRequest(const GrowthOptions& options, const Bench& bench) {
  const uint32_t p = bench.local.engine->spec().page_tokens;
  const worker::RetrievalOptions budget{.budget_tokens = options.budget_tokens,
                                        .sink_tokens = p,
                                        .window_tokens = 2 * p,
                                        .uncompressed_layers = {}};
  worker::BatchRequest request;
  QUIRE_ASSIGN_OR_RETURN(request.retrieval, PublishedWithin(budget, options.policy, p));
  request.retrieval->uncompressed_layers = {};
  request.document = bench.document;
  request.prompt = {1};
  request.params = {.max_new_tokens = options.growth_tokens + options.window_tokens,
                    .temperature = kUniform,
                    .seed = kSeed};
  return request;
}

/// Slots that an eighth of the growth fills.
uint64_t SlotBytesOf(const GrowthOptions& options, const KvSpec& spec) {
  if (options.slot_bytes > 0) return options.slot_bytes;
  const std::vector<worker::CacheLayout> everything(spec.num_layers, {.everything = true});
  return worker::SlotDemand::Of(everything, spec)
      .Bytes(options.context_tokens + options.growth_tokens / 8);
}

/// All ways in turns of a few steps, so that all see the same machine.
Status RunAll(const GrowthOptions& options, std::vector<Way>* ways) {
  const uint32_t windows = options.growth_tokens / options.window_tokens;
  cli::ProgressBar progress("decoding", windows);
  for (uint32_t window = 0; window < windows; ++window) {
    for (uint32_t done = 0; done < options.window_tokens; done += kTurnTokens) {
      const uint32_t tokens = std::min(kTurnTokens, options.window_tokens - done);
      for (Way& way : *ways) QUIRE_RETURN_IF_ERROR(way.Run(tokens));
    }
    for (Way& way : *ways) way.EndWindow();
    progress.Advance(1);
  }
  for (const Way& way : *ways) {
    if (way.tokens() == ways->front().tokens()) continue;
    return Internal(way.name(), " decoded other tokens than ", ways->front().name());
  }
  return OkStatus();
}

BenchReport ReportOf(const GrowthOptions& options, const Bench& bench, uint64_t slot_bytes,
                     const std::vector<Way>& ways) {
  const Way& ours = *std::ranges::find(ways, kOurs, &Way::name);
  const Way& rival = *std::ranges::find(ways, kRival, &Way::name);
  std::vector<cli::Table::Column> columns = {{"TOKENS", cli::Table::kRight}};
  for (const Way& way : ways) columns.push_back({way.name() + ", TOKENS/S", cli::Table::kRight});
  columns.push_back({"LAYERS OFF", cli::Table::kRight});
  BenchReport report{.json = {{"benchmark", "growth"}}, .table = cli::Table(columns)};
  report.json["largest_step_loss"] = ours.LargestStepLoss();
  report.json["largest_step_loss_all_at_once"] = rival.LargestStepLoss();
  double ratio = 0;  // Where one of them has layers off, and the other has not all.
  uint32_t compared = 0;
  for (size_t i = 0; i < ours.windows().size(); ++i) {
    const uint64_t length = options.context_tokens + (i + 1) * options.window_tokens;
    report.json["tokens"].push_back(length);
    std::vector<std::string> row = {cli::FormatCount(length)};
    for (const Way& way : ways) row.push_back(cli::FormatRatio(way.TokensPerSecond(i), 1));
    row.push_back(cli::FormatCount(ours.windows()[i].offloaded));
    report.table.AddRow(row);
    if (rival.windows()[i].offloaded == ours.windows()[i].offloaded) continue;
    ratio += ours.TokensPerSecond(i) / rival.TokensPerSecond(i);
    ++compared;
  }
  report.json["vs_all_at_once"] = compared == 0 ? 1.0 : ratio / compared;
  report.json["most_slot_bytes"] =
      std::ranges::max(ours.windows(), {}, &Window::slot_bytes).slot_bytes;
  report.json["slot_bytes"] = slot_bytes;
  for (const Way& way : ways) report.json["ways"][way.name()] = way.ToJson();
  report.json.update(cli::Json{{"policy", options.policy},
                               {"budget_tokens", options.budget_tokens},
                               {"num_layers", options.layers},
                               {"window_tokens", options.window_tokens},
                               {"transport", options.transport},
                               {"detail", bench.detail},
                               {"machine", Machine()}});
  report.json.update(cli::DescribeDevice(options.device));
  return report;
}

StatusOr<BenchReport> Run(const GrowthOptions& options) {
  if (options.growth_tokens < 2 * options.window_tokens) {
    return InvalidArgument("--growth is ", options.growth_tokens, "; give two windows of ",
                           options.window_tokens, " or more");
  }
  kernels::SetGemmThreads(1);  // The server has the other processors.
  QUIRE_ASSIGN_OR_RETURN(const Bench bench, Prepare(options));
  QUIRE_ASSIGN_OR_RETURN(const worker::BatchRequest request, MakeRequest(options, bench));
  const uint64_t capped = SlotBytesOf(options, bench.local.engine->spec());
  constexpr uint64_t kNoLimit = uint64_t{1} << 50;
  using worker::OffloadRule;
  std::vector<Way> ways;
  ways.emplace_back(kOurs, OffloadRule::kLayerByLayer, capped);
  ways.emplace_back(kRival, OffloadRule::kAllAtOnce, capped);
  ways.emplace_back("no_limit", OffloadRule::kLayerByLayer, kNoLimit);
  ways.emplace_back("all_off", OffloadRule::kAlways, kNoLimit);
  for (Way& way : ways) QUIRE_RETURN_IF_ERROR(way.Open(*bench.local.engine, request));
  QUIRE_RETURN_IF_ERROR(RunAll(options, &ways));
  return ReportOf(options, bench, capped, ways);
}

}  // namespace

void AddGrowthBench(Benches& benches) {
  const auto options = std::make_shared<GrowthOptions>();
  CLI::App& command = benches.Add(
      {.name = "growth",
       .summary = "Throughput of a sequence that outgrows the device's memory",
       .examples =
           "  quire bench growth --json\n"
           "  quire bench growth --policy specontext --layers 32\n"
           "  quire bench growth --context 2048 --growth 1024 --slot-bytes 40MiB\n"
           "Layers leave the device one after the other, against all of them at once, no limit,\n"
           "and every layer off from the start. largest_step_loss is the largest share of\n"
           "throughput that is lost from one window of lengths to the next."},
      [options](const cli::CommandContext&) { return Run(*options); },
      {.plot = PlotterOf({{.title = "A sequence that outgrows its device",
                           .place_title = "tokens of the sequence",
                           .value_title = "tokens a second",
                           .lines = {{.figures = R"(/ways/([^/]+)/tokens_per_second/(\d+))",
                                      .name = "$1",
                                      .place = "{/tokens/$2}"}}}})});
  command.add_option("--context", options->context_tokens, "Tokens of the document")
      ->check(CLI::Range(256, 1 << 20))
      ->capture_default_str();
  command.add_option("--growth", options->growth_tokens, "Tokens decoded behind it")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--window", options->window_tokens,
                  "Tokens of a window, of whose steps the median counts")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--budget", options->budget_tokens, "Tokens that a layer attends to")
      ->capture_default_str();
  command.add_option("--layers", options->layers, "Layers of the random model")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  command
      .add_option("--slot-bytes", options->slot_bytes,
                  "Device memory of the slots; not given: an eighth of the growth fills it")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE");
  command.add_option("--policy", options->policy, "How pages are selected")->capture_default_str();
  command.add_option("--transport", options->transport, "What recalls come over")
      ->check(CLI::IsMember({"shm", "ucx", "grpc"}))
      ->capture_default_str();
  cli::AddDataDirOption(command, &options->data_dir);
  cli::AddDeviceFlag(command, &options->device);
}

}  // namespace quire::bench
