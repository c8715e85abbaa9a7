// SPDX-License-Identifier: Apache-2.0
//
// Placement of a sample of documents: balance of the nodes, documents that move when a node joins
// or leaves, and the time that it takes. Runs in the calling thread.
#ifndef QUIRE_BENCH_SCALE_PLACEMENT_SCALE_H_
#define QUIRE_BENCH_SCALE_PLACEMENT_SCALE_H_

#include <cstdint>
#include <vector>

#include "bench/scale/scale_cluster.h"

namespace quire::scale {

/// Copies that a change of members makes, of the sample.
struct MovedCopies {
  uint64_t moved = 0;  ///< Copies on nodes that had none of the document.
  uint64_t least = 0;  ///< Copies that the joining node gets, or that the leaving one had.
  double vs_least() const {
    return least == 0 ? 0 : static_cast<double>(moved) / static_cast<double>(least);
  }
};

struct PlacementScale {
  uint64_t documents = 0;       ///< Size of the sample.
  double most_over_fair = 0;    ///< Fullest node over its share by weight.
  double least_over_fair = 0;   ///< Emptiest node likewise.
  double random_deviation = 0;  ///< Standard deviation of a node's filling by chance alone.
  std::vector<double> weights_over_fair;  ///< All nodes of each weight together.
  MovedCopies join, leave;
  double build_seconds = 0;         ///< From a view to its placement.
  double seconds_per_document = 0;  ///< To find the owners of one.
};

[[nodiscard]] PlacementScale MeasurePlacement(const ScaleOptions& options);

}  // namespace quire::scale

#endif  // QUIRE_BENCH_SCALE_PLACEMENT_SCALE_H_
