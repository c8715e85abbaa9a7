// SPDX-License-Identifier: Apache-2.0
//
// Elastic: bytes moved by recalls that send only the missing part of a selection, against sending
// each selection again. Selections come from the synthetic stream (bench/stream), at published
// settings, and from a recorded decode trace of a model. The stream's queries walk freely, or are
// pulled to their topic; the latter have figures with separate names (docs/design/0023). After
// every step the slots must hold exactly the selected units, byte for byte. They must also do so
// while replies are dropped, late, misplaced, duplicated or replayed. Faults are also run over
// shared memory, and with slots that units land in.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/worker/find_model.h"
#include "bench/benchmark.h"
#include "bench/elastic/elastic_model.h"
#include "bench/elastic/elastic_session.h"
#include "bench/kit/gqa_spec.h"
#include "bench/kit/median.h"
#include "bench/stream/lossy_transport.h"
#include "bench/stream/slot_cache.h"
#include "bench/stream/stream_context.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/connect.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr PageBudget kBudget;  ///< B = 2048, S = W = 512.
constexpr uint32_t kModelPageTokens = 32;
/// Budget of the demo: B = 768, S = 32, W = 64.
constexpr PageBudget kModelBudget = {.sink_pages = 1, .window_pages = 2, .selected_pages = 21};
constexpr uint64_t kModelStoreBytes = uint64_t{256} << 20;  ///< For documents of the model.

/// Four layers of a model with 4 KV heads of 128, G = 4: units of 16 KiB.
KvSpec BenchSpec() {
  return GqaSpec("bench-elastic", {.layers = 4, .query_heads = 16, .kv_heads = 4});
}

struct ElasticOptions {
  uint32_t context_tokens = 32768;  ///< N
  uint32_t steps = 512;
  uint32_t questions = 60;
  uint32_t decoded_tokens = 128;  ///< Tokens decoded after each question.
  double fault_rate = 0.01;       ///< Share of the replies with each fault of LossyTransport.
  uint64_t seed = 1;
  std::string model;
  std::string data_dir;

  /// Pages in whole segments.
  uint32_t context_pages() const {
    const KvSpec spec = BenchSpec();
    return context_tokens / spec.segment_tokens() * spec.segment_pages;
  }
};

/// Totals of a context's selections after the first, which fills the slots; or sums of several.
struct ElasticRun {
  uint64_t units_moved = 0;
  uint64_t units_selected = 0;
  uint64_t bytes_moved = 0;
  uint64_t bytes_selected = 0;
  uint64_t failed_recalls = 0;
  std::vector<Duration> times;  ///< Times of the steps.
  /// OK if the slots were right after every step, including the first.
  Status exact;

  void Add(const ElasticSession::Moved& moved, uint64_t selected, uint64_t unit_bytes) {
    units_moved += moved.units;
    bytes_moved += moved.bytes;
    units_selected += selected;
    bytes_selected += selected * unit_bytes;
  }
  void Add(const ElasticRun& other) {
    units_moved += other.units_moved;
    units_selected += other.units_selected;
    bytes_moved += other.bytes_moved;
    bytes_selected += other.bytes_selected;
    failed_recalls += other.failed_recalls;
    times.insert(times.end(), other.times.begin(), other.times.end());
    exact.Update(other.exact);
  }
  double moved_ratio() const {
    return static_cast<double>(units_moved) /
           static_cast<double>(std::max<uint64_t>(units_selected, 1));
  }
  /// Share of the budget, including sinks and window, that moves from step to step.
  double moved_of_budget(const PageBudget& budget) const {
    const uint32_t all = budget.sink_pages + budget.window_pages + budget.selected_pages;
    return moved_ratio() * budget.selected_pages / all;
  }
};

/// A context in the store, and the page budget of its decoder.
struct Source {
  const PagedContext* context;
  SegmentKey tip;
  uint32_t slots_per_head = 0;
};

/// The way of units to a session.
struct Path {
  std::shared_ptr<Transport> control;
  std::shared_ptr<Transport> data = nullptr;  ///< Transport of recalls; `control` when null.
  /// True if the server may write units into a landing.
  bool lands = false;
};

StatusOr<std::unique_ptr<Client>> MakeClient(const Path& path) {
  return Client::Create({.transport = path.control,
                         .data_transport = path.data,
                         .retry = {.first_backoff = std::chrono::milliseconds(1)}});
}

