// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/context/cacheblend.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "gpuworker/context/ceil_share.h"

namespace quire::worker {
namespace {

class CacheBlendRows final : public RowPlan {
 public:
  CacheBlendRows(uint32_t cached, uint32_t rows, uint32_t num_layers,
                 const CacheBlendOptions& options)
      : cached_(cached), num_layers_(num_layers), options_(options), rows_(rows) {
    std::iota(rows_.begin(), rows_.end(), 0);
  }

  LayerRows Rows(uint32_t layer) override {
    LayerRows rows{.fresh = rows_, .outputs = rows_};
    if (IsLast(layer)) rows.outputs = {rows_.back()};
    return rows;
  }

  bool ChoosesIn(uint32_t layer) const override {
    return layer == options_.check_layer || (options_.gradual && layer > options_.check_layer);
  }

  std::vector<uint32_t> Choose(uint32_t layer, std::span<const double> deviations) override {
    rows_ = Farthest(deviations, Quota(layer));
    return IsLast(layer) ? std::vector<uint32_t>{rows_.back()} : rows_;
  }

 private:
  bool IsLast(uint32_t layer) const { return layer + 1 == num_layers_; }

  /// Cached rows that stay behind `layer`.
  uint32_t Quota(uint32_t layer) const {
    double share = options_.ratio;
    const uint32_t after = num_layers_ - 1 - options_.check_layer;
    if (options_.gradual && after > 0) {
      share *= 1.3 - 0.6 * (layer - options_.check_layer) / after;
    }
    const uint32_t quota = CeilShare(share, cached_);
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
  std::vector<uint32_t> rows_;  ///< Rows that are computed from here on.
};

}  // namespace

ReusePlan CacheBlend(const PromptLayout& layout, uint32_t num_layers,
                     const CacheBlendOptions& options) {
  ReusePlan plan;
  plan.positions.resize(layout.tokens());
  std::iota(plan.positions.begin(), plan.positions.end(), 0);
  plan.layers.push_back(AllCells(layout));
  CacheBlendOptions valid = options;
  valid.check_layer = std::min(options.check_layer, num_layers - 1);
  plan.rows =
      std::make_unique<CacheBlendRows>(static_cast<uint32_t>(layout.question_first),
                                       static_cast<uint32_t>(layout.tokens()), num_layers, valid);
  return plan;
}

}  // namespace quire::worker
