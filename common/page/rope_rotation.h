// SPDX-License-Identifier: Apache-2.0
//
// RopeRotation: the angles by which RoPE turns the pairs of a key, for every static scheme (none,
// linear, llama3, YaRN, LongRoPE). Also the rotation that moves a stored key or a query to another
// position. Computed in double precision. Thread-safety: const use is safe. Errors: none; the spec
// is valid and static (RopeScaling::kDynamic turns like kNone).
#ifndef QUIRE_COMMON_PAGE_ROPE_ROTATION_H_
#define QUIRE_COMMON_PAGE_ROPE_ROTATION_H_

#include <cstdint>
#include <vector>

#include "common/page/kv_spec.h"

namespace quire {

class RopeRotation {
 public:
  explicit RopeRotation(const RopeSpec& spec);

  /// Radians per position of each pair, [rotary_dim/2].
  const std::vector<double>& inverse_frequencies() const { return inverse_frequencies_; }

  /// Fills [rotary_dim/2] cosines and sines of a move by `delta` positions (backwards when
  /// negative), a row of the tables of kernels/api/rope.h. The spec's attention factor is left out:
  /// moved keys have it already.
  void FillMove(int64_t delta, float* cosines, float* sines) const;

 private:
  std::vector<double> inverse_frequencies_;
};

/// Returns YaRN's frequency divisor of each pair, [rotary_dim/2], for a ramp that begins and ends
/// between pairs. RopeScaling::kYarn has a ramp between whole pairs. `spec` has the fields of
/// kYarn. Use the result as pair_factors of a RopeScaling::kLongRope spec.
std::vector<double> UntruncatedYarnFactors(const RopeSpec& spec);

}  // namespace quire

#endif  // QUIRE_COMMON_PAGE_ROPE_ROTATION_H_
