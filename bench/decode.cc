// SPDX-License-Identifier: Apache-2.0
//
// Decode: what a decode step costs when the pages are in a server of another process, ablated:
// without speculation, without double buffering, without contiguous units, and beside the policies
// of the rivals and the same budget resident; over every transport, and over a link that is as slow
// as a network's.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "bench/benchmark.h"
#include "bench/decode_run.h"
#include "bench/emulated_link.h"
#include "bench/random_model.h"
#include "bench/transport/serve_process.h"
#include "client/cli/data_dir.h"
#include "client/cli/local_worker.h"
#include "common/page/layout.h"

namespace quire::bench {
namespace {

/// KV heads that trained models correct in a step at their published threshold of 0.8 (FreeKV).
constexpr double kCorrectedShare = 0.138;
constexpr uint64_t kServerRoomBytes = 256 << 20;

struct DecodeOptions {
  uint32_t context_tokens = 32768;
  uint32_t budget_tokens = 2048;
  DecodeTurns turns;
  std::vector<std::string> transports = {"shm", "ucx", "grpc"};
  double link_us = 200;
  double link_gbps = 25;
  std::string model;
  std::string data_dir;
  std::string device = "cpu";
};

worker::RetrievalOptions BudgetOf(const DecodeOptions& options, uint32_t page_tokens) {
  worker::RetrievalOptions budget;
  budget.budget_tokens = options.budget_tokens;
  budget.sink_tokens = 4 * page_tokens;
  budget.window_tokens = 4 * page_tokens;
  budget.uncompressed_layers = {};
  return budget;
}

/// A server of another process with the document, and the model.
struct Setting {
  std::unique_ptr<cli::DataDir> directory;
  std::string model;
  std::unique_ptr<ServeProcess> server;
  DocumentName document{.collection = "bench", .name = "decode"};
  worker::EngineOptions engine;
  KvSpec spec;
};

StatusOr<Setting> Prepare(const DecodeOptions& options) {
  Setting setting;
  QUIRE_ASSIGN_OR_RETURN(setting.directory, cli::DataDir::Make(options.data_dir));
  setting.engine.dtype = DType::kF16;
  setting.model = options.model;
  if (setting.model.empty()) {
    setting.model = setting.directory->path() + "/model";
    QUIRE_RETURN_IF_ERROR(WriteRandomModel(setting.model, {}));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto decoder,
                         worker::Decoder::Load(setting.model, &worker::CpuDevice()));
  setting.spec = decoder->MakeKvSpec(setting.engine.dtype, setting.engine.page_tokens,
                                     setting.engine.segment_pages);
  const uint32_t pages =
      options.context_tokens / setting.spec.segment_tokens() * setting.spec.segment_pages;
  if (pages == 0 || options.context_tokens >= decoder->config().max_positions) {
    return InvalidArgument("--context is ", options.context_tokens, "; give ",
                           setting.spec.segment_tokens(), " or more, and less than the model's ",
                           decoder->config().max_positions);
  }
  const uint64_t dram = SegmentBytes(setting.spec, pages) + kServerRoomBytes;
  QUIRE_ASSIGN_OR_RETURN(
      setting.server,
      ServeProcess::Start(setting.directory->path(), {"--dram-bytes", std::to_string(dram)}));
  QUIRE_ASSIGN_OR_RETURN(const auto client,
                         Client::Create({.transport = setting.server->control()}));
  QUIRE_RETURN_IF_ERROR(PutRandomDocument(*client, setting.spec, pages, setting.document));
  return setting;
}

/// A worker whose recalls come over one transport.
struct Lane {
  std::unique_ptr<Client> client;
  std::string detail;
  cli::LocalWorker worker;
};

StatusOr<Lane> Connect(const Setting& setting, const std::string& transport, const LinkShape& link,
                       const std::string& device) {
  Lane lane;
  QUIRE_ASSIGN_OR_RETURN(auto recalls, setting.server->ConnectRecalls(transport, &lane.detail));
  if (link.emulated()) recalls = std::make_shared<EmulatedLink>(std::move(recalls), link);
  QUIRE_ASSIGN_OR_RETURN(lane.client, Client::Create({.transport = setting.server->control(),
                                                      .data_transport = std::move(recalls)}));
  QUIRE_ASSIGN_OR_RETURN(
      lane.worker, cli::LoadLocalWorker(setting.model, lane.client.get(), setting.engine, device));
  return lane;
}

double Milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double Quantile(std::vector<Duration> times, double share) {
  if (times.empty()) return 0;
  const auto at =
      times.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(times.size() - 1));
  std::ranges::nth_element(times, at);
  return Milliseconds(*at);
}

void AddRatios(const DecodeComparison& comparison, cli::Json* json) {
  const auto add = [&](const char* key, const char* slower, const char* faster) {
    const double ratio = comparison.Ratio(slower, faster);
    if (ratio > 0) (*json)[key] = ratio;
  };
  add("speculation_vs_blocking", "blocking", "freekv");
  add("contiguous_vs_fragmented", "fragmented", "one_buffer");
  add("double_vs_single_buffer", "one_buffer", "blocking");
  add("offloaded_vs_resident", "freekv", "resident");
  add("vs_arkvale_blocking", "arkvale", "freekv");
  add("vs_shadowkv", "shadowkv", "freekv");
}

cli::Json JsonOf(const DecodeFigures& figures, uint32_t num_layers) {
  const auto steps = static_cast<double>(figures.steps.size());
  const double layer_steps = steps * num_layers;
  return {
      {"step_ms_p50", Quantile(figures.steps, 0.5)},
      {"step_ms_p99", Quantile(figures.steps, 0.99)},
      {"stall_ms_per_step", figures.stall_seconds * 1e3 / steps},
      {"units_per_layer_step", static_cast<double>(figures.units_recalled) / layer_steps},
      {"bytes_per_step", static_cast<double>(figures.bytes_recalled) / steps},
      {"corrected_heads_per_layer_step", static_cast<double>(figures.blocking_heads) / layer_steps},
      {"recalls_per_step", static_cast<double>(figures.recalls) / steps},
      {"steps", figures.steps.size()}};
}

cli::Json JsonOf(const DecodeComparison& comparison, uint32_t num_layers) {
  cli::Json json;
  AddRatios(comparison, &json);
  for (const auto& [name, figures] : comparison.ways) {
    json["ways"][name] = JsonOf(figures, num_layers);
  }
  return json;
}

void AddRows(const std::string& path, const DecodeComparison& comparison, cli::Table* table) {
  for (const auto& [name, figures] : comparison.ways) {
    const auto steps = static_cast<double>(figures.steps.size());
    table->AddRow({path, name, cli::FormatRatio(Quantile(figures.steps, 0.5), 2),
                   cli::FormatRatio(Quantile(figures.steps, 0.99), 2),
                   cli::FormatRatio(figures.stall_seconds * 1e3 / steps, 2),
                   cli::FormatBytes(static_cast<uint64_t>(
                       static_cast<double>(figures.bytes_recalled) / steps))});
  }
}

/// The comparison, transport by transport and then over the emulated link.
class DecodeBench {
 public:
  DecodeBench(const DecodeOptions& options, const Setting& setting)
      : options_(options),
        setting_(setting),
        budget_(BudgetOf(options, setting.spec.page_tokens)),
        report_{.json = {{"benchmark", "decode"}},
                .table = cli::Table({{"PAGES OVER"},
                                     {"WAY"},
                                     {"STEP MS", cli::Table::kRight},
                                     {"P99", cli::Table::kRight},
                                     {"STALL", cli::Table::kRight},
                                     {"A STEP", cli::Table::kRight}})} {}

