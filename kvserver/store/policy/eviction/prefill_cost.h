// SPDX-License-Identifier: Apache-2.0
//
// PrefillCost: a model of the time to compute `new_tokens` of a prompt after `cached_tokens`:
//
//   T(cached, new) = seconds_per_token * new
//                  + seconds_per_pair * (cached * new + new^2 / 2)
//
// Policies use it to compare the costs of recomputing extents, so only the ratio of the two terms
// matters.
//
// The first term is the weights; the second is attention of each new token to all before it. The
// defaults are arithmetic, not a measurement. The model has 8e9 parameters, 32 layers and 32 query
// heads of 128. It does 2 * 8e9 operations a token and 4 * 32 * 32 * 128 a pair, here at 200e12 a
// second.
#ifndef QUIRE_KVSERVER_STORE_POLICY_EVICTION_PREFILL_COST_H_
#define QUIRE_KVSERVER_STORE_POLICY_EVICTION_PREFILL_COST_H_

#include <cstdint>

namespace quire::kvserver {

struct PrefillCost {
  double seconds_per_token = 2 * 8e9 / 200e12;
  double seconds_per_pair = 4.0 * 32 * 32 * 128 / 200e12;

  double Seconds(uint64_t cached_tokens, uint64_t new_tokens) const {
    const auto cached = static_cast<double>(cached_tokens);
    const auto fresh = static_cast<double>(new_tokens);
    return seconds_per_token * fresh + seconds_per_pair * (cached * fresh + fresh * fresh / 2);
  }

  /// Mean over a segment of `num_tokens` tokens, at least one, that begins at `first_token`.
  double SecondsPerToken(uint64_t first_token, uint64_t num_tokens) const {
    return Seconds(first_token, num_tokens) / static_cast<double>(num_tokens);
  }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_POLICY_EVICTION_PREFILL_COST_H_
