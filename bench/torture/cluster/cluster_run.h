// SPDX-License-Identifier: Apache-2.0
//
// RunClusterFaults: writers put, read and delete documents of a cluster of real processes, while a
// seeded schedule of faults runs. After everything has healed, every acknowledged document must be
// there with its bytes, and no deleted one.
#ifndef QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_RUN_H_
#define QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_RUN_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/torture/cluster/cluster_fault.h"
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
  ClusterNetwork network = ClusterNetwork::kLoopback;  ///< As in TortureClusterOptions.
  std::vector<ClusterFault> faults;                    ///< Kinds; all of the network when empty.
};

struct ClusterRunReport {
  /// Bounds of the longest wait until a read or a put succeeded. A put waits as long as etcd is
  /// away, and a fault lasts up to eight seconds.
  static constexpr double kMostReadWait = 15;
  static constexpr double kMostPutWait = 30;

  WriterTotals totals;
  LastLook look;
  std::map<std::string, uint64_t> faults;  ///< By kind.
  uint64_t flipped_bits = 0;               ///< Bits of payload on disks.
  double seconds = 0;
  double seconds_until_whole = 0;  ///< From the end of the faults.

  uint64_t wrong() const { return totals.wrong + look.wrong; }
  /// Longest wait of "read" or "put" under any fault.
  double longest_wait(const std::string& operation) const {
    double longest = 0;
    for (const auto& [fault, waits] : totals.unavailable_s) {
      const auto wait = waits.find(operation);
      if (wait != waits.end()) longest = std::max(longest, wait->second);
    }
    return longest;
  }
  bool kept_promises() const {
    return look.lost == 0 && wrong() == 0 && look.resurrected == 0 && totals.denied == 0;
  }
  bool sound() const {
    return kept_promises() && look.copies_missing == 0 && longest_wait("read") <= kMostReadWait &&
           longest_wait("put") <= kMostPutWait;
  }
};

/// Each second is a step of `progress`. Errors concern the test machinery, or a server that ended
/// by itself; the report has the broken promises.
StatusOr<ClusterRunReport> RunClusterFaults(const ClusterRunOptions& options,
                                            const Progress& progress);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLUSTER_CLUSTER_RUN_H_