/// Wraps `transport` with each fault at its rate.
std::shared_ptr<LossyTransport> Lossy(std::shared_ptr<Transport> transport,
                                      const ElasticOptions& options) {
  return std::make_shared<LossyTransport>(
      std::move(transport), LossyTransport::Options{.method = "quire.v1.Session/Recall",
                                                    .drop_rate = options.fault_rate,
                                                    .late_rate = options.fault_rate,
                                                    .stale_rate = options.fault_rate,
                                                    .duplicate_rate = options.fault_rate,
                                                    .replay_rate = options.fault_rate,
                                                    .seed = options.seed});
}

/// The selections of a decoder with queries of such a stream, step by step.
StatusOr<std::vector<StepSelection>> StreamSteps(const StreamContext& context,
                                                 const QueryOptions& queries, uint32_t steps) {
  QUIRE_ASSIGN_OR_RETURN(auto selections, StreamSelections::Make(context, queries, kBudget));
  std::vector<StepSelection> all = {selections.selection()};
  cli::ProgressBar progress("selecting pages", steps);
  for (uint32_t step = 0; step < steps; ++step, progress.Advance()) {
    QUIRE_RETURN_IF_ERROR(selections.Step());
    all.push_back(selections.selection());
  }
  return all;
}

/// Returns the run that a step counts in.
using RunOfStep = std::function<ElasticRun*(size_t step)>;

/// Follows `steps` with a session over `path`, and adds each to its run.
Status Follow(const Path& path, const Source& source, std::span<const StepSelection> steps,
              const RunOfStep& run_of) {
  const KvSpec& spec = source.context->spec();
  QUIRE_ASSIGN_OR_RETURN(const auto client, MakeClient(path));
  SlotCache slots(spec, source.slots_per_head);
  QUIRE_ASSIGN_OR_RETURN(auto session,
                         ElasticSession::Open(*client, source.tip, spec, source.slots_per_head));
  if (path.lands) QUIRE_RETURN_IF_ERROR(session.Land());
  for (size_t step = 0; step < steps.size(); ++step) {
    const StepSelection& selection = steps[step];
    ElasticRun* const run = run_of(step);
    const uint64_t failed_before = session.failed_recalls();
    const TimePoint start = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(const auto moved, session.Step(selection, &slots));
    const Duration took = SystemClock().Now() - start;
    run->failed_recalls += session.failed_recalls() - failed_before;
    run->exact.Update(slots.Check(selection, *source.context));
    if (step == 0) continue;
    run->times.push_back(took);
    run->Add(moved, CountUnits(selection), UnitBytes(spec));
  }
  return OkStatus();
}
Status Follow(const Path& path, const Source& source, std::span<const StepSelection> steps,
              ElasticRun* run) {
  return Follow(path, source, steps, [run](size_t) { return run; });
}

/// INTERNAL unless a run without faults moved exactly the difference of each step to the one
/// before.
Status CheckMoved(const ElasticRun& run, std::span<const StepSelection> steps) {
  uint64_t missing = 0;
  for (size_t step = 1; step < steps.size(); ++step) {
    missing += MissingUnits(steps[step - 1], steps[step]);
  }
  if (run.units_moved == missing) return OkStatus();
  return Internal("recalls moved ", run.units_moved, " units where ", missing, " were missing");
}

/// Times steps whose selection is resident: messages are made and maps compared, but nothing moves.
StatusOr<Duration> MapOverhead(const Path& path, const Source& source,
                               const StepSelection& selection, uint32_t steps) {
  ElasticRun run;
  const std::vector<StepSelection> same(steps + 1, selection);
  QUIRE_RETURN_IF_ERROR(Follow(path, source, same, &run));
  if (run.units_moved > 0) return Internal(run.units_moved, " units moved that were resident");
  return Median(std::move(run.times));
}

