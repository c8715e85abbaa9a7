// SPDX-License-Identifier: Apache-2.0
//
// RawUcx: as little as it takes to move scattered units with UCX's messages of 1 MiB, by two
// threads that poll workers of their own and do not sleep: the receiver copies them to their
// places. The limit that the UCX pipe is compared with; it handles no failure but by stopping.
// Thread-safety: none.
#ifndef QUIRE_BENCH_RIVALS_RAW_UCX_H_
#define QUIRE_BENCH_RIVALS_RAW_UCX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "quire/clock.h"
#include "quire/status.h"
#include "transport/ucx/ucx.h"

namespace quire::bench {

/// From where to where a unit goes, in bytes.
struct RawUcxMove {
  uint64_t from = 0;
  uint64_t to = 0;
};

/// The two ends, which stay connected as those of a session do.
class RawUcx {
 public:
  /// Units of `unit_bytes` will go from `source` to `destination`. UNIMPLEMENTED without UCX.
  /// Ownership: both outlive it.
  static StatusOr<std::unique_ptr<RawUcx>> Connect(const UcxOptions& options,
                                                   std::span<const std::byte> source,
                                                   std::span<std::byte> destination,
                                                   uint64_t unit_bytes);
  virtual ~RawUcx() = default;

  /// Moves units; how long that took, from the first to the last of them. REQUIRES: every move is
  /// of a whole unit inside, from and to a multiple of a unit.
  virtual StatusOr<Duration> Move(std::span<const RawUcxMove> moves) = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RIVALS_RAW_UCX_H_
