// SPDX-License-Identifier: Apache-2.0
//
// Sampler: how the tokens of one sequence are chosen from logits: the best one, or one drawn by
// temperature and nucleus (top-p), as the op `sample` does (kernels/api/sample.h). A pass chooses
// on the device by next(), and Advance goes on to the draw after it. The same seed, options and
// logits give the same tokens on one device. Thread-safety: none; one for each sequence.
#ifndef QUIRE_GPUWORKER_MODEL_SAMPLER_H_
#define QUIRE_GPUWORKER_MODEL_SAMPLER_H_

#include <cstdint>
#include <span>

#include "common/base/random.h"
#include "kernels/api/sample.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

struct SamplingOptions {
  float temperature = 0.0f;  ///< 0 = greedy; else the logits are divided by it. Finite, >= 0.
  float top_p = 1.0f;  ///< In (0, 1]: draws from the fewest tokens whose probabilities reach it.
  uint64_t seed = 0;
};

class Sampler {
 public:
  /// INVALID_ARGUMENT naming the option that is out of its range.
  static StatusOr<Sampler> Create(const SamplingOptions& options);

  /// Chooses the next token on the processor. INVALID_ARGUMENT when no logit is a number above
  /// -inf.
  StatusOr<TokenId> Sample(std::span<const float> logits);

  /// How the next token is drawn. The same until Advance.
  const kernels::SampleDraw& next() const { return next_; }
  /// Takes the token that a device has chosen by next(), -1 for none of `vocab` logits. Errors as
  /// Sample.
  StatusOr<TokenId> Advance(TokenId chosen, size_t vocab);

 private:
  explicit Sampler(const SamplingOptions& options);
  void Draw();

  SeededRandom random_;
  kernels::SampleDraw next_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_SAMPLER_H_
