// SPDX-License-Identifier: Apache-2.0
//
// WorkingSet: how much a memory benchmark reads, so that memory holds all of it and the last level
// cache little. Thread-safety: pure functions.
#ifndef QUIRE_BENCH_KIT_WORKING_SET_H_
#define QUIRE_BENCH_KIT_WORKING_SET_H_

#include <algorithm>
#include <cstdint>

namespace quire::bench {

/// Assumed size of a cache of unknown size.
inline constexpr uint64_t kLikelyCacheBytes = uint64_t{64} << 20;

struct WorkingSetNeeds {
  uint32_t caches = 2;         ///< Size as a multiple of the last level cache.
  uint64_t least_bytes = 0;    ///< Lower bound, whatever the size of the cache.
  uint64_t step_bytes = 1;     ///< The size is a multiple of this.
  uint32_t copies = 1;         ///< Copies in memory at the same time.
  uint64_t besides_bytes = 0;  ///< Other memory in use at that time.
};

struct WorkingSet {
  uint64_t bytes = 0;
  bool capped = false;  ///< True if memory is too small for the wanted size.
};

/// At least a step. `cache_bytes`, `available_bytes`: those of the machine (machine_facts.h); 0 if
/// unknown.
constexpr WorkingSet SizeWorkingSet(const WorkingSetNeeds& needs, uint64_t cache_bytes,
                                    uint64_t available_bytes) {
  const uint64_t cache = cache_bytes != 0 ? cache_bytes : kLikelyCacheBytes;
  const uint64_t bytes = std::max(needs.caches * cache, needs.least_bytes);
  const uint64_t wanted = (bytes + needs.step_bytes - 1) / needs.step_bytes * needs.step_bytes;
  if (available_bytes == 0) return {.bytes = wanted};
  const uint64_t room =
      (available_bytes - std::min(available_bytes, needs.besides_bytes)) / needs.copies;
  if (wanted <= room) return {.bytes = wanted};
  return {.bytes = std::max<uint64_t>(room / needs.step_bytes, 1) * needs.step_bytes,
          .capped = true};
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_WORKING_SET_H_