double Micros(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

void AddRow(const std::string& name, const ElasticRun& run, cli::Table* table) {
  table->AddRow({name, cli::FormatRatio(run.moved_ratio()), cli::FormatRatio(1 - run.moved_ratio()),
                 cli::FormatBytes(run.bytes_moved), cli::FormatDuration(Median(run.times)),
                 run.exact.ok() ? "exact" : std::string(Message(run.exact))});
}

/// A run without faults, and one with.
struct Pair {
  ElasticRun quiet;
  ElasticRun faulty;
};

/// Runs of the model's decoder, by kind of step. Each step follows the one before, of any kind: a
/// trace is one session.
struct ModelRuns {
  std::array<Pair, kStepKinds> by_kind;

  Pair& of(StepKind kind) { return by_kind[static_cast<size_t>(kind)]; }
  Pair Sum(std::initializer_list<StepKind> kinds) const {
    Pair sum;
    for (const StepKind kind : kinds) {
      const Pair& pair = by_kind[static_cast<size_t>(kind)];
      sum.quiet.Add(pair.quiet);
      sum.faulty.Add(pair.faulty);
    }
    return sum;
  }
  Pair answers() const { return Sum({StepKind::kAnswer}); }
  Pair decoded() const { return Sum({StepKind::kAnswer, StepKind::kRunOn}); }
  Pair all() const { return Sum({StepKind::kQuestion, StepKind::kAnswer, StepKind::kRunOn}); }
};

/// The run with faults at c = 0.95 over another path than the loopback's messages.
struct SlotCheck {
  std::string over = {};  ///< "shm", "ucx", "loopback"
  ElasticRun run = {};
  Status followed = {};  ///< Why the run did not take place or failed; OK otherwise.

  /// True, false, or null if unknown.
  cli::Json exact() const {
    if (!followed.ok()) return nullptr;
    return run.exact.ok();
  }
  /// Reason for a value other than true.
  std::string reason() const { return std::string(Message(followed.ok() ? run.exact : followed)); }
};

/// A stream with one kind of walk.
struct Walk {
  Pair c95;
  Pair c90;
};

/// All measurements.
struct Measured {
  Walk walk;    ///< Queries that walk freely.
  Walk pulled;  ///< Queries that are pulled to their topic.
  ModelRuns model;
  Duration map_overhead = {};
  LossyTransport::Faults faults;  ///< Totals of all runs with faults over the loopback's messages.
  uint32_t model_questions = 0;
  SlotCheck shm;
  SlotCheck landing;
};

class ElasticBench {
 public:
  ElasticBench(EmbeddedStore* store, Client* client, const ElasticOptions& options)
      : store_(store),
        lossy_(Lossy(store->transport(), options)),
        client_(client),
        options_(options) {}

  Status FollowStream() {
    QUIRE_ASSIGN_OR_RETURN(const StreamContext context,
                           StreamContext::Make(BenchSpec(), {.pages = options_.context_pages(),
                                                             .seed = options_.seed}));
    QUIRE_ASSIGN_OR_RETURN(const Source source, Put(context, kBudget));
    QueryOptions queries{.topic_cosine = 0, .seed = options_.seed};
    QUIRE_ASSIGN_OR_RETURN(const auto steps, FollowWalk(context, source, queries, &measured_.walk));
    QUIRE_ASSIGN_OR_RETURN(
        measured_.map_overhead,
        MapOverhead({.control = store_->transport()}, source, steps.back(), options_.steps));
    CheckOtherPaths(source, steps);
    queries.topic_cosine = QueryOptions().topic_cosine;
    return FollowWalk(context, source, queries, &measured_.pulled).status();
  }

  Status FollowModel(std::span<const ModelTrace> traces) {
    for (const ModelTrace& trace : traces) {
      QUIRE_ASSIGN_OR_RETURN(const Source source, Put(trace.context, kModelBudget));
      const auto pair_of = [&](size_t step) { return &measured_.model.of(trace.kinds[step]); };
      QUIRE_RETURN_IF_ERROR(FollowBoth(source, trace.steps, pair_of));
      measured_.model_questions += trace.questions;
    }
    return OkStatus();
  }

  Measured Take() {
    measured_.faults = lossy_->faults();
    return std::move(measured_);
  }

 private:
  /// Follows both cosines. Returns the steps of c = 0.95.
  StatusOr<std::vector<StepSelection>> FollowWalk(const StreamContext& context,
                                                  const Source& source, QueryOptions queries,
                                                  Walk* walk) {
    queries.cosine = 0.90;
    QUIRE_ASSIGN_OR_RETURN(auto steps, StreamSteps(context, queries, options_.steps));
    QUIRE_RETURN_IF_ERROR(FollowBoth(source, steps, [walk](size_t) { return &walk->c90; }));
    QUIRE_RETURN_IF_ERROR(CheckMoved(walk->c90.quiet, steps));
    queries.cosine = 0.95;
    QUIRE_ASSIGN_OR_RETURN(steps, StreamSteps(context, queries, options_.steps));
    QUIRE_RETURN_IF_ERROR(FollowBoth(source, steps, [walk](size_t) { return &walk->c95; }));
    QUIRE_RETURN_IF_ERROR(CheckMoved(walk->c95.quiet, steps));
    return steps;
  }
  StatusOr<Source> Put(const PagedContext& context, const PageBudget& budget) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, PutContext(*client_, context, ++stored_));
    return Source{.context = &context, .tip = tip, .slots_per_head = budget.selected_pages};
  }
  /// Follows the steps without faults and with faults.
  Status FollowBoth(const Source& source, std::span<const StepSelection> steps,
                    const std::function<Pair*(size_t step)>& pair_of) {
    const std::shared_ptr<Transport> control = store_->transport();
    QUIRE_RETURN_IF_ERROR(Follow({.control = control}, source, steps,
                                 [&](size_t step) { return &pair_of(step)->quiet; }));
    return Follow({.control = control, .data = lossy_}, source, steps,
                  [&](size_t step) { return &pair_of(step)->faulty; });
  }

  /// A data connection of `kind`, and no other, to the listening store.
  StatusOr<std::shared_ptr<Transport>> Connect(const std::string& kind) {
    QUIRE_ASSIGN_OR_RETURN(const auto control, ConnectGrpc(store_->address()));
    QUIRE_ASSIGN_OR_RETURN(DataConnection data,
                           ConnectData(control, {.transport = kind,
                                                 .ucx_within_host = true,
                                                 .control_address = store_->address()}));
    return std::move(data.transport);
  }
  /// Checks other paths. An unavailable path does not prevent the report.
  void CheckOtherPaths(const Source& source, std::span<const StepSelection> steps) {
    // Listens on all available transports; connecting to another reports why it is absent.
    const Status listens = store_->Listen({});
    const auto shm = listens.ok() ? Connect("shm") : listens;
    measured_.shm = shm.ok() ? CheckSlots("shm", *shm, false, source, steps)
                             : SlotCheck{.over = "shm", .followed = shm.status()};
    const auto ucx = listens.ok() ? Connect("ucx") : listens;
    measured_.landing = ucx.ok() ? CheckSlots("ucx", *ucx, true, source, steps)
                                 : CheckSlots("loopback", store_->transport(), true, source, steps);
  }
  SlotCheck CheckSlots(const std::string& over, const std::shared_ptr<Transport>& data, bool lands,
                       const Source& source, std::span<const StepSelection> steps) {
    SlotCheck check{.over = over};
    check.followed =
        Follow({.control = store_->transport(), .data = Lossy(data, options_), .lands = lands},
               source, steps, &check.run);
    return check;
  }

  EmbeddedStore* const store_;
  const std::shared_ptr<LossyTransport> lossy_;
  Client* const client_;
  const ElasticOptions& options_;
  uint64_t stored_ = 0;
  Measured measured_;
};

