// SPDX-License-Identifier: Apache-2.0
//
// RunClusterFaults: writers put, read and delete documents of a cluster of real processes, while a
// seeded schedule of faults runs. After everything has healed, every acknowledged document must be
// there with its bytes, and no deleted one.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_RUN_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_RUN_H_

#include <cstdint>
#include <map>
#include <string>

#include "bench/torture/cluster/document_writer.h"
#include "bench/torture/cluster/last_look.h"
#include "bench/torture/crash_run.h"
#include "quire/status.h"

namespace quire::torture {

struct ClusterRunOptions {
  std::string directory;  ///< Exists; its subdirectory "cluster" is used, and removed when sound.
  std::string server;     ///< Path of quired.
  uint32_t seconds = 60;
  uint64_t seed = 1;
  uint32_t nodes = 3;
  uint32_t replicas = 2;
  uint32_t writers = 4;
  bool lose_disk = false;  ///< One disk goes at the end, and its node leaves the cluster.
};

struct ClusterRunReport {
  WriterTotals totals;
  LastLook look;
  std::map<std::string, uint64_t> faults;  ///< By kind.
  double seconds = 0;
  double seconds_until_whole = 0;  ///< From the end of the faults.

  uint64_t wrong() const { return totals.wrong + look.wrong; }
  bool sound() const {
    return look.lost == 0 && wrong() == 0 && look.resurrected == 0 && totals.denied == 0;
  }
};

/// Each second is a step of `progress`. Errors concern the test machinery, or a server that ended
/// by itself; the report has the broken promises.
StatusOr<ClusterRunReport> RunClusterFaults(const ClusterRunOptions& options,
                                            const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_RUN_H_
