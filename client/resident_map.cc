// SPDX-License-Identifier: Apache-2.0
#include "client/resident_map.h"

#include <utility>

namespace quire {

ResidentMap::ResidentMap(std::vector<uint32_t> layers, uint32_t num_heads, uint32_t slots_per_head)
    : layers_(std::move(layers)),
      num_heads_(num_heads),
      slots_per_head_(slots_per_head),
      slots_(layers_.size() * num_heads * slots_per_head) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i] >= index_.size()) index_.resize(layers_[i] + 1, -1);
    index_[layers_[i]] = static_cast<int32_t>(i);
  }
}

}  // namespace quire
