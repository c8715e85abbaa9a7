// SPDX-License-Identifier: Apache-2.0
//
// Memory policy of the process's heap. For mains: the setting is global.
#ifndef QUIRE_COMMON_BASE_MEMORY_HEAP_H_
#define QUIRE_COMMON_BASE_MEMORY_HEAP_H_

#include <malloc.h>

namespace quire {

/// Returns large allocations to the system when they are freed. Call it before other threads start.
/// By default glibc raises its threshold to the largest freed size, at most 32 MiB. It then keeps
/// smaller blocks in thread arenas, which wastes tens of MiB in a store of 1 MiB segments.
inline void ReturnLargeAllocations() {
#ifdef __GLIBC__
  constexpr int kThresholdBytes = 256 << 10;
  (void)mallopt(M_MMAP_THRESHOLD, kThresholdBytes);  // Fails only for sizes out of bounds.
#endif
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_MEMORY_HEAP_H_
