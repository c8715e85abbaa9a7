// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/cluster_counts.h"

namespace quire::cli {

ClusterCounts ClusterCounts::Of(const ClusterConnection::Counters& counters) {
  return {.node_changes = counters.node_changes,
          .calls_failed = counters.calls_failed,
          .reads = Reads{.all = counters.reads,
                         .hedged = counters.hedged,
                         .hedges_won = counters.hedges_won,
                         .spread = counters.spread}};
}

ClusterCounts ClusterCounts::Of(const ClusterClient::Counters& counters) {
  return {.node_changes = counters.node_changes, .calls_failed = counters.calls_failed};
}

Json ClusterCounts::ToJson() const {
  Json json = {{"node_changes", node_changes}, {"calls_failed", calls_failed}};
  if (!reads) return json;
  json["reads"] = reads->all;
  json["reads_hedged"] = reads->hedged;
  json["hedges_won"] = reads->hedges_won;
  json["reads_spread"] = reads->spread;
  return json;
}

void ClusterCounts::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("cluster_node_changes", "Calls that went to another node after one that failed.",
                node_changes);
  visit.Counter("cluster_calls_failed", "Calls that a node of the cluster did not answer in time.",
                calls_failed);
}

}  // namespace quire::cli
