// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/reuse_costs.h"

namespace quire::worker {

SourceTier TierOf(const ContextStat& stat, const KvSpec& spec) {
  const uint64_t in_dram = uint64_t{stat.segments_in_dram} * spec.segment_tokens();
  return in_dram < stat.context.num_tokens ? SourceTier::kSsd : SourceTier::kDram;
}
namespace {

constexpr SourceTier kTiers[] = {SourceTier::kDram, SourceTier::kSsd};

}  // namespace

void ReuseCosts::AddLoads(const OfTiers<TierLoad>& loads) {
  MutexLock lock(mutex_);
  for (const SourceTier tier : kTiers) {
    const TierLoad& load = loads[tier];
    if (load.bytes == 0 || load.seconds <= 0) continue;
    seconds_per_byte_[tier].Add(load.seconds / static_cast<double>(load.bytes));
  }
}

void ReuseCosts::AddPrefill(uint64_t rows, double seconds) {
  if (rows == 0 || seconds <= 0) return;
  MutexLock lock(mutex_);
  seconds_per_row_.Add(seconds / static_cast<double>(rows));
}

RatioChoice ReuseCosts::Choose(const LayerCosts& costs, double least) {
  MutexLock lock(mutex_);
  return probe_.Pass(ChooseRatio(costs, least));
}

LayerCosts ReuseCosts::OfLayer(const OfTiers<uint64_t>& bytes, uint64_t rows) const {
  MutexLock lock(mutex_);
  LayerCosts costs{.prefill = seconds_per_row_.value() * static_cast<double>(rows)};
  for (const SourceTier tier : kTiers) {
    const double seconds = seconds_per_byte_[tier].value() * static_cast<double>(bytes[tier]);
    if (bytes[tier] > 0 && seconds == 0) return {.prefill = costs.prefill};
    costs.load += seconds;
  }
  return costs;
}

}  // namespace quire::worker
