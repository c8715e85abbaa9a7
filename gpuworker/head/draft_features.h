// SPDX-License-Identifier: Apache-2.0
//
// DraftFeatures: the hidden states of a model that a head of mode eagle sees, collected while the
// model runs. A token's features are the inputs of a low, a middle and a high layer, one behind the
// other. They wait here until the head takes them. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_HEAD_DRAFT_FEATURES_H_
#define QUIRE_GPUWORKER_HEAD_DRAFT_FEATURES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/model/hidden_tap.h"

namespace quire::worker {

class DraftFeatures final : public HiddenTap {
 public:
  /// `layers` as FeatureLayers, of a model of `hidden_size`. No layers: nothing is collected.
  DraftFeatures(std::vector<uint32_t> layers, uint32_t hidden_size);

  bool Wants(uint32_t layer) const override;
  void Take(uint32_t layer, std::span<const float> rows) override;

  /// Tokens that all layers have come of, and that Pop has not taken.
  size_t tokens() const;
  /// Features of the first `count` tokens, at most tokens(): [count][layers][h].
  std::vector<float> First(size_t count) const;
  /// Removes what First gives.
  std::vector<float> Pop(size_t count);
  /// Adds features as First gives them, which another one collected.
  void Add(std::span<const float> features);

 private:
  const std::vector<uint32_t> layers_;
  const size_t hidden_size_;
  std::vector<std::vector<float>> rows_;  ///< [layers] of [tokens][h]
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_HEAD_DRAFT_FEATURES_H_
