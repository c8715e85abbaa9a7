// SPDX-License-Identifier: Apache-2.0
//
// How the process's heap keeps memory. For mains: the setting is the whole process's.
#ifndef QUIRE_COMMON_BASE_HEAP_H_
#define QUIRE_COMMON_BASE_HEAP_H_

#include <malloc.h>

namespace quire {

/// Large allocations go back to the system when they are freed. glibc otherwise raises the size
/// from which it does that to the largest that was ever freed, 32 MiB at most, and keeps what is
/// below it in the arenas of its threads: a store that writes segments of a MiB then holds tens of
/// MiB of nothing. Call it before there are other threads.
inline void ReturnLargeAllocations() {
#ifdef __GLIBC__
  constexpr int kThresholdBytes = 256 << 10;
  (void)mallopt(M_MMAP_THRESHOLD, kThresholdBytes);  // It refuses only sizes beyond its bounds.
#endif
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_HEAP_H_
