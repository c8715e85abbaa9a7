// SPDX-License-Identifier: Apache-2.0
//
// Elastic: bytes that recalls move when only what is missing of a selection is sent, against
// sending each selection again. Selections come from the synthetic stream (bench/stream), at
// published settings, and from a model. After every step the slots must hold exactly the selected
// units, byte for byte; also while replies are dropped, delayed and repeated.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "bench/benchmark.h"
#include "bench/elastic_model.h"
#include "bench/elastic_session.h"
#include "bench/stream/lossy_transport.h"
#include "bench/stream/slot_cache.h"
#include "bench/stream/stream_context.h"
#include "client/cli/data_dir.h"
#include "client/cli/find_model.h"
#include "client/cli/progress.h"
#include "common/base/random.h"
#include "common/page/layout.h"
#include "embedded/embedded_store.h"

namespace quire::bench {
namespace {

constexpr uint32_t kContextPages = 1024;  ///< N = 32768 tokens at p = 32.
constexpr double kFaultRate = 0.01;       ///< Of the replies, a third of each kind.
constexpr StreamBudget kBudget;           ///< B = 2048, S = W = 512.
constexpr uint64_t kStoreBytes = uint64_t{512} << 20;

/// Four layers of a model with 4 KV heads of 128, G = 4: units of 16 KiB.
KvSpec BenchSpec() {
  KvSpec spec;
  spec.model = "bench-elastic";
  spec.num_layers = 4;
  spec.num_query_heads = 16;
  spec.num_kv_heads = 4;
  spec.head_dim = 128;
  spec.rope.rotary_dim = 128;
  return spec;
}

struct ElasticOptions {
  uint32_t steps = 512;
  uint32_t questions = 12;
  uint64_t seed = 1;
  std::string model;
  std::string data_dir;
};

double Ratio(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(whole, 1));
}

/// Totals of the steps after the first, which fills the slots.
struct Run {
  uint64_t units_moved = 0;
  uint64_t units_selected = 0;
  uint64_t bytes_moved = 0;
  Duration median_step = {};
  uint64_t failed_recalls = 0;
  Status exact;  ///< OK when the slots were right after every step.

  double moved_ratio() const { return Ratio(units_moved, units_selected); }
  /// Share of the budget, sinks and window included, that stays from step to step.
  double budget_overlap() const {
    const uint32_t all = kBudget.sink_pages + kBudget.window_pages + kBudget.selected_pages;
    return 1 - moved_ratio() * kBudget.selected_pages / all;
  }
};

/// Stores the context's units under random token ids.
StatusOr<SegmentKey> Store(Client& client, const StreamContext& context) {
  const KvSpec& spec = context.spec();
  SeededRandom random(2);
  std::vector<TokenId> tokens(spec.segment_tokens());
  SegmentKey tip = kRootKey;
  cli::ProgressBar progress("storing pages", context.num_pages());
  for (uint32_t first = 0; first < context.num_pages(); first += spec.segment_pages) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
    Payload payload;
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      for (uint32_t page = first; page < first + spec.segment_pages; ++page) {
        for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
          payload.Append(Slice{context.unit(layer, page, head), nullptr});
        }
      }
    }
    QUIRE_ASSIGN_OR_RETURN(tip, client.PutSegment(spec, tip, tokens, payload));
    progress.Advance(spec.segment_pages);
  }
  return tip;
}

class ElasticBench {
 public:
  /// Everything that it is given outlives it.
  ElasticBench(const StreamContext& context, const SegmentKey& tip, const ElasticOptions& options)
      : context_(context), tip_(tip), options_(options) {}

  /// A session over `transport` follows the stream of cosine `cosine`.
  StatusOr<Run> Follow(std::shared_ptr<Transport> transport, double cosine,
                       const std::string& label) const {
    QUIRE_ASSIGN_OR_RETURN(const auto client, MakeClient(std::move(transport)));
    QUIRE_ASSIGN_OR_RETURN(auto session, OpenSession(*client));
    QUIRE_ASSIGN_OR_RETURN(auto selections, Selections(cosine, {}));
    SlotCache slots(context_.spec(), kBudget.selected_pages);
    Run run;
    std::vector<Duration> times;
    cli::ProgressBar progress(label, options_.steps + 1);
    for (uint32_t step = 0; step <= options_.steps; ++step, progress.Advance()) {
      if (step > 0) QUIRE_RETURN_IF_ERROR(selections.Step());
      const StepSelection& selection = selections.selection();
      const TimePoint start = SystemClock().Now();
      QUIRE_ASSIGN_OR_RETURN(const auto moved, session.Step(selection, &slots));
      times.push_back(SystemClock().Now() - start);
      run.exact.Update(slots.Check(selection, context_));
      if (step == 0) continue;
      run.units_moved += moved.units;
      run.bytes_moved += moved.bytes;
      run.units_selected += CountUnits(selection);
    }
    run.median_step = Median(std::move(times));
    run.failed_recalls = session.failed_recalls();
    return run;
  }

