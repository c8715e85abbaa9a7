// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/length_costs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/worker/local_worker.h"
#include "bench/answers/calibrate_threshold.h"
#include "bench/decode/decode_lane.h"
#include "bench/decode/scoring_time.h"
#include "bench/kit/machine_facts.h"
#include "bench/kit/median.h"
#include "bench/kit/random_model.h"
#include "bench/transport/serve_process.h"
#include "gpuworker/device/cuda_device.h"
#include "kernels/api/page_digest.h"
#include "quire/key.h"
#include "quire/layout.h"
#include "quire/payload.h"

namespace quire::bench {
namespace {

/// Few KV heads, so that 1 Mi tokens take 4 GiB of pages, and 1 GiB of a retrieval head's keys.
constexpr RandomModel kLengthModel = {
    .num_layers = 4, .num_query_heads = 8, .num_kv_heads = 2, .head = true};
/// Positions of the model behind the longest document.
constexpr uint32_t kRoomTokens = 1 << 16;
constexpr uint32_t kScoringSteps = 5;
constexpr uint64_t kServerRoomBytes = uint64_t{512} << 20;
/// Memory that stays free besides what a way needs.
constexpr uint64_t kSpareBytes = uint64_t{1} << 30;
constexpr std::string_view kWays[] = {"full", "freekv", "specontext"};
constexpr std::string_view kWayFull = "full", kWayFreeKv = "freekv", kWaySpeContext = "specontext";

double Milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}
double Seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

/// Bytes of a token's keys in a retrieval head.
uint64_t HeadBytesPerToken(const RandomModel& model) {
  return uint64_t{model.num_kv_heads} * model.head_dim * sizeof(float);
}

uint64_t GrowthSince(uint64_t before, uint64_t now) { return now > before ? now - before : 0; }

/// Place of a way in kWays; their number for others.
size_t PlaceOf(const DecodeWay& way) {
  return static_cast<size_t>(std::ranges::find(kWays, way.name) - std::begin(kWays));
}

class LengthRun {
 public:
  explicit LengthRun(const LengthOptions& options) : options_(options) {}

  StatusOr<LengthCosts> Run() {
    QUIRE_RETURN_IF_ERROR(Prepare());
    std::set<uint32_t> documents(options_.lengths.begin(), options_.lengths.end());
    const bool with_agent = options_.agent && *documents.rbegin() >= kAgentContextTokens;
    if (with_agent) documents.insert(kAgentContextTokens);
    cli::ProgressBar progress(
        "decoding by length",
        std::size(kWays) *
            (options_.lengths.size() * options_.batches.size() + (with_agent ? 1 : 0)));
    for (const uint32_t tokens : documents) {
      QUIRE_RETURN_IF_ERROR(PutDocument(tokens));
      if (ways_.empty()) QUIRE_RETURN_IF_ERROR(Calibrate(tokens));
      if (std::ranges::find(options_.lengths, tokens) != options_.lengths.end()) {
        QUIRE_RETURN_IF_ERROR(MeasureDocument(tokens, progress));
      }
      if (with_agent && tokens == kAgentContextTokens) {
        QUIRE_RETURN_IF_ERROR(MeasureAgent(progress));
      }
    }
    return std::move(costs_);
  }

 private:
  Status CheckLengths(const KvSpec& spec) const {
    uint32_t before = 0;
    for (const uint32_t tokens : options_.lengths) {
      if (tokens <= before || tokens % spec.segment_tokens() != 0 ||
          tokens < 2 * options_.budget_tokens) {
        return InvalidArgument("--context ", tokens,
                               " cannot be compared by length; give multiples of ",
                               spec.segment_tokens(), " that ascend, of two budgets (--budget ",
                               options_.budget_tokens, ") or more");
      }
      before = tokens;
    }
    return OkStatus();
  }

  /// A model, a server for the longest document, and a worker.
  Status Prepare() {
    engine_options_.dtype = DType::kF16;
    QUIRE_ASSIGN_OR_RETURN(directory_, cli::DataDir::Make(options_.data_dir));
    RandomModel model = kLengthModel;
    model.own_share = options_.drift;
    model.max_positions = options_.lengths.back() + kRoomTokens;
    const std::string weights = directory_->path() + "/length";
    QUIRE_RETURN_IF_ERROR(WriteRandomModel(weights, model));
    QUIRE_ASSIGN_OR_RETURN(const auto decoder,
                           worker::Decoder::Load(weights, &worker::CpuDevice()));
    const KvSpec spec = decoder->MakeKvSpec(engine_options_.dtype, engine_options_.page_tokens,
                                            engine_options_.segment_pages);
    QUIRE_RETURN_IF_ERROR(CheckLengths(spec));
    costs_.spec = spec;
    costs_.hidden_size = model.hidden_size();
    QUIRE_RETURN_IF_ERROR(StartServer(spec));
    QUIRE_ASSIGN_OR_RETURN(
        worker_, cli::LoadLocalWorker(weights, client_.get(), engine_options_, options_.device));
    QUIRE_ASSIGN_OR_RETURN(device_, worker::FindDevice(options_.device));
    return OkStatus();
  }

