// SPDX-License-Identifier: Apache-2.0
//
// RopeTable: the rotation of any position, for every static scheme (none, linear, llama3, YaRN,
// LongRoPE), computed in double precision. Rows are made on demand, so memory does not grow with
// the context. Thread-safety: const use is safe. Errors: none; the spec was validated when the
// config was parsed.
#ifndef QUIRE_GPUWORKER_MODEL_ROPE_TABLE_H_
#define QUIRE_GPUWORKER_MODEL_ROPE_TABLE_H_

#include <cstdint>
#include <vector>

#include "common/page/rope_rotation.h"
#include "quire/kv_spec.h"

namespace quire::worker {

class RopeTable {
 public:
  /// `spec`: rotary_dim even and > 0, scaling not kDynamic.
  explicit RopeTable(const RopeSpec& spec)
      : rotation_(spec), attention_factor_(spec.attention_factor) {}

  /// Radians per position of each pair, [rotary_dim/2].
  const std::vector<double>& inverse_frequencies() const { return rotation_.inverse_frequencies(); }

  /// Fills [count][rotary_dim/2] cosines and sines of positions first, first+1, ..., both times the
  /// spec's attention factor.
  void Fill(uint64_t first, uint64_t count, float* cosines, float* sines) const;

 private:
  RopeRotation rotation_;
  double attention_factor_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_ROPE_TABLE_H_
