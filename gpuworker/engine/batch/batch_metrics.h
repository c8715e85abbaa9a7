// SPDX-License-Identifier: Apache-2.0
//
// BatchMetrics: what a batch counts. Thread-safety: safe for concurrent use.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_METRICS_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/observe/counters.h"
#include "common/base/observe/latency_histogram.h"
#include "common/base/observe/metrics.h"
#include "gpuworker/recall/recall_pipeline.h"

namespace quire::worker {

struct BatchMetrics {
  Counter submitted;
  Counter refused;
  Counter finished;
  Counter failed;
  Counter cancelled;
  Counter preempted;
  Counter restarted;
  Counter tokens;
  Counter nan_scores;
  Counter selections;
  Counter corrected_heads;
  Counter late_prefetches;
  Counter late_corrections;
  Counter damaged_units;
  Counter recall_messages;
  Counter recall_lanes;
  Counter shared_digest_bytes;
  Counter shared_page_bytes;
  Counter held_digest_bytes;  ///< A gauge.
  Counter offloaded_layers;   ///< A gauge.
  Counter layers_left;
  Counter layers_returned;
  static constexpr size_t kSizes = 5;
  std::array<Counter, kSizes> steps;  ///< By the sequences of a step: 1, 2-3, 4-7, 8-15, more.
  LatencyHistogram offload_waits;     ///< Wait of one sequence in a step.
  LatencyHistogram recall_waits;      ///< Wait of one sequence in a step that selects.

  /// A step over `sequences` sequences and `tokens` tokens.
  void CountStep(size_t sequences, uint64_t step_tokens);
  /// From now on the last `layers` layers are off the device.
  void CountOffloaded(uint32_t layers);
  /// Adds the recalls of a sequence in a step.
  void CountRecalls(const RecallStats& recalls);
  void VisitMetrics(MetricsVisitor& visit) const;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_BATCH_METRICS_H_