  Status StartServer(const KvSpec& spec) {
    const uint64_t document = SegmentBytes(spec, options_.lengths.back() / spec.page_tokens);
    const uint64_t keys = options_.lengths.back() * HeadBytesPerToken(kLengthModel);
    const uint64_t dram = (document + keys) / 8 * 9 + kServerRoomBytes;
    if (const uint64_t available = AvailableMemoryBytes(); dram + kSpareBytes > available) {
      return ResourceExhausted("the server needs ", cli::FormatBytes(dram), " for --context ",
                               options_.lengths.back(), "; ", cli::FormatBytes(available),
                               " are available; give less");
    }
    const uint32_t contexts = 4 * *std::ranges::max_element(options_.batches);
    QUIRE_ASSIGN_OR_RETURN(
        server_,
        ServeProcess::Start(directory_->path(), {"--dram-bytes", std::to_string(dram),
                                                 "--max-contexts", std::to_string(contexts)}));
    std::string detail;
    QUIRE_ASSIGN_OR_RETURN(auto recalls, server_->ConnectRecalls(options_.transport, &detail));
    QUIRE_ASSIGN_OR_RETURN(client_, Client::Create({.transport = server_->control(),
                                                    .data_transport = std::move(recalls)}));
    return OkStatus();
  }

  static DocumentName NameOf(uint32_t tokens) {
    return {.collection = "bench", .name = "length-" + std::to_string(tokens)};
  }

  /// Puts the document's pages. Those that a shorter one had are there already.
  Status PutDocument(uint32_t tokens) {
    const uint64_t before = HeldMemoryBytes(server_->pid());
    cli::ProgressBar progress("storing pages", tokens / costs_.spec.page_tokens - put_pages_);
    uint32_t page = 0;
    const auto put = [&](std::span<const TokenId> ids, std::span<const std::byte> bytes) -> Status {
      if (std::exchange(page, page + costs_.spec.segment_pages) < put_pages_) return OkStatus();
      Payload payload;
      payload.Append(Slice{bytes, nullptr});
      QUIRE_ASSIGN_OR_RETURN(tip_, client_->PutSegment(costs_.spec, tip_, ids, payload));
      progress.Advance(costs_.spec.segment_pages);
      return OkStatus();
    };
    QUIRE_RETURN_IF_ERROR(VisitRandomDocument(costs_.spec, tokens / costs_.spec.page_tokens, put));
    put_pages_ = page;
    QUIRE_RETURN_IF_ERROR(client_->RegisterDocument(NameOf(tokens), tip_).status());
    page_bytes_ += GrowthSince(before, HeldMemoryBytes(server_->pid()));
    return OkStatus();
  }

  Status Calibrate(uint32_t tokens) {
    StatusOr<float> tau = options_.tau.value_or(0);
    if (!options_.tau) {
      tau = CalibrateDecoding(*worker_.engine, NameOf(tokens), Budget(), kCorrectedShare);
    }
    QUIRE_ASSIGN_OR_RETURN(costs_.tau, std::move(tau));
    QUIRE_ASSIGN_OR_RETURN(ways_, DecodeWays(Budget(), costs_.spec.page_tokens, costs_.tau, {}));
    std::erase_if(ways_, [](const DecodeWay& way) { return PlaceOf(way) == std::size(kWays); });
    std::ranges::sort(ways_, {}, PlaceOf);
    return OkStatus();
  }

  Status MeasureDocument(uint32_t tokens, cli::ProgressBar& progress) {
    for (const DecodeWay& way : ways_) {
      for (const uint32_t sequences : options_.batches) {
        progress.Advance(1, std::to_string(tokens) + " tokens, " + way.name);
        QUIRE_RETURN_IF_ERROR(Measure(way, tokens, sequences, options_.turns, &costs_.costs));
      }
    }
    return OkStatus();
  }

  worker::RetrievalOptions Budget() const {
    worker::RetrievalOptions budget;
    budget.budget_tokens = options_.budget_tokens;
    budget.sink_tokens = 4 * costs_.spec.page_tokens;
    budget.window_tokens = 4 * costs_.spec.page_tokens;
    budget.uncompressed_layers = {};
    return budget;
  }

  /// Memory of this process that a way needs.
  uint64_t NeededBytes(const DecodeWay& way, uint32_t tokens, uint32_t sequences) const {
    const uint64_t pages = tokens / costs_.spec.page_tokens;
    if (way.name == kWayFull) return sequences * SegmentBytes(costs_.spec, pages);
    if (way.name == kWayFreeKv) {
      return pages * costs_.spec.num_layers * kernels::PageDigestBytes(costs_.spec);
    }
    // One sequence has its keys twice more while they come.
    return (sequences + 2) * tokens * HeadBytesPerToken(kLengthModel);
  }

