// SPDX-License-Identifier: Apache-2.0
//
// Memory of one node for metadata, measured at a smaller size in the structures that a node has.
// Other threads must not allocate meanwhile, since the process's heap is what is measured.
#ifndef QUIRE_BENCH_SCALE_MEMORY_SCALE_H_
#define QUIRE_BENCH_SCALE_MEMORY_SCALE_H_

#include <cstdint>

#include "bench/scale/scale_cluster.h"

namespace quire::scale {

struct MemoryScale {
  uint64_t view_bytes = 0;  ///< The view and its placement, of all nodes.
  uint64_t sampled_segments = 0;
  uint64_t sampled_bytes = 0;  ///< Memory that a store takes for them.
  double bytes_per_segment() const {
    return static_cast<double>(sampled_bytes) / static_cast<double>(sampled_segments);
  }
};

[[nodiscard]] MemoryScale MeasureMemory(const ScaleOptions& options);

}  // namespace quire::scale

#endif  // QUIRE_BENCH_SCALE_MEMORY_SCALE_H_
