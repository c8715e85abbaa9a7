// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/memory/adaptive_memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "gpuworker/memory/layer_pace.h"

namespace quire::worker {
namespace {

/// Requests that grow by a token a step, in a model's memory.
class GrowingLoad final : public ComingSteps {
 public:
  GrowingLoad(const MemoryModel& model, std::span<const uint64_t> lengths)
      : model_(model), budget_(model.options().budget_tokens), requests_(lengths.size()) {
    for (const uint64_t length : lengths) {
      tokens_ += length;
      if (length < budget_) below_.push_back(length);
    }
  }

  uint32_t num_layers() const override { return model_.num_layers(); }
  std::optional<uint32_t> FewestOffloaded(uint64_t steps) const override {
    return model_.FewestOffloaded(After(steps + 1));  // A step adds a token.
  }

 private:
  MemoryLoad After(uint64_t steps) const {
    uint64_t buffered = (requests_ - below_.size()) * budget_;
    for (const uint64_t length : below_) buffered += std::min(length + steps, budget_);
    return {tokens_ + requests_ * steps, buffered};
  }

  const MemoryModel& model_;
  const uint64_t budget_;
  const uint64_t requests_;
  uint64_t tokens_ = 0;
  std::vector<uint64_t> below_;  ///< Lengths that do not fill the budget.
};

std::vector<uint64_t> Relaxed(std::span<const uint64_t> lengths) {
  std::vector<uint64_t> relaxed;
  for (const uint64_t length : lengths) relaxed.push_back(RelaxedTokens(length));
  return relaxed;
}

}  // namespace

StepMemory AdaptiveMemory::BeforeStep(std::span<const uint64_t> lengths) {
  size_t running = lengths.size();
  while (running > 0 && !GrowingLoad(*model_, lengths.first(running)).FewestOffloaded(0)) {
    --running;
  }
  const std::span<const uint64_t> kept = lengths.first(running);
  const GrowingLoad load(*model_, kept);
  const GrowingLoad relaxed(*model_, Relaxed(kept));
  offloaded_ = FollowPace(offloaded_, PacedLayers(load, 0), PacedLayers(relaxed, 0));
  written_ =
      FollowPace(written_, PacedLayers(load, lead_steps_), PacedLayers(relaxed, lead_steps_));
  written_ = std::max(written_, offloaded_);
  return {.offloaded = offloaded_,
          .written = written_,
          .preempted = static_cast<uint32_t>(lengths.size() - running)};
}

bool AdaptiveMemory::Admits(std::span<const uint64_t> lengths, uint64_t tokens) const {
  std::vector<uint64_t> all(lengths.begin(), lengths.end());
  all.push_back(tokens);
  return GrowingLoad(*model_, all).FewestOffloaded(lead_steps_).has_value();
}

}  // namespace quire::worker
