// SPDX-License-Identifier: Apache-2.0
//
// Tracing: what traces cost a recall over shared memory. Three kinds of turns alternate:
//
//   off       recalls without a tracer
//   hooks     the same, each with more spans begun, counted and ended besides than it passes by
//             itself, all without a tracer
//   sampled   each recall is the root of a trace, at client and server, one in a hundred recorded
//             and sent to a collector in this process
//
// A program cannot be measured without its own hooks, so hooks against off says what passing them
// once more costs. Turns of off and sampled have a server each, and one may lie better in memory.
// Each repetition opens both anew, in the other order.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "bench/benchmark.h"
#include "bench/kit/gqa_spec.h"
#include "bench/kit/median.h"
#include "bench/kit/side_by_side.h"
#include "common/base/random.h"
#include "common/base/trace/span.h"
#include "kvserver/embedded/embedded_store.h"
#include "otlp/trace.grpc.pb.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session.h"
#include "transport/otlp/otlp_exporter.h"

namespace quire::bench {
namespace {

namespace otlp = ::opentelemetry::proto::collector::trace::v1;

constexpr uint32_t kTracedPages = 128;
constexpr uint32_t kTracedSlots = 32;
/// Pages that a recall misses, per KV head.
constexpr uint32_t kTracedMisses = 2;
/// Spans that a recall begins at most: at the client, at the server, and for each of its waits.
constexpr int kHooksOfRecall = 10;
constexpr double kOneOfHundred = 0.01;

struct TracingOptions {
  uint32_t repeats = 5;
  uint32_t rounds = 100;
  uint32_t calls = 200;
  std::string data_dir;
};

/// Takes spans and counts them.
class CountingCollector final : public otlp::TraceService::Service {
 public:
  static StatusOr<std::unique_ptr<CountingCollector>> Start() {
    auto self = std::make_unique<CountingCollector>();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &self->port_);
    builder.RegisterService(self.get());
    self->server_ = builder.BuildAndStart();
    if (self->server_ == nullptr) return Unavailable("the collector cannot listen on 127.0.0.1");
    return self;
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  grpc::Status Export(grpc::ServerContext*, const otlp::ExportTraceServiceRequest*,
                      otlp::ExportTraceServiceResponse*) override {
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

/// A server with a context, and a session that recalls from it over shared memory.
class TracedStore {
 public:
  static StatusOr<std::unique_ptr<TracedStore>> Open(const std::string& directory,
                                                     const Tracer* tracer) {
    std::unique_ptr<TracedStore> self(new TracedStore);
    QUIRE_ASSIGN_OR_RETURN(self->store_,
                           EmbeddedStore::Open({.data_dir = directory, .tracer = tracer}));
    QUIRE_RETURN_IF_ERROR(self->store_->Listen({}));
    QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<Transport> control,
                           ConnectGrpc(self->store_->address()));
    QUIRE_ASSIGN_OR_RETURN(
        DataConnection data,
        ConnectData(control, {.transport = "shm", .control_address = self->store_->address()}));
    QUIRE_ASSIGN_OR_RETURN(
        self->client_,
        Client::Create({.transport = control, .data_transport = std::move(data.transport)}));
    QUIRE_RETURN_IF_ERROR(self->Fill());
    return self;
  }

  /// Recalls a layer whose selection has moved on.
  Status Recall() {
    const uint32_t steps = (kTracedPages - kTracedSlots) / kTracedMisses;
    const uint32_t at = step_++ % (2 * steps);  // To the end of the context, and back.
    const uint32_t first = kTracedMisses * (at < steps ? at : 2 * steps - at);
    std::vector<uint32_t> pages(kTracedSlots);
    for (uint32_t i = 0; i < kTracedSlots; ++i) pages[i] = first + i;
    LayerWant want = {.layer = 0};
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) want.pages.AppendHead(pages);
    QUIRE_ASSIGN_OR_RETURN(const RecallResult result, session_->Recall({&want, 1}));
    result.payload.CopyTo(slots_.data());
    session_->Applied(result);
    return OkStatus();
  }

 private:
  TracedStore()
      : spec_(GqaSpec("bench-tracing", {.layers = 1, .query_heads = 32, .kv_heads = 8})),
        slots_(uint64_t{kTracedSlots} * spec_.num_kv_heads * UnitBytes(spec_)) {}

  Status Fill() {
    std::vector<TokenId> tokens(spec_.segment_tokens());
    const std::vector<std::byte> bytes(SegmentBytes(spec_, spec_.segment_pages), std::byte{1});
    SeededRandom random(2);
    SegmentKey tip = kRootKey;
    for (uint32_t page = 0; page < kTracedPages; page += spec_.segment_pages) {
      for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
      Payload payload;
      payload.Append(Slice{bytes, nullptr});
      QUIRE_ASSIGN_OR_RETURN(tip, client_->PutSegment(spec_, tip, tokens, payload));
    }
    QUIRE_ASSIGN_OR_RETURN(
        session_, client_->OpenSession(tip, {.spec = spec_, .slots_per_head = kTracedSlots}));
    return OkStatus();
  }

