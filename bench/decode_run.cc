// SPDX-License-Identifier: Apache-2.0
#include "bench/decode_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/calibrate_threshold.h"
#include "bench/published_options.h"
#include "bench/side_by_side.h"
#include "client/cli/progress.h"

namespace quire::bench {
namespace {

constexpr float kAlways = 1.5f;  ///< tau above every cosine: every recall blocks.
constexpr uint32_t kProbeSteps = 12;

/// A lane, and what its steps take.
class TimedLane {
 public:
  static StatusOr<std::unique_ptr<TimedLane>> Open(const DecodeEngines& engines,
                                                   const DocumentName& document,
                                                   const DecodeWay& way, uint32_t sequences) {
    auto timed = std::make_unique<TimedLane>();
    QUIRE_ASSIGN_OR_RETURN(timed->lane_, DecodeLane::Open(engines, document, way, sequences));
    return timed;
  }

  Status Step(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const TimePoint start = SystemClock().Now();
      QUIRE_RETURN_IF_ERROR(lane_->Step());
      times_.push_back(SystemClock().Now() - start);
    }
    return OkStatus();
  }
  /// What follows is measured.
  void Begin() {
    times_.clear();
    before_ = lane_->Totals();
  }
  DecodeFigures Figures() const { return {.steps = times_, .totals = lane_->Totals() - before_}; }

 private:
  std::unique_ptr<DecodeLane> lane_;
  std::vector<Duration> times_;
  DecodeTotals before_;
};

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
  for (const auto& [name, policy] :
       {std::pair("shadowkv", "shadowkv"), {"resident", "streaming"}}) {
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

std::optional<RatioSpread> DecodeComparison::Ratio(const std::string& slower,
                                                   const std::string& faster) const {
  const auto a = turns.find(slower), b = turns.find(faster);
  if (a == turns.end() || b == turns.end()) return std::nullopt;
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a->second.size(), b->second.size()); ++i) {
    ratios.push_back(static_cast<double>(a->second[i].count()) /
                     static_cast<double>(b->second[i].count()));
  }
  return SpreadOf(std::move(ratios));
}

StatusOr<DecodeComparison> CompareDecoding(const DecodeEngines& engines,
                                           const DocumentName& document,
                                           std::span<const DecodeWay> ways,
                                           const DecodeTurns& turns, uint32_t sequences) {
  cli::ProgressBar progress(
      sequences == 1 ? "decoding" : "decoding " + std::to_string(sequences) + " sequences",
      ways.size() * (turns.turns + 1));
  DecodeComparison comparison;
  std::vector<std::unique_ptr<TimedLane>> lanes;
  std::vector<SideBySide::Contender> contenders;
  for (const DecodeWay& way : ways) {
    progress.Advance(0, way.name);
    QUIRE_ASSIGN_OR_RETURN(auto lane, TimedLane::Open(engines, document, way, sequences));
    QUIRE_RETURN_IF_ERROR(Annotate(lane->Step(turns.warm_up_steps), way.name));
    lane->Begin();
    contenders.push_back(
        SideBySide::Timing([&progress, &comparison, lane = lane.get(), name = way.name,
                            steps = turns.steps_per_turn]() -> StatusOr<Duration> {
          const TimePoint start = SystemClock().Now();
          QUIRE_RETURN_IF_ERROR(Annotate(lane->Step(steps), name));
          const Duration took = SystemClock().Now() - start;
          comparison.turns[name].push_back(took);
          progress.Advance(1, name);
          return took;
        }));
    lanes.push_back(std::move(lane));
    progress.Advance(1, way.name);
  }
  QUIRE_RETURN_IF_ERROR(SideBySide(std::move(contenders)).Run(turns.turns));
  for (size_t i = 0; i < lanes.size(); ++i) comparison.ways[ways[i].name] = lanes[i]->Figures();
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
                           TimedLane::Open({.units = &engine}, document, way, /*sequences=*/1));
    QUIRE_RETURN_IF_ERROR(lane->Step(2));
    lane->Begin();
    QUIRE_RETURN_IF_ERROR(lane->Step(kProbeSteps));
    return static_cast<double>(lane->Figures().totals.blocking_heads) / (heads * kProbeSteps);
  });
}

}  // namespace quire::bench