  /// Runs one way over one document, and adds it to `costs` or to what was left out.
  Status Measure(const DecodeWay& way, uint32_t tokens, uint32_t sequences,
                 const DecodeTurns& turns, std::vector<LengthCost>* costs) {
    const uint64_t needed = NeededBytes(way, tokens, sequences) + kSpareBytes;
    const uint64_t available = AvailableMemoryBytes();
    if (needed > available) {
      costs_.left_out.push_back({.context_tokens = tokens,
                                 .sequences = sequences,
                                 .way = way.name,
                                 .why = "needs " + cli::FormatBytes(needed) + " of memory; " +
                                        cli::FormatBytes(available) + " were available"});
      return OkStatus();
    }
    QUIRE_ASSIGN_OR_RETURN(LengthCost cost, RunLane(way, tokens, sequences, turns));
    if (way.name != kWayFull) {
      QUIRE_ASSIGN_OR_RETURN(const Duration scoring, ScoringOf(way, tokens));
      cost.scoring_ms = sequences * Milliseconds(scoring);
    }
    costs->push_back(std::move(cost));
    return OkStatus();
  }

  StatusOr<LengthCost> RunLane(const DecodeWay& way, uint32_t tokens, uint32_t sequences,
                               const DecodeTurns& turns) {
    LengthCost cost{.context_tokens = tokens, .sequences = sequences, .way = way.name};
    const uint64_t memory = OwnMemoryBytes(), server_memory = HeldMemoryBytes(server_->pid());
    const TimePoint start = SystemClock().Now();
    QUIRE_ASSIGN_OR_RETURN(const auto lane, DecodeLane::Open({.units = worker_.engine.get()},
                                                             NameOf(tokens), way, sequences));
    QUIRE_RETURN_IF_ERROR(lane->Step());  // A batch opens its sequences in it.
    cost.open_seconds = Seconds(SystemClock().Now() - start);
    if (way.name == kWaySpeContext) {
      head_bytes_ += GrowthSince(server_memory, HeldMemoryBytes(server_->pid()));
    }
    QUIRE_ASSIGN_OR_RETURN(const auto runs, DecodeAlone(*lane, turns));
    cost.threads = BestThreads(runs);
    AddRun(runs.at(cost.threads), &cost);
    cost.worker_bytes = GrowthSince(memory, OwnMemoryBytes());
    cost.server_bytes = page_bytes_ + (way.name == kWaySpeContext ? head_bytes_ : 0);
    return cost;
  }

  void AddRun(const DecodeRun& run, LengthCost* cost) const {
    std::vector<Duration> steps = run.steps;
    std::ranges::sort(steps);
    const auto count = static_cast<double>(steps.size());
    const double heads =
        double{1} * costs_.spec.num_layers * costs_.spec.num_kv_heads * cost->sequences;
    cost->step_ms = Milliseconds(Median(steps));
    cost->p99_ms = Milliseconds(steps[std::lround(0.99 * (count - 1))]);
    cost->stall_ms = run.totals.stall_seconds * 1e3 / count;
    cost->bytes_per_step = static_cast<double>(run.totals.bytes_recalled) / count;
    cost->blocking_share = static_cast<double>(run.totals.blocking_heads) / (heads * count);
    for (const Duration step : steps) cost->decode_seconds += Seconds(step);
    cost->steps = steps.size();
  }

  /// Scoring of one sequence.
  StatusOr<Duration> ScoringOf(const DecodeWay& way, uint32_t tokens) {
    std::optional<Duration>& time = scoring_[{way.name, tokens}];
    if (!time) {
      QUIRE_ASSIGN_OR_RETURN(
          time, TimeScoring(*worker_.engine, *device_, way.retrieval, tokens, kScoringSteps));
    }
    return *time;
  }

  /// One sequence with the tokens of an agent, on all processors.
  Status MeasureAgent(cli::ProgressBar& progress) {
    const DecodeTurns turns{.warm_up_steps = 0,
                            .turns = 1,
                            .steps_per_turn = kAgentGeneratedTokens - 1,
                            .threads = {options_.turns.threads.back()}};
    for (const DecodeWay& way : ways_) {
      progress.Advance(1, "an agent, " + way.name);
      QUIRE_RETURN_IF_ERROR(
          Measure(way, kAgentContextTokens, /*sequences=*/1, turns, &costs_.agents));
    }
    return OkStatus();
  }

  const LengthOptions& options_;
  worker::EngineOptions engine_options_;
  std::unique_ptr<cli::DataDir> directory_;
  std::unique_ptr<ServeProcess> server_;
  std::unique_ptr<Client> client_;
  cli::LocalWorker worker_;
  worker::Device* device_ = nullptr;
  std::vector<DecodeWay> ways_;  ///< kWays.
  SegmentKey tip_ = kRootKey;    ///< Tip of the pages that were put.
  uint32_t put_pages_ = 0;
  uint64_t page_bytes_ = 0;  ///< Growth of the server's memory by pages.
  uint64_t head_bytes_ = 0;  ///< Growth by the keys of the head.
  std::map<std::pair<std::string, uint32_t>, std::optional<Duration>> scoring_;
  LengthCosts costs_;
};

}  // namespace

StatusOr<LengthCosts> MeasureLengths(const LengthOptions& options) {
  if (options.lengths.empty() || options.batches.empty() || options.turns.threads.empty()) {
    return InvalidArgument("no length, batch or number of threads to compare");
  }
  return LengthRun(options).Run();
}

}  // namespace quire::bench
