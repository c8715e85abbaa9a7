// SPDX-License-Identifier: Apache-2.0
//
// RawUcx: the minimal program that moves scattered units with UCX's messages of 1 MiB. Two threads
// poll workers of their own and do not sleep; the receiver copies the units to their places. It is
// the limit of the UCX pipe. It stops at any failure. Thread-safety: none.
#ifndef QUIRE_BENCH_RIVALS_RAW_UCX_H_
#define QUIRE_BENCH_RIVALS_RAW_UCX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "transport/ucx/ucx.h"

namespace quire::bench {

/// Byte offsets of a unit at source and destination.
struct RawUcxMove {
  uint64_t from = 0;
  uint64_t to = 0;
};

/// The two ends, which stay connected as those of a session do.
class RawUcx {
 public:
  /// Connects for moves of units of `unit_bytes` from `source` to `destination`. UNIMPLEMENTED
  /// without UCX. Ownership: both outlive it.
  static StatusOr<std::unique_ptr<RawUcx>> Connect(const UcxOptions& options,
                                                   std::span<const std::byte> source,
                                                   std::span<std::byte> destination,
                                                   uint64_t unit_bytes);
  virtual ~RawUcx() = default;

  /// Moves units. Returns the time from the first to the last. REQUIRES: every move is a whole unit
  /// in range, from and to a multiple of a unit.
  virtual StatusOr<Duration> Move(std::span<const RawUcxMove> moves) = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RIVALS_RAW_UCX_H_
