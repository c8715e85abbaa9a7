// SPDX-License-Identifier: Apache-2.0
//
// RawUcx: as little as it takes to move scattered units with UCX: two threads, each polling a
// worker of its own without sleeping. The limit that the UCX pipe is compared with; it handles no
// failure but by stopping. Thread-safety: none.
#ifndef QUIRE_BENCH_RAW_UCX_H_
#define QUIRE_BENCH_RAW_UCX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/transport/ucx.h"

namespace quire::bench {

struct RawUcxLane {
  UcxOptions options;  ///< As the pipe's.
  /// Units are written where they go, 64 under way, to memory that UCX allocated and the sender has
  /// mapped; otherwise messages of 1 MiB carry them and their places, and the receiver copies them.
  /// Needs options.direct_landings.
  bool puts = false;
};

/// From where to where a unit goes, in bytes.
struct RawUcxMove {
  uint64_t from = 0;
  uint64_t to = 0;
};

/// Moves units from `source` to `destination`; answers the seconds from the first to the last of
/// them. UNIMPLEMENTED without UCX. REQUIRES: every move lies inside.
StatusOr<double> RawUcxTransfer(const RawUcxLane& lane, std::span<const std::byte> source,
                                std::span<std::byte> destination, uint64_t unit_bytes,
                                std::span<const RawUcxMove> moves);

/// Moves `total_bytes` of units between random places of two regions, which should be larger than
/// the caches together; answers GB/s (1e9).
StatusOr<double> RawUcx(const RawUcxLane& lane, uint64_t unit_bytes, uint64_t region_bytes,
                        uint64_t total_bytes, uint64_t seed);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAW_UCX_H_
