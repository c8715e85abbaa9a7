// SPDX-License-Identifier: Apache-2.0
//
// PacedLayers: how many layers have to be off a device now, so that no coming step adds more than
// one (SpeContext, arXiv 2512.00722, Algorithm 2). A step that needs n layers, k steps ahead, wants
// n - k of them off now.
//
// Units: layers, steps. Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_MEMORY_LAYER_PACE_H_
#define QUIRE_GPUWORKER_MEMORY_LAYER_PACE_H_

#include <cmath>
#include <cstdint>
#include <optional>

namespace quire::worker {

/// A layer comes back where this share of the device's lengths would do without it.
inline constexpr double kReloadShare = 0.9;
/// The length that has to fit for a layer to come back at `tokens`.
inline uint64_t RelaxedTokens(uint64_t tokens) {
  return static_cast<uint64_t>(std::floor(static_cast<double>(tokens) / kReloadShare));
}

/// Needs of the coming steps of a decode. Requests only grow, so later steps need no less.
class ComingSteps {
 public:
  virtual ~ComingSteps() = default;
  virtual uint32_t num_layers() const = 0;
  /// The fewest layers off the device with which the next step but `steps` fits. nullopt: it does
  /// not fit with all of them off.
  virtual std::optional<uint32_t> FewestOffloaded(uint64_t steps) const = 0;
};

/// Layers that have to be off before the next step. No step within sight then needs more than one
/// more than the step before, and those up to `lead` need none. Steps that do not fit at all count
/// for nothing: layers do not help there. When none fits, all layers.
uint32_t PacedLayers(const ComingSteps& coming, uint32_t lead);

/// `now` raised to `needed`, or lowered by one where more than it and `relaxed` are off.
uint32_t FollowPace(uint32_t now, uint32_t needed, uint32_t relaxed);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MEMORY_LAYER_PACE_H_
