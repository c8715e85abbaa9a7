// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/cacheblend/cacheblend.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "gpuworker/context/ceil_share.h"

namespace quire::worker {
namespace {

/// Most that a share of the gradual filter is above and below the mean, as a part of it.
constexpr double kSpread = 0.3;

class CacheBlendRows final : public RowPlan {
 public:
  CacheBlendRows(uint32_t cached, uint32_t rows, uint32_t num_layers,
                 const CacheBlendOptions& options)
      : cached_(cached),
        num_layers_(num_layers),
        options_(options),
        check_layer_(std::min(options.check_layer.value_or(1), num_layers - 1)),
        rows_(rows) {
    std::iota(rows_.begin(), rows_.end(), 0);
  }

  LayerRows Rows(uint32_t layer) override {
    LayerRows rows{.fresh = rows_, .outputs = rows_};
    if (IsLast(layer)) rows.outputs = {rows_.back()};
    return rows;
  }

  bool ChoosesIn(uint32_t layer) const override {
    return layer == check_layer_ || (options_.gradual && layer > check_layer_);
  }

  std::vector<uint32_t> Choose(uint32_t layer, std::span<const double> deviations) override {
    rows_ = Farthest(deviations, Quota(layer));
    return IsLast(layer) ? std::vector<uint32_t>{rows_.back()} : rows_;
  }

 private:
  bool IsLast(uint32_t layer) const { return layer + 1 == num_layers_; }

  /// Share of the cached rows that stay behind `layer`, for the next one to compute.
  double Share(uint32_t layer) const {
    const uint32_t steps = num_layers_ - 1 - check_layer_;
    if (!options_.gradual || steps < 2 || options_.ratio <= 0) return options_.ratio;
    const double spread = std::min(kSpread, 1 / options_.ratio - 1);
    const uint32_t step = std::min(layer - check_layer_, steps - 1);
    return options_.ratio * (1 + spread - 2 * spread * step / (steps - 1));
  }

  uint32_t Quota(uint32_t layer) const {
    const uint32_t quota = CeilShare(Share(layer), cached_);
    return options_.ratio > 0 ? std::max<uint32_t>(quota, 1) : quota;
  }

  /// The `quota` cached rows with the largest deviations, earlier ones first among equal ones, and
  /// every row that is not cached.
  std::vector<uint32_t> Farthest(std::span<const double> deviations, uint32_t quota) const {
    std::vector<size_t> ranked;
    std::vector<uint32_t> kept;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i] < cached_) {
        ranked.push_back(i);
      } else {
        kept.push_back(rows_[i]);
      }
    }
    std::ranges::stable_sort(ranked,
                             [&](size_t a, size_t b) { return deviations[a] > deviations[b]; });
    ranked.resize(std::min<size_t>(ranked.size(), quota));
    for (const size_t i : ranked) kept.push_back(rows_[i]);
    std::ranges::sort(kept);
    return kept;
  }

  const uint32_t cached_;
  const uint32_t num_layers_;
  const CacheBlendOptions options_;
  const uint32_t check_layer_;
  std::vector<uint32_t> rows_;  ///< Rows that are computed from here on.
};

}  // namespace

ReusePlan CacheBlend(const PromptLayout& layout, uint32_t num_layers,
                     const CacheBlendOptions& options) {
  ReusePlan plan;
  plan.positions.resize(layout.tokens());
  std::iota(plan.positions.begin(), plan.positions.end(), 0);
  plan.layers.push_back(AllCells(layout));
  plan.rows =
      std::make_unique<CacheBlendRows>(static_cast<uint32_t>(layout.question_first),
                                       static_cast<uint32_t>(layout.tokens()), num_layers, options);
  return plan;
}

}  // namespace quire::worker