  StatusOr<BenchReport> Run() {
    // Every way over the first transport that works, natively and over the link; over the others
    // what differs by transport.
    bool first = true;
    for (const std::string& transport : options_.transports) {
      auto lane = Connect(setting_, transport, {}, options_.device);
      if (!lane.ok()) {
        report_.json["absent"][transport] = Message(lane.status());
        continue;
      }
      QUIRE_RETURN_IF_ERROR(RunTransport(transport, *lane, first));
      if (first) QUIRE_RETURN_IF_ERROR(RunLink(transport));
      first = false;
    }
    if (first) return Unavailable("none of the transports works");
    AddSizes();
    return std::move(report_);
  }

 private:
  LinkShape Link() const {
    return {.round_trip = std::chrono::nanoseconds(static_cast<int64_t>(options_.link_us * 1e3)),
            .bytes_per_second = options_.link_gbps * 1e9 / 8};
  }

  StatusOr<DecodeComparison> Compare(const Lane& lane, bool all) {
    const worker::Engine& engine = *lane.worker.engine;
    if (!tau_) {
      QUIRE_ASSIGN_OR_RETURN(
          tau_, CalibrateThreshold(engine, setting_.document, budget_, kCorrectedShare));
    }
    std::vector<DecodeWay> ways = DecodeWays(budget_, *tau_);
    if (!all) {
      std::erase_if(ways, [](const DecodeWay& way) {
        return way.name != "freekv" && way.name != "blocking" && way.name != "resident";
      });
    }
    return CompareDecoding(engine, setting_.document, ways, options_.turns);
  }