cli::Json ShapeJson(const KvSpec& spec, uint32_t context_pages) {
  const TopicShape topics;
  return {{"context_tokens", context_pages * spec.page_tokens},
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
          {"jump_rate", QueryOptions().jump_rate}};
}

template <typename... Statuses>
int AllExact(const Statuses&... all) {
  return (all.ok() && ...) ? 1 : 0;
}

/// Adds the shares of units that moved in a walk.
void AddMoved(const Walk& walk, cli::Json* json) {
  const ElasticRun &c95 = walk.c95.quiet, &c90 = walk.c90.quiet;
  (*json)["moved_ratio"] = c95.moved_ratio();
  (*json)["moved_ratio_c90"] = c90.moved_ratio();
  (*json)["moved_of_budget"] = c95.moved_of_budget(kBudget);
  (*json)["moved_of_budget_c90"] = c90.moved_of_budget(kBudget);
}

/// Adds the shares of units that stayed in a walk, the times of its steps and their bytes.
void AddSteps(const Walk& walk, cli::Json* json) {
  for (const auto& [of, pair] : {std::pair{"_c95", &walk.c95}, {"_c90", &walk.c90}}) {
    const ElasticRun& quiet = pair->quiet;
    (*json)[std::string("overlap") + of] = 1 - quiet.moved_ratio();
    (*json)[std::string("budget_overlap") + of] = 1 - quiet.moved_of_budget(kBudget);
    (*json)[std::string("step_us") + of] = Micros(Median(quiet.times));
  }
  (*json)["bytes_moved_c95"] = walk.c95.quiet.bytes_moved;
  (*json)["bytes_resent_c95"] = walk.c95.quiet.bytes_selected;
}

