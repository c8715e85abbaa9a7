// SPDX-License-Identifier: Apache-2.0
#include "bench/decode_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/side_by_side.h"
#include "client/cli/progress.h"
#include "common/base/random.h"

namespace quire::bench {
namespace {

constexpr float kAlways = 1.5f;  ///< tau above every cosine: every recall blocks.
constexpr float kNever = -1.5f;  ///< tau below every cosine.
constexpr uint32_t kProbeSteps = 12;
constexpr int kProbes = 6;

/// One way's sequence.
class DecodeLane {
 public:
  static StatusOr<std::unique_ptr<DecodeLane>> Open(const worker::Engine& engine,
                                                    const DocumentName& document,
                                                    const worker::RetrievalOptions& retrieval) {
    auto lane = std::make_unique<DecodeLane>();
    lane->vocabulary_ = engine.model().vocab_size;
    QUIRE_ASSIGN_OR_RETURN(lane->sequence_,
                           engine.OpenSequence(document, {.retrieval = retrieval}));
    return lane;
  }

  /// Runs `count` tokens, one after the other; the same ones for every lane.
  Status Step(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const auto token = static_cast<TokenId>(tokens_.Below(vocabulary_));
      const TimePoint start = SystemClock().Now();
      QUIRE_RETURN_IF_ERROR(sequence_->Append({&token, 1}));
      times_.push_back(SystemClock().Now() - start);
    }
    return OkStatus();
  }
  /// What follows is measured.
  void Begin() {
    times_.clear();
    before_ = sequence_->stats();
  }
  DecodeFigures Figures() const {
    const worker::SequenceStats now = sequence_->stats();
    return {.steps = times_,
            .stall_seconds = now.seconds_stalled - before_.seconds_stalled,
            .units_recalled = now.units_missed - before_.units_missed,
            .bytes_recalled = now.moved.units - before_.moved.units,
            .blocking_heads = now.blocking_heads - before_.blocking_heads,
            .recalls = now.recalls - before_.recalls};
  }

 private:
  std::unique_ptr<worker::Sequence> sequence_;
  uint32_t vocabulary_ = 0;
  SeededRandom tokens_{3};
  std::vector<Duration> times_;
  worker::SequenceStats before_;
};

DecodeWay Way(std::string name, worker::RetrievalOptions retrieval, std::string policy) {
  retrieval.policy = std::move(policy);
  return {std::move(name), std::move(retrieval)};
}

}  // namespace

std::vector<DecodeWay> DecodeWays(const worker::RetrievalOptions& budget, float tau) {
  std::vector<DecodeWay> ways;
  worker::RetrievalOptions retrieval = budget;
  retrieval.correction_threshold = tau;
  ways.push_back(Way("freekv", retrieval, "freekv"));
  retrieval.correction_threshold = kAlways;
  ways.push_back(Way("blocking", retrieval, "freekv"));
  retrieval.recall_buffers = 1;
  ways.push_back(Way("one_buffer", retrieval, "freekv"));
  retrieval.recall_layout = worker::RecallLayout::kRows;
  ways.push_back(Way("fragmented", retrieval, "freekv"));
  ways.back().rows = true;
  ways.push_back(Way("arkvale", retrieval, "arkvale"));
  ways.back().rows = true;
  ways.push_back(Way("shadowkv", budget, "shadowkv"));
  retrieval = budget;
  retrieval.window_tokens = budget.budget_tokens - budget.sink_tokens;
  retrieval.budget_tokens *= 2;  // Of which streaming holds sinks and window only.
  ways.push_back(Way("resident", retrieval, "streaming"));
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
                                           const DecodeTurns& turns) {
  cli::ProgressBar progress("decoding", ways.size() * (turns.turns + 1));
  DecodeComparison comparison;
  std::vector<std::unique_ptr<DecodeLane>> lanes;
  std::vector<SideBySide::Contender> contenders;
  for (const DecodeWay& way : ways) {
    const worker::Engine& engine = way.rows ? *engines.rows : *engines.units;
    QUIRE_ASSIGN_OR_RETURN(auto lane, DecodeLane::Open(engine, document, way.retrieval));
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

StatusOr<float> CalibrateThreshold(const worker::Engine& engine, const DocumentName& document,
                                   const worker::RetrievalOptions& budget, double share) {
  worker::RetrievalOptions retrieval = budget;
  retrieval.policy = "freekv";
  float low = kNever, high = 1;
  const double heads = double{1} * engine.spec().num_layers * engine.spec().num_kv_heads;
  for (int probe = 0; probe < kProbes; ++probe) {
    // The first probes narrow the range from all cosines there can be to those that there are.
    retrieval.correction_threshold = probe == 0 ? 0.8f : (std::max(low, 0.0f) + high) / 2;
    QUIRE_ASSIGN_OR_RETURN(const auto lane, DecodeLane::Open(engine, document, retrieval));
    QUIRE_RETURN_IF_ERROR(lane->Step(2));
    lane->Begin();
    QUIRE_RETURN_IF_ERROR(lane->Step(kProbeSteps));
    const double corrected =
        static_cast<double>(lane->Figures().blocking_heads) / (heads * kProbeSteps);
    (corrected > share ? high : low) = retrieval.correction_threshold;
  }
  return std::max(low, 0.0f);
}

}  // namespace quire::bench