  Status RunTransport(const std::string& transport, const Lane& lane, bool all) {
    QUIRE_ASSIGN_OR_RETURN(const DecodeComparison comparison, Compare(lane, all));
    if (all) {
      AddRatios(comparison, &report_.json);
      report_.json["transport"] = transport;
    }
    cli::Json& json = report_.json["transports"][transport] =
        JsonOf(comparison, setting_.spec.num_layers);
    json["detail"] = lane.detail;
    AddRows(transport, comparison, &report_.table);
    return OkStatus();
  }

  Status RunLink(const std::string& transport) {
    if (!Link().emulated()) return OkStatus();
    QUIRE_ASSIGN_OR_RETURN(const Lane lane, Connect(setting_, transport, Link(), options_.device));
    QUIRE_ASSIGN_OR_RETURN(const DecodeComparison comparison, Compare(lane, /*all=*/true));
    cli::Json& json = report_.json["over_emulated_link"] =
        JsonOf(comparison, setting_.spec.num_layers);
    json["carried_by"] = transport;
    json["link_us"] = options_.link_us;
    json["link_gbps"] = options_.link_gbps;
    AddRows("link", comparison, &report_.table);
    return OkStatus();
  }

  void AddSizes() {
    const KvSpec& spec = setting_.spec;
    report_.json.update(
        cli::Json{{"context_tokens", options_.context_tokens},
                  {"budget_tokens", options_.budget_tokens},
                  {"sink_tokens", budget_.sink_tokens},
                  {"window_tokens", budget_.window_tokens},
                  {"page_tokens", spec.page_tokens},
                  {"unit_bytes", UnitBytes(spec)},
                  {"num_layers", spec.num_layers},
                  {"num_query_heads", spec.num_query_heads},
                  {"num_kv_heads", spec.num_kv_heads},
                  {"head_dim", spec.head_dim},
                  {"model", options_.model.empty() ? "random weights" : options_.model},
                  {"device", options_.device},
                  {"tau", *tau_},
                  {"corrected_share_wanted", kCorrectedShare},
                  {"batch", 1},
                  {"turns", options_.turns.turns},
                  {"steps_per_turn", options_.turns.steps_per_turn},
                  {"machine", Machine()}});
  }

  const DecodeOptions& options_;
  const Setting& setting_;
  const worker::RetrievalOptions budget_;
  std::optional<float> tau_;
  BenchReport report_;
};

StatusOr<BenchReport> Run(const DecodeOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const Setting setting, Prepare(options));
  return DecodeBench(options, setting).Run();
}

}  // namespace

void AddDecodeBench(Benches& benches) {
  const auto options = std::make_shared<DecodeOptions>();
  CLI::App& command = benches.Add(
      {.name = "decode",
       .summary = "Step and stall time with pages in a remote server, ablated, beside rivals",
       .examples = "  quire bench decode --json\n"
                   "  quire bench decode --context 8192 --budget 1024 --transports shm\n"
                   "  quire bench decode --model DIR --link-us 500 --link-gbps 10\n"
                   "The ratios are of step times, the rival's over ours, except\n"
                   "offloaded_vs_resident, which is ours over that of the same budget resident."},
      [options](const cli::CommandContext&) { return Run(*options); });
  command
      .add_option("--context", options->context_tokens, "Tokens of the document, in whole segments")
      ->capture_default_str();
  command.add_option("--budget", options->budget_tokens, "Tokens resident per KV head")
      ->capture_default_str();
  command.add_option("--turns", options->turns.turns, "Turns of every way")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--steps", options->turns.steps_per_turn, "Decoding steps of a turn")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      .add_option("--transports", options->transports,
                  "What recalls come over; every way is run over the first")
      ->delimiter(',')
      ->type_name("NAMES")
      ->capture_default_str();
  command
      .add_option("--link-us", options->link_us,
                  "Round trip of the emulated link; with --link-gbps 0 too there is none")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--link-gbps", options->link_gbps, "Gigabits a second of the emulated link")
      ->check(CLI::Range(0.0, 1e4))
      ->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model (one of random weights when not given)");
  cli::AddDataDirOption(command, &options->data_dir);
  cli::AddDeviceFlag(command, &options->device);
}

}  // namespace quire::bench
