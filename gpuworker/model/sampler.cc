// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire::worker {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

/// Index of the greatest logit, the first of equals; -1 when none may be chosen.
TokenId Best(std::span<const float> logits) {
  TokenId best = -1;
  float greatest = kImpossible;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > greatest)) continue;  // Also false for NaN.
    greatest = logits[i];
    best = static_cast<TokenId>(i);
  }
  return best;
}

}  // namespace

StatusOr<Sampler> Sampler::Create(const SamplingOptions& options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    return InvalidArgument("temperature is ", options.temperature,
                           ", must be 0 (greedy) or a positive number");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return InvalidArgument("top_p is ", options.top_p, ", must be above 0 and at most 1");
  }
  return Sampler(options);
}

StatusOr<TokenId> Sampler::Greatest(TokenId best, size_t vocab) {
  if (best >= 0) return best;
  return InvalidArgument("none of the ", vocab,
                         " logits is a number; the model or its KV cache is damaged");
}

StatusOr<TokenId> Sampler::Sample(std::span<const float> logits) {
  QUIRE_ASSIGN_OR_RETURN(const TokenId best, Greatest(Best(logits), logits.size()));
  if (options_.temperature == 0) return best;

  const double greatest = logits[best];
  double total = 0;
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kImpossible)) continue;
    const double weight = logits[i] == greatest  // Also where the greatest is infinite.
                              ? 1.0
                              : std::exp((logits[i] - greatest) / options_.temperature);
    if (weight == 0) continue;
    candidates_.push_back({static_cast<TokenId>(i), weight});
    total += weight;
  }
  if (options_.top_p < 1) total = KeepNucleus(total);

  double left = random_.Uniform() * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left < 0) return candidate.id;
  }
  return candidates_.back().id;  // Rounding left nothing over.
}

double Sampler::KeepNucleus(double total) {
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  const double wanted = options_.top_p * total;
  double kept = 0;
  size_t count = 0;
  while (count < candidates_.size() && kept < wanted) kept += candidates_[count++].weight;
  candidates_.resize(count);
  return kept;
}

}  // namespace quire::worker
