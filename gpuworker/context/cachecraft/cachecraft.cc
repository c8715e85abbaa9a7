// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/cachecraft/cachecraft.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "gpuworker/context/ceil_share.h"
#include "gpuworker/context/positions.h"

namespace quire::worker {
namespace {

/// Index of the first `key`; nullopt if there is none.
std::optional<size_t> PlaceOf(const SegmentKey& key, std::span<const SegmentKey> keys) {
  const auto at = std::ranges::find(keys, key);
  if (at == keys.end()) return std::nullopt;
  return static_cast<size_t>(at - keys.begin());
}

/// Places in `now` of the documents of `before`, each once, in the order of `before`.
std::vector<size_t> PlacesOf(std::span<const SegmentKey> before, std::span<const SegmentKey> now) {
  std::vector<size_t> places;
  for (size_t i = 0; i < before.size(); ++i) {
    if (PlaceOf(before[i], before.first(i))) continue;
    if (const auto place = PlaceOf(before[i], now)) places.push_back(*place);
  }
  return places;
}

double OverheadOf(const ChunkVariant& variant, std::span<const SegmentKey> prefix, double alpha) {
  return FixOverhead(variant.impact, PrefixOverlap(variant, prefix),
                     PrefixDisorder(variant.prefix, prefix), alpha);
}

}  // namespace

double ContextImpact(double inter, double intra) {
  return intra == 0 ? 1 : 1 / (1 + std::exp(-inter / intra));
}

double ContextImpact(const ChunkAttention& chunk, const PromptLayout& layout, size_t index) {
  const auto tokens = static_cast<double>(layout.sources[index].tokens);
  double inter = 0;
  for (size_t before = 0; before < index; ++before) {
    const auto others = static_cast<double>(layout.sources[before].tokens);
    if (others > 0) inter += chunk.inter[before] / (tokens * others);
  }
  return ContextImpact(inter, chunk.intra / (tokens * tokens));
}

double PrefixOverlap(const ChunkVariant& variant, std::span<const SegmentKey> prefix) {
  double shared = 0;
  double all = 0;
  for (size_t i = 0; i < variant.prefix.size(); ++i) {
    all += variant.inter[i];
    if (PlaceOf(variant.prefix[i], prefix)) shared += variant.inter[i];
  }
  return all == 0 ? 1 : shared / all;
}

double PrefixDisorder(std::span<const SegmentKey> before, std::span<const SegmentKey> now) {
  const std::vector<size_t> places = PlacesOf(before, now);
  size_t swapped = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t j = i + 1; j < places.size(); ++j) swapped += places[j] < places[i] ? 1 : 0;
  }
  const size_t pairs = places.size() * (places.size() - 1) / 2;
  return places.size() < 2 ? 0 : static_cast<double>(swapped) / static_cast<double>(pairs);
}

double FixOverhead(double impact, double overlap, double disorder, double alpha) {
  return std::clamp(alpha * impact * (1 - overlap * (1 - disorder)), 0.0, 1.0);
}

std::vector<ChunkChoice> RankVariants(std::span<const ChunkVariant> variants,
                                      std::span<const SegmentKey> prefix,
                                      const CacheCraftOptions& options) {
  double impact = 1;
  for (const ChunkVariant& variant : variants) impact = std::min(impact, variant.impact);
  std::vector<ChunkChoice> choices = {{std::nullopt, FixOverhead(impact, 0, 0, options.alpha)}};
  for (size_t i = 0; i < variants.size(); ++i) {
    choices.push_back({i, OverheadOf(variants[i], prefix, options.alpha)});
  }
  std::ranges::stable_sort(choices, {}, [&](const ChunkChoice& choice) {
    const bool same =
        choice.variant && std::ranges::equal(variants[*choice.variant].prefix, prefix);
    return std::pair(choice.overhead, !same);
  });
  return choices;
}

std::vector<uint64_t> TokensToFix(const ChunkVariant* variant, double overhead, uint64_t count) {
  std::vector<uint64_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  if (variant != nullptr) {
    std::ranges::stable_sort(tokens, std::greater<>(),
                             [&](uint64_t token) { return variant->tokens[token]; });
  }
  tokens.resize(CeilShare(overhead, static_cast<uint32_t>(count)));
  std::ranges::sort(tokens);
  return tokens;
}

ReusePlan CacheCraft(const PromptLayout& layout, uint32_t num_layers,
                     std::span<const std::vector<uint64_t>> fixed) {
  Positions positions;
  ViewCells cells = AllCells(layout);
  for (size_t i = 0; i < fixed.size(); ++i) {
    for (const uint64_t token : fixed[i]) positions.push_back(layout.sources[i].first + token);
  }
  for (const uint64_t position : positions) cells.cached[position] = false;
  AppendRange(layout.question_first, layout.tokens(), &positions);
  return Computing(std::move(positions), std::move(cells), num_layers);
}

}  // namespace quire::worker
