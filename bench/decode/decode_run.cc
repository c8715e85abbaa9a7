// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/decode_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "apps/kit/output/progress.h"
#include "bench/answers/calibrate_threshold.h"
#include "bench/kit/median.h"
#include "bench/kit/published_options.h"
#include "bench/kit/side_by_side.h"
#include "kernels/cpu/gemm.h"

namespace quire::bench {
namespace {

constexpr float kAlways = 1.5f;  ///< A tau above every cosine: every recall blocks.
constexpr uint32_t kProbeSteps = 12;

/// Longer than OpenBLAS's idle threads spin before they sleep.
constexpr Duration kProductThreadsRest = std::chrono::milliseconds(40);

/// Makes products use `threads` threads, after the surplus ones have gone to sleep.
void UseThreads(uint32_t threads) {
  const uint32_t before = kernels::GemmThreads();
  if (threads == before) return;
  kernels::SetGemmThreads(threads);
  if (threads < before) SystemClock().Sleep(kProductThreadsRest);
}

/// Restores the process's number of threads.
class KeepThreads {
 public:
  KeepThreads() : threads_(kernels::GemmThreads()) {}
  ~KeepThreads() { kernels::SetGemmThreads(threads_); }
  KeepThreads(const KeepThreads&) = delete;
  KeepThreads& operator=(const KeepThreads&) = delete;

 private:
  const uint32_t threads_;
};

/// Runs steps of a lane, and adds them to `run`.
Status Step(DecodeLane& lane, uint32_t count, DecodeRun* run) {
  const DecodeTotals before = lane.Totals();
  Duration turn = {};
  for (uint32_t i = 0; i < count; ++i) {
    const TimePoint start = SystemClock().Now();
    QUIRE_RETURN_IF_ERROR(lane.Step());
    run->steps.push_back(SystemClock().Now() - start);
    turn += run->steps.back();
  }
  run->turns.push_back(turn);
  run->totals += lane.Totals() - before;
  return OkStatus();
}

}  // namespace

StatusOr<std::vector<DecodeWay>> DecodeWays(const worker::RetrievalOptions& budget,
                                            uint32_t page_tokens, float tau, Duration deadline) {
  std::vector<DecodeWay> ways;
  QUIRE_ASSIGN_OR_RETURN(worker::RetrievalOptions freekv,
                         PublishedWithin(budget, "freekv", page_tokens));
  freekv.correction_threshold = tau;
  ways.push_back({.name = "freekv", .retrieval = freekv});
  ways.push_back({.name = "service", .retrieval = freekv, .kept = true});
  ways.back().retrieval.recall_deadline = deadline;
  freekv.correction_threshold = kAlways;
  ways.push_back({.name = "blocking", .retrieval = freekv});
  freekv.recall_buffers = 1;
  ways.push_back({.name = "one_buffer", .retrieval = freekv});
  freekv.recall_layout = worker::RecallLayout::kRows;
  ways.push_back({.name = "fragmented", .retrieval = freekv, .rows = true});
  QUIRE_ASSIGN_OR_RETURN(worker::RetrievalOptions arkvale,
                         PublishedWithin(budget, "arkvale", page_tokens));
  arkvale.recall_buffers = 1;
  ways.push_back({.name = "arkvale", .retrieval = std::move(arkvale), .rows = true});
  for (const auto& [name, policy] : {std::pair("shadowkv", "shadowkv"),
                                     {"specontext", "specontext"},
                                     {"full", "full"},
                                     {"resident", "streaming"}}) {
    QUIRE_ASSIGN_OR_RETURN(worker::RetrievalOptions retrieval,
                           PublishedWithin(budget, policy, page_tokens));
    ways.push_back({.name = name, .retrieval = std::move(retrieval)});
  }
  return ways;
}

RatioSpread SpreadOf(std::vector<double> ratios) {
  RatioSpread spread{.turns = ratios.size()};
  if (ratios.empty()) return spread;
  std::ranges::sort(ratios);
  const auto quantile = [&](double share) {
    const double at = share * static_cast<double>(ratios.size() - 1);
    const auto below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, ratios.size() - 1);
    return ratios[below] + (at - static_cast<double>(below)) * (ratios[above] - ratios[below]);
  };
  spread.lower_quartile = quantile(0.25);
  spread.median = quantile(0.5);
  spread.upper_quartile = quantile(0.75);
  return spread;
}