  /// The same without a server, from the selections alone.
  StatusOr<Run> Count(double cosine, double topic_cosine) const {
    QUIRE_ASSIGN_OR_RETURN(auto selections, Selections(cosine, topic_cosine));
    Run run;
    cli::ProgressBar progress("counting", options_.steps);
    for (uint32_t step = 0; step < options_.steps; ++step, progress.Advance()) {
      const StepSelection before = selections.selection();
      QUIRE_RETURN_IF_ERROR(selections.Step());
      run.units_moved += MissingUnits(before, selections.selection());
      run.units_selected += CountUnits(selections.selection());
    }
    return run;
  }

  /// A step whose selection is resident: messages are made, maps compared, nothing moves.
  StatusOr<Duration> MapOverhead(std::shared_ptr<Transport> transport) const {
    QUIRE_ASSIGN_OR_RETURN(const auto client, MakeClient(std::move(transport)));
    QUIRE_ASSIGN_OR_RETURN(auto session, OpenSession(*client));
    QUIRE_ASSIGN_OR_RETURN(const auto selections, Selections(0.95, {}));
    SlotCache slots(context_.spec(), kBudget.selected_pages);
    std::vector<Duration> times;
    for (uint32_t step = 0; step <= options_.steps; ++step) {
      const TimePoint start = SystemClock().Now();
      QUIRE_ASSIGN_OR_RETURN(const auto moved, session.Step(selections.selection(), &slots));
      if (step == 0) continue;
      times.push_back(SystemClock().Now() - start);
      if (moved.units > 0) return Internal(moved.units, " units moved that were resident");
    }
    return Median(std::move(times));
  }

 private:
  static StatusOr<std::unique_ptr<Client>> MakeClient(std::shared_ptr<Transport> transport) {
    return Client::Create({.transport = std::move(transport),
                           .retry = {.first_backoff = std::chrono::milliseconds(1)}});
  }
  StatusOr<ElasticSession> OpenSession(Client& client) const {
    return ElasticSession::Open(client, tip_, context_.spec(), kBudget.selected_pages);
  }
  StatusOr<StreamSelections> Selections(double cosine, std::optional<double> topic_cosine) const {
    QueryOptions queries{.cosine = cosine, .seed = options_.seed};
    if (topic_cosine) queries.topic_cosine = *topic_cosine;
    return StreamSelections::Make(context_, queries, kBudget);
  }

  const StreamContext& context_;
  const SegmentKey tip_;
  const ElasticOptions& options_;
};

