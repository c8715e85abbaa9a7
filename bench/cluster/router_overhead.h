// SPDX-License-Identifier: Apache-2.0
//
// RouterOverhead: what a call costs more when it goes through a ClusterConnection, over transports
// that answer at once.
#ifndef QUIRE_BENCH_CLUSTER_ROUTER_OVERHEAD_H_
#define QUIRE_BENCH_CLUSTER_ROUTER_OVERHEAD_H_

#include <cstdint>

#include "quire/status.h"

namespace quire::bench {

/// Microseconds of one call, the median of the repeats.
struct RouterOverhead {
  double call_us = 0;         ///< A call to the node of the documents.
  double hedged_read_us = 0;  ///< A read that may be hedged, and is not slow.
};

StatusOr<RouterOverhead> MeasureRouterOverhead(uint32_t calls, uint32_t repeats);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_CLUSTER_ROUTER_OVERHEAD_H_
