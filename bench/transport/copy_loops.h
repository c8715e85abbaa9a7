// SPDX-License-Identifier: Apache-2.0
//
// CopyLoops: what this machine's memory gives a loop that copies scattered units and does nothing
// else, by each copy that is at hand and by one and by two threads. The fastest of them is the
// limit of a recall that is read from shared memory. Thread-safety: none.
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
  /// Copies a unit. `next`: where the next one begins, null for none.
  void (*copy)(std::span<const std::byte> from, std::byte* to, const std::byte* next);
  uint32_t threads;
};
/// glibc's memcpy; stores around the cache; the same with the checksum of what was copied, as a
/// recall has it; and by way of the cache, with the next unit fetched meanwhile.
std::span<const CopyLoop> CopyLoops();
/// Their names: of all, or of those by one thread.
std::vector<std::string> CopyLoopNames();
std::vector<std::string> CopyLoopNamesByOne();

/// Runs a loop over `moves` of `unit_bytes` each.
void RunCopyLoop(const CopyLoop& loop, std::span<const RawUcxMove> moves,
                 std::span<const std::byte> from, std::span<std::byte> to, uint64_t unit_bytes);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_COPY_LOOPS_H_
