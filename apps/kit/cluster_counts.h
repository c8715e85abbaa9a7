// SPDX-License-Identifier: Apache-2.0
//
// ClusterCounts: what a client of a cluster did to get its answers, for reports and metrics. Value
// type.
#ifndef QUIRE_APPS_KIT_CLUSTER_COUNTS_H_
#define QUIRE_APPS_KIT_CLUSTER_COUNTS_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "apps/kit/output/json_output.h"
#include "common/base/observe/metrics.h"
#include "quire/cluster_client.h"
#include "quire/cluster_connection.h"

namespace quire::cli {

struct ClusterCounts {
  /// Reads of a connection to the nodes of some documents.
  struct Reads {
    uint64_t all = 0;
    uint64_t hedged = 0;
    uint64_t hedges_won = 0;
    uint64_t spread = 0;
  };
  uint64_t node_changes = 0;
  uint64_t calls_failed = 0;
  std::optional<Reads> reads = {};  ///< Unset where reads are not hedged.

  static ClusterCounts Of(const ClusterConnection::Counters& counters);
  static ClusterCounts Of(const ClusterClient::Counters& counters);
  /// {"node_changes", "calls_failed"}; with reads also "reads", "reads_hedged", "hedges_won" and
  /// "reads_spread".
  Json ToJson() const;
  /// cluster_node_changes, cluster_calls_failed.
  void VisitMetrics(MetricsVisitor& visit) const;
};

/// The counts so far; empty for a client of one server.
using CountsOfCluster = std::function<ClusterCounts()>;

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_CLUSTER_COUNTS_H_
