// SPDX-License-Identifier: Apache-2.0
//
// ExtrasCopier: gives documents of this node their extras. Extras without segments of their own are
// put at once. Others wait in a bounded queue until their chains are here. They are put without
// what no source has any more, as after an eviction. Ownership: the parts outlive it.
// Thread-safety: Take may be called concurrently; all else belongs to one thread.
#ifndef QUIRE_CLUSTER_REPLICA_EXTRAS_COPIER_H_
#define QUIRE_CLUSTER_REPLICA_EXTRAS_COPIER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/replica/chain_copier.h"
#include "cluster/replica/local_documents.h"
#include "cluster/replica/local_segments.h"
#include "cluster/replica/peer_nodes.h"
#include "cluster/view/cluster_view.h"
#include "common/base/threads/mutex.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::cluster {

class ExtrasCopier {
 public:
  /// Extras that may wait. More are left out: workers compute them anew.
  static constexpr size_t kMostWaiting = 4096;

  ExtrasCopier(LocalDocuments* documents, LocalSegments* segments, PeerNodes* peers)
      : documents_(*documents), segments_(*segments), peers_(*peers) {}

  /// Takes extras of a version that is here. Their chains come from `sources`, in this order.
  /// Errors: those of LocalDocuments::PutExtras.
  [[nodiscard]] Status Take(std::string_view tenant, const DocumentName& name,
                            const std::vector<Member>& sources, std::vector<ExtraCopy> extras)
      QUIRE_EXCLUDES(mutex_);
  /// True while extras of the version may still come. Its source should not drop them before.
  bool Awaits(std::string_view tenant, const DocumentName& name) const QUIRE_EXCLUDES(mutex_);
  /// Extras of the version are awaited while the result lives.
  std::shared_ptr<void> Await(std::string_view tenant, const DocumentName& name)
      QUIRE_EXCLUDES(mutex_);
  /// Copies waiting ones while `may_go` holds. It is asked before each segment.
  void Advance(const std::function<bool()>& may_go) QUIRE_EXCLUDES(mutex_);
  /// Extras that wait, with the one under way.
  size_t num_waiting() const QUIRE_EXCLUDES(mutex_);
  /// Stored bytes of segments that were copied.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  struct Job {
    std::string tenant;
    DocumentName name;
    std::vector<Member> sources;
    ExtraCopy extra;
    std::shared_ptr<void> awaited;
  };
  /// Tenant, collection, name, version.
  using Version = std::tuple<std::string, std::string, std::string, uint64_t>;
  static Version VersionOf(std::string_view tenant, const DocumentName& name) {
    return {std::string(tenant), name.collection, name.name, name.version};
  }
  void Add(Job job) QUIRE_EXCLUDES(mutex_);
  bool Begin() QUIRE_EXCLUDES(mutex_);
  /// Copies chains of `job_`. False when it pauses.
  bool CopyChains(const std::function<bool()>& may_go);
  /// Copies the chain up to `tip`. False when it pauses.
  bool CopyChain(const SegmentKey& tip, const std::function<bool()>& may_go);

  LocalDocuments& documents_;
  LocalSegments& segments_;
  PeerNodes& peers_;
  mutable Mutex mutex_;
  std::multiset<Version> awaited_ QUIRE_GUARDED_BY(mutex_);  ///< Outlives the jobs.
  std::deque<Job> waiting_ QUIRE_GUARDED_BY(mutex_);
  bool is_working_ QUIRE_GUARDED_BY(mutex_) = false;  ///< There is a `job_`.
  std::unique_ptr<Job> job_;   ///< The one under way; null when there is none.
  size_t left_ = 0;            ///< Its segments before this one are still to be looked at.
  std::set<SegmentKey> seen_;  ///< Segments of its chains so far.
  /// Its chains so far, which stay here until the extra names their segments. The last may pause.
  std::vector<std::unique_ptr<ChainCopier>> chains_;
  uint64_t copied_bytes_ = 0;
};

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_REPLICA_EXTRAS_COPIER_H_