uint32_t DecodeComparison::BestThreads(const std::string& way) const {
  const auto least = std::ranges::min_element(
      ways.at(way), {}, [](const auto& run) { return Median(run.second.steps); });
  return least->first;
}

std::optional<RatioSpread> DecodeComparison::Ratio(const std::string& slower,
                                                   const std::string& faster) const {
  if (!ways.contains(slower) || !ways.contains(faster)) return std::nullopt;
  const std::vector<Duration>&a = Best(slower).turns, &b = Best(faster).turns;
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    ratios.push_back(static_cast<double>(a[i].count()) / static_cast<double>(b[i].count()));
  }
  return SpreadOf(std::move(ratios));
}

std::vector<uint32_t> ThreadsToTry() {
  const uint32_t cpus = std::max(1u, std::thread::hardware_concurrency());
  // Products with one thread only need no trial.
  const KeepThreads keep;
  kernels::SetGemmThreads(cpus);
  if (cpus == 1 || kernels::GemmThreads() == 1) return {1};
  return {1, cpus};
}

StatusOr<DecodeComparison> CompareDecoding(const DecodeEngines& engines,
                                           const DocumentName& document,
                                           std::span<const DecodeWay> ways,
                                           const DecodeTurns& turns, uint32_t sequences) {
  const KeepThreads keep;
  cli::ProgressBar progress(
      sequences == 1 ? "decoding" : "decoding " + std::to_string(sequences) + " sequences",
      ways.size() * (turns.turns * turns.threads.size() + 1));
  DecodeComparison comparison;
  std::vector<std::unique_ptr<DecodeLane>> lanes;
  for (const DecodeWay& way : ways) {
    progress.Advance(0, way.name);
    QUIRE_ASSIGN_OR_RETURN(auto lane, DecodeLane::Open(engines, document, way, sequences));
    DecodeRun not_measured;
    QUIRE_RETURN_IF_ERROR(Annotate(Step(*lane, turns.warm_up_steps, &not_measured), way.name));
    lanes.push_back(std::move(lane));
    progress.Advance(1, way.name);
  }
  // All ways have their turns with one number of threads before the next number. The turns of a
  // round with the same number therefore run the same tokens.
  std::vector<SideBySide> sides;
  for (const uint32_t threads : turns.threads) {
    std::vector<SideBySide::Contender> contenders;
    for (size_t i = 0; i < lanes.size(); ++i) {
      const std::string& name = ways[i].name;
      DecodeRun* const run = &comparison.ways[name][threads];
      contenders.push_back({.turn = [&progress, &name, run, lane = lanes[i].get(),
                                     steps = turns.steps_per_turn]() -> Status {
        progress.Advance(1, name);
        return Annotate(Step(*lane, steps, run), name);
      }});
    }
    sides.emplace_back(std::move(contenders));
  }
  for (uint32_t round = 0; round < turns.turns; ++round) {
    for (size_t side = 0; side < sides.size(); ++side) {
      UseThreads(turns.threads[side]);
      QUIRE_RETURN_IF_ERROR(sides[side].Run(1));
    }
  }
  return comparison;
}

StatusOr<float> CalibrateDecoding(const worker::Engine& engine, const DocumentName& document,
                                  const worker::RetrievalOptions& budget, double share) {
  DecodeWay way{.name = "freekv", .retrieval = {}};
  QUIRE_ASSIGN_OR_RETURN(way.retrieval,
                         PublishedWithin(budget, "freekv", engine.spec().page_tokens));
  const double heads = double{1} * engine.spec().num_layers * engine.spec().num_kv_heads;
  return CalibrateThreshold(share, [&](float tau) -> StatusOr<double> {
    way.retrieval.correction_threshold = tau;
    QUIRE_ASSIGN_OR_RETURN(const auto lane,
                           DecodeLane::Open({.units = &engine}, document, way, /*sequences=*/1));
    DecodeRun not_measured, probe;
    QUIRE_RETURN_IF_ERROR(Step(*lane, 2, &not_measured));
    QUIRE_RETURN_IF_ERROR(Step(*lane, kProbeSteps, &probe));
    return static_cast<double>(probe.totals.blocking_heads) / (heads * kProbeSteps);
  });
}

}  // namespace quire::bench
