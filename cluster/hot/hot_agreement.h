// SPDX-License-Identifier: Apache-2.0
//
// HotAgreement: the seam by which nodes agree on extra owners of documents. The views of all nodes
// have what is agreed (ClusterView::hot_documents). It ends by itself when no node keeps it.
// Implementation: EtcdHotDocuments. Thread-safety: all methods may be called concurrently. Errors:
// UNAVAILABLE while the agreement is away.
#ifndef QUIRE_CLUSTER_HOT_HOT_AGREEMENT_H_
#define QUIRE_CLUSTER_HOT_HOT_AGREEMENT_H_

#include "cluster/view/cluster_view.h"
#include "common/documents/document_reads.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::cluster {

class HotAgreement {
 public:
  virtual ~HotAgreement() = default;

  /// Gives a document its first extra owner, for `keep` at least. False when it has one.
  virtual StatusOr<bool> Begin(const ReadName& name, Duration keep) = 0;
  /// Gives it one more. False when `known` has changed meanwhile.
  virtual StatusOr<bool> AddOne(const HotDocument& known) = 0;
  /// Keeps the extra owners for their whole time from now on. NOT_FOUND when it has cooled.
  [[nodiscard]] virtual Status Keep(const HotDocument& known) = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_HOT_HOT_AGREEMENT_H_
