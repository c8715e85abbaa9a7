// SPDX-License-Identifier: Apache-2.0
//
// StoreLatencies: one histogram of times for each tier and operation. Thread-safety: as
// LatencyHistogram.
#ifndef QUIRE_KVSERVER_STORE_STORE_LATENCIES_H_
#define QUIRE_KVSERVER_STORE_STORE_LATENCIES_H_

#include <string_view>

#include "common/base/observe/latency_histogram.h"
#include "common/base/observe/metrics.h"
#include "quire/clock.h"

namespace quire::kvserver {

struct StoreLatencies {
  /// `clock` outlives it.
  explicit StoreLatencies(const Clock& clock) : clock(clock) {}

  const Clock& clock;
  // Operations of callers. Reads are calls, not units: from DRAM alone, or with the SSD's help.
  LatencyHistogram put, erase, digests, dram_read, ssd_read;
  // Parts of operations.
  LatencyHistogram dram_put, ssd_write, promotion, commit;
  // Batches of I/O, and syncs of one file.
  LatencyHistogram device_read, device_write, device_sync;

  void VisitMetrics(MetricsVisitor& visit) const {
    const auto series = [&visit](std::string_view tier, std::string_view op,
                                 const LatencyHistogram& histogram) {
      visit.Histogram("store_operation_seconds", "Time of the store's operations, by tier.",
                      histogram, {{"tier", tier}, {"op", op}});
    };
    series("store", "put", put);
    series("store", "delete", erase);
    series("store", "digests", digests);
    series("dram", "read", dram_read);
    series("dram", "put", dram_put);
    series("ssd", "read", ssd_read);
    series("ssd", "write", ssd_write);
    series("ssd", "promote", promotion);
    series("metadata", "commit", commit);
    series("device", "read", device_read);
    series("device", "write", device_write);
    series("device", "sync", device_sync);
  }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_STORE_LATENCIES_H_
