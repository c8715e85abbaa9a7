// SPDX-License-Identifier: Apache-2.0
//
// Sampler: chooses the next token from logits: the best one, or one drawn by temperature and
// nucleus (top-p). The same seed, options and logits give the same tokens. Tokens whose logit is
// NaN or -inf are never chosen; equal logits are ordered by token id.
// Thread-safety: none; one for each sequence.
#ifndef QUIRE_GPUWORKER_MODEL_SAMPLER_H_
#define QUIRE_GPUWORKER_MODEL_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/random.h"
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

  /// INVALID_ARGUMENT when no logit is a number above -inf.
  StatusOr<TokenId> Sample(std::span<const float> logits);
  /// True if Sample takes the greatest logit, the first of equals.
  bool is_greedy() const { return options_.temperature == 0; }
  /// Result of Sample of a sampler that is_greedy(), for the token of the greatest of `vocab`
  /// logits, -1 for none.
  static StatusOr<TokenId> Greatest(TokenId best, size_t vocab);

 private:
  struct Candidate {
    TokenId id;
    double weight;
  };
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}
  /// Leaves the nucleus in candidates_ and returns its total weight.
  double KeepNucleus(double total);

  SamplingOptions options_;
  SeededRandom random_;
  std::vector<Candidate> candidates_;  ///< Scratch of Sample.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_SAMPLER_H_
