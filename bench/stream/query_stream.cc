// SPDX-License-Identifier: Apache-2.0
#include "bench/stream/query_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/stream/vectors.h"

namespace quire::bench {
namespace {

constexpr double kMass = 0.95;         ///< Share of the attention in the best pages.
constexpr uint32_t kTopShare = 16;     ///< The best pages are one in this many.
constexpr double kGatherCosine = 0.5;  ///< Cosine of the first query and its topic without a pull.
constexpr int kSampledSteps = 16;
constexpr int kStepsBetweenSamples = 8;

// Bounds of norms; steps and tolerance apply to their logarithms.
constexpr double kLeastNorm = 1e-3, kGreatestNorm = 1e3;
constexpr double kFirstStep = 0.25;
constexpr double kTolerance = 4e-7;

/// The part of the noise that points to the topic. With it, steps of cosine c keep the cosine x of
/// query and topic, since x = c x + sqrt(1 - c^2) pull (1 - x^2).
double TopicPull(const QueryOptions& options) {
  const double x = options.topic_cosine;
  const double noise = std::sqrt(1 - options.cosine * options.cosine);
  return std::min(1.0, x * (1 - options.cosine) / (noise * (1 - x * x)));
}

double LogOdds(double share) { return std::log(share / (1 - share)); }

/// Finds the norm at which the best pages hold kMass. `mass` is their share at a norm, and rises
/// with it. Its log odds are nearly linear in the logarithm of the norm, so secants converge in a
/// few steps. A step out of the remaining range is replaced by the middle of the range.
template <typename Mass>
double FindNorm(const Mass& mass, double guess) {
  const auto excess = [&](double log_norm) {
    return LogOdds(mass(std::exp(log_norm))) - LogOdds(kMass);
  };
  double low = std::log(kLeastNorm), high = std::log(kGreatestNorm);
  double at = std::log(guess), value = excess(at);
  double next = value < 0 ? at + kFirstStep : at - kFirstStep;
  while (std::abs(next - at) > kTolerance) {
    const double before = std::exchange(at, next);
    const double value_before = std::exchange(value, excess(at));
    (value < 0 ? low : high) = at;
    next = at - value * (at - before) / (value - value_before);
    // A NaN, for equal or infinite odds, fails this too.
    if (!(low < next && next < high)) next = (low + high) / 2;
  }
  return std::exp(next);
}

}  // namespace

QueryStream::QueryStream(const TopicPages& pages, const QueryOptions& options)
    : pages_(pages), options_(options), walk_(Begin(options.seed)), norm_(Calibrate()) {
  SetQueries();
}

QueryStream::Walk QueryStream::Begin(uint64_t seed) const {
  Walk walk{.random = SeededRandom(seed), .topic = 0, .directions = {}};
  walk.directions.resize(options_.group_size);
  walk.topic = pages_.topic_of(static_cast<uint32_t>(walk.random.Below(pages_.shape().pages)));
  Gather(&walk);
  return walk;
}

void QueryStream::Gather(Walk* walk) const {
  const std::vector<float> topic = Unit(pages_.centre(walk->topic));
  const double x = options_.topic_cosine > 0 ? options_.topic_cosine : kGatherCosine;
  for (std::vector<float>& direction : walk->directions) {
    const auto noise = Perpendicular(RandomDirection(topic.size(), walk->random), topic);
    direction = Combine(x, topic, std::sqrt(1 - x * x), noise);
  }
}

void QueryStream::Advance(Walk* walk) const {
  if (walk->random.Uniform() < options_.jump_rate) {
    const uint32_t topics = pages_.shape().topics;
    walk->topic =
        static_cast<uint32_t>((walk->topic + 1 + walk->random.Below(topics - 1)) % topics);
    Gather(walk);
    return;
  }
  const double c = options_.cosine;
  const double pull = TopicPull(options_);
  const std::vector<float> topic = Unit(pages_.centre(walk->topic));
  for (std::vector<float>& direction : walk->directions) {
    const auto random = RandomDirection(topic.size(), walk->random);
    const auto noise =
        Perpendicular(Combine(pull, topic, std::sqrt(1 - pull * pull), random), direction);
    direction = Unit(Combine(c, direction, std::sqrt(1 - c * c), noise));
  }
}

double QueryStream::Calibrate() const {
  Walk walk = walk_;                        // A copy: these are the queries to come.
  std::vector<std::vector<float>> samples;  // Scores of all keys for directions on the walk.
  for (int sample = 0; sample < kSampledSteps; ++sample) {
    for (int step = 0; step < kStepsBetweenSamples; ++step) Advance(&walk);
    const auto& direction = walk.directions[static_cast<size_t>(sample) % walk.directions.size()];
    samples.push_back(KeyScores(pages_, direction));
  }
  const uint32_t top = std::max(1u, pages_.shape().pages / kTopShare);
  const auto mass_of = [&](size_t count) {
    return [&, count](double norm) {
      double sum = 0;
      for (const auto& scores : std::span(samples).first(count)) {
        sum += TopMass(PageMasses(scores, pages_.shape().page_tokens, norm), top);
      }
      return sum / static_cast<double>(count);
    };
  };
  // One sample gives a starting value, for a sixteenth of the work.
  return FindNorm(mass_of(samples.size()), FindNorm(mass_of(1), 1));
}

void QueryStream::Step() {
  Advance(&walk_);
  SetQueries();
}

void QueryStream::SetQueries() {
  queries_.clear();
  for (const std::vector<float>& direction : walk_.directions) {
    for (const float value : direction) queries_.push_back(static_cast<float>(norm_) * value);
  }
}

}  // namespace quire::bench
