// SPDX-License-Identifier: Apache-2.0
//
// Whole numbers of blocks and tokens from shares that were computed.
// Thread-safety: pure function. Errors: none.
#ifndef QUIRE_GPUWORKER_CONTEXT_CEIL_SHARE_H_
#define QUIRE_GPUWORKER_CONTEXT_CEIL_SHARE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace quire::worker {

/// The least whole number that is `share` of `count`; a share outside [0, 1] counts as the nearer
/// end, NaN as 0. The rounding error of a mean of equal shares does not make one more.
inline uint32_t CeilShare(double share, uint32_t count) {
  if (!(share > 0)) return 0;
  return static_cast<uint32_t>(std::ceil(std::min(share, 1.0) * count * (1 - 1e-12)));
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_CEIL_SHARE_H_
