// SPDX-License-Identifier: Apache-2.0
//
// Replay: the savings of a cache of given size on a trace under an eviction policy. Nothing is
// stored and nothing is timed; the same trace gives the same result everywhere.
//
// A request hits the longest run of its blocks, from the first on, that are all cached; the rest is
// computed. Then its blocks enter the cache, from the first on, as far as evicting other requests'
// blocks makes room. The policy sees uses from the last block to the first. A policy by age
// therefore evicts a chain from its end, as a prefix cache must. The cost sample of a new block is
// T(cached, new) / new of its request.
#ifndef QUIRE_BENCH_TRACE_REPLAY_H_
#define QUIRE_BENCH_TRACE_REPLAY_H_

#include <cstdint>

#include "bench/trace/trace.h"
#include "kvserver/store/policy/eviction/eviction_policy.h"
#include "kvserver/store/policy/eviction/prefill_cost.h"

namespace quire::bench {

using kvserver::PrefillCost;

struct ReplayOptions {
  uint64_t cache_bytes = 0;
  PrefillCost cost = {};
};

struct ReplayResult {
  uint64_t tokens = 0;  ///< Tokens of all blocks of all requests.
  uint64_t hit_tokens = 0;
  uint64_t bytes = 0;
  uint64_t hit_bytes = 0;
  uint64_t evictions = 0;
  uint64_t most_cached_bytes = 0;
  double seconds_without_cache = 0;  ///< Prefill time of everything.
  double seconds_saved = 0;          ///< Part of seconds_without_cache that is saved.

  double token_hit_ratio() const;
  double byte_hit_ratio() const;
};

/// REQUIRES: `policy` tracks nothing yet.
ReplayResult Replay(const Trace& trace, const ReplayOptions& options,
                    kvserver::EvictionPolicy& policy);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRACE_REPLAY_H_
