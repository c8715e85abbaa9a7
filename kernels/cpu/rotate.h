// SPDX-License-Identifier: Apache-2.0
#ifndef QUIRE_KERNELS_CPU_ROTATE_H_
#define QUIRE_KERNELS_CPU_ROTATE_H_

#include <cstdint>

namespace quire::kernels::fast {

/// Rotates the first 2 * half channels of a row of f32, in the pairs of RopeArgs. Nothing is fused:
/// the library is compiled without contraction.
inline void Rotate(float* row, const float* cos, const float* sin, int64_t half, bool interleaved) {
  const int64_t step = interleaved ? 2 : 1;
  const int64_t second = interleaved ? 1 : half;
  for (int64_t i = 0; i < half; ++i) {
    float& a = row[i * step];
    float& b = row[i * step + second];
    const float rotated = a * cos[i] - b * sin[i];
    b = b * cos[i] + a * sin[i];
    a = rotated;
  }
}

}  // namespace quire::kernels::fast

#endif  // QUIRE_KERNELS_CPU_ROTATE_H_