cli::Json JsonOfPulled(const Walk& walk) {
  cli::Json json;
  AddMoved(walk, &json);
  json["slots_exact"] = AllExact(walk.c95.quiet.exact, walk.c90.quiet.exact);
  json["slots_exact_with_faults"] = AllExact(walk.c95.faulty.exact, walk.c90.faulty.exact);
  AddSteps(walk, &json);
  json["topic_cosine"] = QueryOptions().topic_cosine;
  return json;
}

cli::Json ToJson(const Measured& measured, const ElasticOptions& options) {
  const auto& [walk, pulled, model_runs, map_overhead, faults, model_questions, shm, landing] =
      measured;
  const Pair model = model_runs.decoded();
  const Pair model_answers = model_runs.answers();
  const Pair model_all = model_runs.all();
  cli::Json json = {{"benchmark", "elastic"}};
  AddMoved(walk, &json);
  json["moved_ratio_model"] = model.quiet.moved_ratio();
  json["moved_ratio_model_answers"] = model_answers.quiet.moved_ratio();
  json["moved_ratio_model_with_questions"] = model_all.quiet.moved_ratio();
  json["slots_exact"] = AllExact(walk.c95.quiet.exact, walk.c90.quiet.exact, model_all.quiet.exact);
  json["slots_exact_with_faults"] =
      AllExact(walk.c95.faulty.exact, walk.c90.faulty.exact, model_all.faulty.exact);
  json["slots_exact_model"] = AllExact(model_all.quiet.exact, model_all.faulty.exact);
  json["slots_exact_shm"] = shm.exact();
  json["slots_exact_landing"] = landing.exact();
  json["landing_over"] = landing.over;
  if (shm.exact() != true) json["slots_exact_shm_reason"] = shm.reason();
  if (landing.exact() != true) json["slots_exact_landing_reason"] = landing.reason();
  AddSteps(walk, &json);
  json["map_overhead_us_per_step"] = Micros(map_overhead);
  json["pulled_walk"] = JsonOfPulled(pulled);
  json["faults"] = {{"dropped", faults.dropped},
                    {"late", faults.late},
                    {"stale", faults.stale},
                    {"duplicated", faults.duplicated},
                    {"replayed", faults.replayed},
                    {"recalls_made_again",
                     walk.c95.faulty.failed_recalls + walk.c90.faulty.failed_recalls +
                         pulled.c95.faulty.failed_recalls + pulled.c90.faulty.failed_recalls +
                         model_all.faulty.failed_recalls},
                    {"rate_of_each", options.fault_rate}};
  json["model_decode_steps"] = model.quiet.times.size();
  json["model_answer_steps"] = model_answers.quiet.times.size();
  json["model_question_steps"] = model_all.quiet.times.size() - model.quiet.times.size();
  json["model_decoded_tokens_per_question"] = options.decoded_tokens;
  json["model_questions"] = model_questions;
  json["model_units_selected"] = model.quiet.units_selected;
  json["shape"] = ShapeJson(BenchSpec(), options.context_pages());
  json["steps"] = options.steps;
  json["seed"] = options.seed;
  json["machine"] = Machine();
  return json;
}

