// SPDX-License-Identifier: Apache-2.0
//
// WorkingSet: how much a benchmark of memory reads, so that the last level cache holds little of it
// and memory all of it. Thread-safety: pure functions.
#ifndef QUIRE_BENCH_KIT_WORKING_SET_H_
#define QUIRE_BENCH_KIT_WORKING_SET_H_

#include <algorithm>
#include <cstdint>

namespace quire::bench {

/// Where the kernel does not tell how large the cache is.
inline constexpr uint64_t kLikelyCacheBytes = uint64_t{64} << 20;

struct WorkingSetNeeds {
  uint32_t caches = 2;         ///< Times the last level cache.
  uint64_t least_bytes = 0;    ///< However small the cache is.
  uint64_t step_bytes = 1;     ///< A working set is of whole steps.
  uint32_t copies = 1;         ///< Of it that are in memory at the same time.
  uint64_t besides_bytes = 0;  ///< What else is there by then.
};

struct WorkingSet {
  uint64_t bytes = 0;
  bool capped = false;  ///< Less than was needed: memory holds no more.
};

/// At least a step. `cache_bytes`, `available_bytes`: of the machine (machine_facts.h); 0 where the
/// kernel does not tell.
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
