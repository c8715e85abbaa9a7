// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/adaptive_memory.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace quire::worker {
namespace {

/// Loads of requests that grow by a token a step.
class GrowingLoad {
 public:
  GrowingLoad(std::span<const uint64_t> lengths, uint64_t budget)
      : budget_(budget), requests_(lengths.size()) {
    for (const uint64_t length : lengths) {
      tokens_ += length;
      if (length < budget) below_.push_back(length);
    }
  }

  MemoryLoad After(uint64_t steps) const {
    uint64_t buffered = (requests_ - below_.size()) * budget_;
    for (const uint64_t length : below_) buffered += std::min(length + steps, budget_);
    return {tokens_ + requests_ * steps, buffered};
  }

 private:
  const uint64_t budget_;
  const uint64_t requests_;
  uint64_t tokens_ = 0;
  std::vector<uint64_t> below_;  ///< Lengths that do not fill the budget.
};

/// Layers that have to be off before the next step. No step within sight then needs more than one
/// more than the step before, and those up to `lead` need none. Steps that do not fit at all count
/// for nothing: layers do not help there. When none fits, all layers.
uint32_t Paced(const MemoryModel& model, const GrowingLoad& load, uint32_t lead) {
  const std::optional<uint32_t> now = model.FewestOffloaded(load.After(1));
  if (!now) return model.num_layers();
  const uint32_t sight = lead + model.num_layers();
  if (model.FewestOffloaded(load.After(sight + uint64_t{1})) == now) return *now;
  uint32_t layers = 0;
  for (uint32_t step = 0; step <= sight; ++step) {
    const std::optional<uint32_t> needed = model.FewestOffloaded(load.After(step + uint64_t{1}));
    if (!needed) break;
    const uint32_t time = step > lead ? step - lead : 0;
    layers = std::max(layers, *needed > time ? *needed - time : 0);
  }
  return layers;
}

/// `now` raised to `needed`, or lowered by one where more than it and `relaxed` are kept.
uint32_t Follow(uint32_t now, uint32_t needed, uint32_t relaxed) {
  if (needed > now) return needed;
  return std::max(needed, relaxed) < now ? now - 1 : now;
}

std::vector<uint64_t> Relaxed(std::span<const uint64_t> lengths) {
  std::vector<uint64_t> relaxed;
  for (const uint64_t length : lengths) {
    relaxed.push_back(static_cast<uint64_t>(
        std::floor(static_cast<double>(length) / AdaptiveMemory::kReloadShare)));
  }
  return relaxed;
}

}  // namespace

StepMemory AdaptiveMemory::BeforeStep(std::span<const uint64_t> lengths) {
  const uint64_t budget = model_->options().budget_tokens;
  size_t running = lengths.size();
  while (running > 0 &&
         !model_->FewestOffloaded(GrowingLoad(lengths.first(running), budget).After(1))) {
    --running;
  }
  const std::span<const uint64_t> kept = lengths.first(running);
  const GrowingLoad load(kept, budget);
  const GrowingLoad relaxed(Relaxed(kept), budget);
  offloaded_ = Follow(offloaded_, Paced(*model_, load, 0), Paced(*model_, relaxed, 0));
  written_ =
      Follow(written_, Paced(*model_, load, lead_steps_), Paced(*model_, relaxed, lead_steps_));
  written_ = std::max(written_, offloaded_);
  return {.offloaded = offloaded_,
          .written = written_,
          .preempted = static_cast<uint32_t>(lengths.size() - running)};
}

bool AdaptiveMemory::Admits(std::span<const uint64_t> lengths, uint64_t tokens) const {
  std::vector<uint64_t> all(lengths.begin(), lengths.end());
  all.push_back(tokens);
  const GrowingLoad load(all, model_->options().budget_tokens);
  return model_->FewestOffloaded(load.After(lead_steps_ + uint64_t{1})).has_value();
}

}  // namespace quire::worker
