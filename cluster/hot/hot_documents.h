// SPDX-License-Identifier: Apache-2.0
//
// HotDocuments: finds documents that this node reads so often that its owners are the limit, and
// has the cluster agree on more owners. Each owner decides by its own reads (HeatRule). Copies
// follow from the view (Replicator).
//
// It has no thread: its owner calls Step about twice a second. Thread-safety: Step belongs to one
// thread; VisitMetrics may be called concurrently. Ownership: the parts outlive it.
#ifndef QUIRE_CLUSTER_HOT_HOT_DOCUMENTS_H_
#define QUIRE_CLUSTER_HOT_HOT_DOCUMENTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "cluster/hot/heat_meter.h"
#include "cluster/hot/heat_rule.h"
#include "cluster/hot/hot_agreement.h"
#include "cluster/membership/membership.h"
#include "cluster/placement/placement.h"
#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/documents/document_reads.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::cluster {

class HotDocuments {
 public:
  struct Parts {
    TakeReads take_reads;
    HotAgreement* agreement = nullptr;
    const Membership* membership = nullptr;
    const Clock* clock = nullptr;
    std::string node = {};  ///< This node's name in the cluster.
  };
  explicit HotDocuments(Parts parts) : parts_(std::move(parts)) {}

  /// Measures, and asks for or keeps extra owners. Errors are logged and counted; the next step
  /// tries again.
  void Step();
  /// hot_documents, hot_owners_added, hot_failures.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A hot document as this node saw it.
  struct Seen {
    uint32_t extra = 0;
    TimePoint since{};  ///< It has had these extra owners since then.
    TimePoint kept{};   ///< Time of the last renewal by this node.
  };

  void Follow(const ClusterView& view);
  void Decide(const Placement& placement, const ReadName& name, double reads_per_second);
  Status Act(HeatStep step, const ReadName& name, const ClusterView& view, const HotDocument* hot);

  const Parts parts_;
  HeatMeter meter_;
  std::string last_failure_;       ///< Logged once.
  std::map<uint64_t, Seen> seen_;  ///< Hot documents of the view, by their hashes.
  Counter added_, failures_;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_HOT_HOT_DOCUMENTS_H_