double Micros(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

void AddRow(const std::string& name, const Run& run, cli::Table* table) {
  table->AddRow({name, cli::FormatRatio(run.moved_ratio()), cli::FormatRatio(1 - run.moved_ratio()),
                 cli::FormatBytes(run.bytes_moved), cli::FormatDuration(run.median_step),
                 run.exact.ok() ? "exact" : std::string(Message(run.exact))});
}

/// Everything that is measured.
struct Measured {
  Run c95;
  Run c90;
  Run faulty;             ///< c = 0.95, replies going astray.
  Run walk;               ///< c = 0.95, queries that never turn back to a topic.
  Duration map_overhead;  ///< Of a step.
  LossyTransport::Faults faults;
  ModelMoves model;

  double model_ratio() const { return Ratio(model.units_moved, model.units_selected); }
};

StatusOr<Measured> Measure(const ElasticBench& bench, const std::shared_ptr<Transport>& transport,
                           const ElasticOptions& options) {
  Measured measured;
  QUIRE_ASSIGN_OR_RETURN(measured.c95, bench.Follow(transport, 0.95, "c = 0.95"));
  QUIRE_ASSIGN_OR_RETURN(measured.c90, bench.Follow(transport, 0.90, "c = 0.90"));
  const auto lossy = std::make_shared<LossyTransport>(
      transport, LossyTransport::Options{.method = "quire.v1.Session/Recall",
                                         .drop_rate = kFaultRate / 3,
                                         .delay_rate = kFaultRate / 3,
                                         .repeat_rate = kFaultRate / 3,
                                         .seed = options.seed});
  QUIRE_ASSIGN_OR_RETURN(measured.faulty, bench.Follow(lossy, 0.95, "replies going astray"));
  measured.faults = lossy->faults();
  QUIRE_ASSIGN_OR_RETURN(measured.map_overhead, bench.MapOverhead(transport));
  QUIRE_ASSIGN_OR_RETURN(measured.walk, bench.Count(0.95, 0));
  return measured;
}

cli::Json ShapeJson(const KvSpec& spec) {
  const TopicShape topics;
  const QueryOptions queries;
  return {{"context_tokens", kContextPages * spec.page_tokens},
          {"page_tokens", spec.page_tokens},
          {"sink_pages", kBudget.sink_pages},
          {"window_pages", kBudget.window_pages},
          {"selected_pages", kBudget.selected_pages},
          {"layers", spec.num_layers},
          {"kv_heads", spec.num_kv_heads},
          {"group_size", spec.group_size()},
          {"unit_bytes", UnitBytes(spec)},
          {"topics", topics.topics},
          {"mean_run_pages", topics.mean_run_pages},
          {"topic_cosine", queries.topic_cosine},
          {"jump_rate", queries.jump_rate}};
}

cli::Json ToJson(const Measured& measured, const KvSpec& spec, const ElasticOptions& options) {
  const auto& [c95, c90, faulty, walk, map_overhead, faults, model] = measured;
  cli::Json json = {{"benchmark", "elastic"}};
  json["moved_ratio"] = c95.moved_ratio();
  json["moved_ratio_c90"] = c90.moved_ratio();
  json["moved_ratio_model"] = measured.model_ratio();
  json["moved_ratio_free_walk"] = walk.moved_ratio();
  json["slots_exact"] = c95.exact.ok() && c90.exact.ok() ? 1 : 0;
  json["slots_exact_with_faults"] = faulty.exact.ok() ? 1 : 0;
  json["overlap_c95"] = 1 - c95.moved_ratio();
  json["overlap_c90"] = 1 - c90.moved_ratio();
  json["budget_overlap_c95"] = c95.budget_overlap();
  json["budget_overlap_c90"] = c90.budget_overlap();
  json["map_overhead_us_per_step"] = Micros(map_overhead);
  json["step_us_c95"] = Micros(c95.median_step);
  json["step_us_c90"] = Micros(c90.median_step);
  json["bytes_moved_c95"] = c95.bytes_moved;
  json["bytes_resent_c95"] = c95.units_selected * UnitBytes(spec);
  json["faults"] = {{"dropped", faults.dropped},
                    {"delayed", faults.delayed},
                    {"repeated", faults.repeated},
                    {"recalls_made_again", faulty.failed_recalls},
                    {"rate", kFaultRate}};
  json["model_steps"] = model.steps;
  json["model_questions"] = model.questions;
  json["model_units_selected"] = model.units_selected;
  json["shape"] = ShapeJson(spec);
  json["steps"] = options.steps;
  json["seed"] = options.seed;
  json["machine"] = Machine();
  return json;
}

cli::Table ToTable(const Measured& measured) {
  cli::Table table({{"STREAM"},
                    {"MOVED", cli::Table::kRight},
                    {"OVERLAP", cli::Table::kRight},
                    {"BYTES", cli::Table::kRight},
                    {"PER STEP", cli::Table::kRight},
                    {"SLOTS"}});
  AddRow("c = 0.95", measured.c95, &table);
  AddRow("c = 0.90", measured.c90, &table);
  AddRow("c = 0.95, faults", measured.faulty, &table);
  table.AddRow({"model", cli::FormatRatio(measured.model_ratio()),
                cli::FormatRatio(1 - measured.model_ratio()), "", "", ""});
  return table;
}

StatusOr<BenchReport> RunElastic(const ElasticOptions& options) {
  const KvSpec spec = BenchSpec();
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  QUIRE_ASSIGN_OR_RETURN(const StreamContext context,
                         StreamContext::Make(spec, {.pages = kContextPages, .seed = options.seed}));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  QUIRE_ASSIGN_OR_RETURN(const auto store, EmbeddedStore::Open({.data_dir = directory->path(),
                                                                .dram_bytes = kStoreBytes}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, Store(*client, context));
  const ElasticBench bench(context, tip, options);
  QUIRE_ASSIGN_OR_RETURN(Measured measured, Measure(bench, store->transport(), options));
  QUIRE_ASSIGN_OR_RETURN(measured.model, DriveModel(model, options.questions, *client));
  return BenchReport{.json = ToJson(measured, spec, options), .table = ToTable(measured)};
}

}  // namespace

void AddElasticBench(Benches& benches) {
  const auto options = std::make_shared<ElasticOptions>();
  CLI::App& command = benches.Add(
      {.name = "elastic",
       .summary = "Bytes moved with diffs against sending each selection, slots checked every step",
       .examples = "  quire bench elastic --json\n"
                   "  quire bench elastic --steps 2048 --seed 7"},
      [options](const cli::CommandContext&) { return RunElastic(*options); });
  command.add_option("--steps", options->steps, "Decoding steps of each run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--questions", options->questions, "Questions asked of the model")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--seed", options->seed, "Of keys, queries and faults")->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
