// SPDX-License-Identifier: Apache-2.0
//
// CopyLoops: the speed of loops that only copy scattered units, by each available copy and by one
// and two threads. The fastest is the limit of a recall from shared memory. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_COPY_LOOPS_H_
#define QUIRE_BENCH_TRANSPORT_COPY_LOOPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/rivals/raw_ucx.h"

namespace quire::bench {

struct CopyLoop {
  const char* name;
  /// Copies a unit. `next`: beginning of the next one; null for none.
  void (*copy)(std::span<const std::byte> from, std::byte* to, const std::byte* next);
  uint32_t threads;
};
/// The copies: glibc's memcpy; streaming stores; the same with a checksum, as a recall does; stores
/// through the cache that prefetch the next unit.
std::span<const CopyLoop> CopyLoops();
/// Names of all loops, or of those by one thread.
std::vector<std::string> CopyLoopNames();
std::vector<std::string> CopyLoopNamesByOne();

/// Runs a loop over `moves` of `unit_bytes` each.
void RunCopyLoop(const CopyLoop& loop, std::span<const RawUcxMove> moves,
                 std::span<const std::byte> from, std::span<std::byte> to, uint64_t unit_bytes);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_COPY_LOOPS_H_