  const KvSpec spec_;
  std::vector<std::byte> slots_;
  std::unique_ptr<EmbeddedStore> store_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<ClientSession> session_;
  uint32_t step_ = 0;
};

/// Does what `kHooksOfRecall` places do where a span may begin.
void PassHooks() {
  for (int i = 0; i < kHooksOfRecall; ++i) {
    Span span = ChildOfCurrent("hook", SpanKind::kClient);
    span.Count("bytes", 1);
    span.End();
  }
}

struct TracingFigures {
  std::vector<double> off_overheads, sampled_overheads;  ///< One of each round.
  std::vector<Duration> off, hooks, sampled;             ///< One of each turn.
  uint64_t exported = 0, dropped = 0;
};

/// Times of a turn of one contender over those of another, round by round.
void AddOverheads(const std::vector<Duration>& times, const std::vector<Duration>& base,
                  std::vector<double>* overheads) {
  for (size_t i = 0; i < times.size(); ++i) {
    overheads->push_back(static_cast<double>(times[i].count()) /
                         static_cast<double>(base[i].count()));
  }
}

Status Repeat(const TracingOptions& options, const std::string& directory, uint32_t repeat,
              TracingFigures* figures) {
  QUIRE_ASSIGN_OR_RETURN(const auto collector, CountingCollector::Start());
  QUIRE_ASSIGN_OR_RETURN(const auto exporter,
                         OtlpExporter::Start({.address = collector->address(),
                                              .resource = {{"service.name", "quire-bench"}}},
                                             nullptr));
  const Tracer tracer({.ratio = kOneOfHundred}, exporter->sink());
  std::unique_ptr<TracedStore> off, sampled;
  for (uint32_t i = 0; i < 2; ++i) {
    const bool traced = (i + repeat) % 2 == 0;
    QUIRE_ASSIGN_OR_RETURN((traced ? sampled : off),
                           TracedStore::Open(directory + "/" + std::to_string(2 * repeat + i),
                                             traced ? &tracer : nullptr));
  }
  const auto calls_of = [&](const auto& call) {
    return [&options, call]() -> Status {
      for (uint32_t i = 0; i < options.calls; ++i) QUIRE_RETURN_IF_ERROR(call());
      return OkStatus();
    };
  };
  SideBySide turns({{.turn = calls_of([&] { return off->Recall(); })},
                    {.turn = calls_of([&] {
                       PassHooks();
                       return off->Recall();
                     })},
                    {.turn = calls_of([&] {
                       const SpanScope root(tracer.Begin("recall"));
                       return sampled->Recall();
                     })}},
                   /*untimed=*/1);
  QUIRE_RETURN_IF_ERROR(turns.Run(options.rounds));
  AddOverheads(turns.Times(1), turns.Times(0), &figures->off_overheads);
  AddOverheads(turns.Times(2), turns.Times(0), &figures->sampled_overheads);
  const auto add = [&](size_t contender, std::vector<Duration>* times) {
    times->insert(times->end(), turns.Times(contender).begin(), turns.Times(contender).end());
  };
  add(0, &figures->off);
  add(1, &figures->hooks);
  add(2, &figures->sampled);
  figures->exported += exporter->exported();
  figures->dropped += exporter->dropped();
  return OkStatus();
}

StatusOr<BenchReport> RunTracing(const TracingOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  TracingFigures figures;
  cli::ProgressBar progress("recalling", options.repeats);
  for (uint32_t repeat = 0; repeat < options.repeats; ++repeat, progress.Advance()) {
    QUIRE_RETURN_IF_ERROR(Repeat(options, directory->path(), repeat, &figures));
  }
  BenchReport report{
      .json = {{"benchmark", "tracing"}},
      .table = cli::Table(
          {{"TURNS"}, {"PER RECALL", cli::Table::kRight}, {"OVERHEAD", cli::Table::kRight}})};
  report.json["trace_off_overhead"] = Median(figures.off_overheads);
  report.json["trace_1_percent_overhead"] = Median(figures.sampled_overheads);
  const auto add = [&](const char* name, const std::vector<Duration>& times, double overhead) {
    const Duration each = Median(times) / options.calls;
    report.json[std::string("us_per_recall_") + name] =
        std::chrono::duration<double, std::micro>(each).count();
    report.table.AddRow({name, cli::FormatDuration(each), cli::FormatRatio(overhead, 4)});
  };
  add("off", figures.off, 1);
  add("hooks", figures.hooks, Median(figures.off_overheads));
  add("sampled", figures.sampled, Median(figures.sampled_overheads));
  report.json["hooks_passed_besides"] = kHooksOfRecall;
  report.json["spans_exported"] = figures.exported;
  report.json["spans_dropped"] = figures.dropped;
  report.json["repeats"] = options.repeats;
  report.json["rounds"] = options.rounds;
  report.json["calls"] = options.calls;
  report.json["machine"] = Machine();
  return report;
}

}  // namespace

void AddTracingBench(Benches& benches) {
  const auto options = std::make_shared<TracingOptions>();
  CLI::App& command = benches.Add(
      {.name = "tracing",
       .summary = "What traces cost a recall, off and with one of a hundred recorded",
       .examples = "  quire bench tracing --json\n"
                   "  quire bench tracing --repeats 1 --rounds 10\n"
                   "off: nothing is traced. hooks: off, and every place where a span may begin is\n"
                   "passed once more. sampled: one of a hundred recalls is recorded and sent."},
      [options](const cli::CommandContext&) { return RunTracing(*options); });
  command.add_option("--repeats", options->repeats, "Times that the stores are opened anew")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--rounds", options->rounds, "Timed turns of every kind, of each repetition")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--calls", options->calls, "Recalls of a turn")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
