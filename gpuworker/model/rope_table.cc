// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/rope_table.h"

#include <cmath>

namespace quire::worker {

void RopeTable::Fill(uint64_t first, uint64_t count, float* cosines, float* sines) const {
  for (uint64_t row = 0; row < count; ++row) {
    const double position = static_cast<double>(first + row);
    for (const double frequency : inverse_frequencies()) {
      *cosines++ = static_cast<float>(std::cos(position * frequency) * attention_factor_);
      *sines++ = static_cast<float>(std::sin(position * frequency) * attention_factor_);
    }
  }
}

}  // namespace quire::worker