cli::Table ToTable(const Measured& measured) {
  cli::Table table({{"SELECTIONS"},
                    {"MOVED", cli::Table::kRight},
                    {"OVERLAP", cli::Table::kRight},
                    {"BYTES", cli::Table::kRight},
                    {"PER STEP", cli::Table::kRight},
                    {"SLOTS"}});
  const Pair model = measured.model.decoded();
  for (const auto& [name, pair] : {std::pair{"stream, c = 0.95", &measured.walk.c95},
                                   {"stream, c = 0.90", &measured.walk.c90},
                                   {"pulled, c = 0.95", &measured.pulled.c95},
                                   {"pulled, c = 0.90", &measured.pulled.c90},
                                   {"model", &model}}) {
    AddRow(name, pair->quiet, &table);
    AddRow(std::string(name) + ", faults", pair->faulty, &table);
  }
  for (const auto& [name, check] :
       {std::pair{"over ", &measured.shm}, {"landing over ", &measured.landing}}) {
    if (check->followed.ok()) {
      AddRow("c = 0.95, faults, " + (name + check->over), check->run, &table);
    }
  }
  return table;
}

StatusOr<BenchReport> RunElastic(const ElasticOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::string model, cli::FindModel(options.model));
  // Read first, so that an unreadable model is reported at once.
  QUIRE_ASSIGN_OR_RETURN(const auto traces, RecordTraces(model,
                                                         {.questions = options.questions,
                                                          .page_tokens = kModelPageTokens,
                                                          .decoded_tokens = options.decoded_tokens},
                                                         kModelBudget));
  QUIRE_ASSIGN_OR_RETURN(const auto directory, cli::DataDir::Make(options.data_dir));
  const uint64_t dram = SegmentBytes(BenchSpec(), options.context_pages()) + kModelStoreBytes;
  QUIRE_ASSIGN_OR_RETURN(const auto store,
                         EmbeddedStore::Open({.data_dir = directory->path(), .dram_bytes = dram}));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = store->transport()}));
  ElasticBench bench(store.get(), client.get(), options);
  QUIRE_RETURN_IF_ERROR(bench.FollowStream());
  QUIRE_RETURN_IF_ERROR(bench.FollowModel(traces));
  const Measured measured = bench.Take();
  return BenchReport{.json = ToJson(measured, options), .table = ToTable(measured)};
}

}  // namespace

void AddElasticBench(Benches& benches) {
  const auto options = std::make_shared<ElasticOptions>();
  CLI::App& command = benches.Add(
      {.name = "elastic",
       .summary = "Bytes moved with diffs against sending each selection, slots checked every step",
       .examples =
           "  quire bench elastic --json\n"
           "  quire bench elastic --steps 2048 --seed 7\n"
           "  quire bench elastic --context 4096 --steps 64 --questions 2   a first look\n"
           "What moves depends on --context; goals are for its default.\n"
           "moved_ratio is of the units that are selected, and moved_of_budget of those that\n"
           "are resident, sinks and window included, both of the walk that the specification\n"
           "describes; pulled_walk has the same of queries that stay around their topic\n"
           "(docs/design/0023).\n"
           "moved_ratio_model is of the steps that the model decodes, greedily, after each\n"
           "question: its answer, and what it goes on with up to --decoded-tokens;\n"
           "moved_ratio_model_answers is of those of the answers alone. One session follows\n"
           "a document, its questions and what is decoded, token by token, so every step\n"
           "is measured after the one before it; moved_ratio_model_with_questions is of all\n"
           "its steps, and slots_exact_model says that the slots were right after each, with\n"
           "faults and without."},
      [options](const cli::CommandContext&) { return RunElastic(*options); });
  command
      .add_option("--context", options->context_tokens,
                  "Tokens of the synthetic context, in whole segments of 256")
      ->check(CLI::Range(4096, 131072))
      ->capture_default_str();
  command.add_option("--steps", options->steps, "Decoding steps of each run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--questions", options->questions, "Questions asked of the model")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      .add_option("--decoded-tokens", options->decoded_tokens,
                  "Tokens that the model decodes after each question, its answer's included")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command
      .add_option("--fault-rate", options->fault_rate,
                  "Share of the replies that are dropped; as many are late, as many stale, as "
                  "many duplicated, as many replayed")
      ->check(CLI::Range(0.0, 0.05))
      ->capture_default_str();
  command.add_option("--seed", options->seed, "Of keys, queries and faults")->capture_default_str();
  command.add_option("--model", options->model,
                     "Directory of the model (the bundled one when not given)");
  cli::AddDataDirOption(command, &options->data_dir);
}

}  // namespace quire::bench
