// SPDX-License-Identifier: Apache-2.0
//
// DensePolicy: every page of every layer stays on the device, for prompts that attend to all that
// the model lets them. Nothing is selected. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_DENSE_POLICY_H_
#define QUIRE_GPUWORKER_RETRIEVAL_DENSE_POLICY_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuworker/retrieval/policy.h"

namespace quire::worker {

/// Layouts that hold every page. `windows`: tokens that each layer sees, 0 for all; empty: all do.
inline std::vector<CacheLayout> DenseLayouts(const std::vector<uint32_t>& windows,
                                             uint32_t num_layers) {
  std::vector<CacheLayout> layouts(num_layers, {.everything = true});
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    layouts[layer].window_tokens = windows[layer];
  }
  return layouts;
}

class DensePolicy final : public RetrievalPolicy {
 public:
  DensePolicy(std::vector<CacheLayout> layouts, uint32_t num_kv_heads)
      : layouts_(std::move(layouts)), num_kv_heads_(num_kv_heads) {}

  std::string_view name() const override { return "dense"; }
  CacheLayout Layout(uint32_t layer) const override { return layouts_[layer]; }
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest&) override {
    return std::vector<bool>(num_kv_heads_, false);
  }
  StatusOr<Selection> Select(const SelectRequest&) override { return Selection{}; }

 private:
  const std::vector<CacheLayout> layouts_;
  const uint32_t num_kv_heads_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_DENSE_POLICY_H_
