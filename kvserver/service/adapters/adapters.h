// SPDX-License-Identifier: Apache-2.0
//
// Adapters: one function per wire service that adds its methods to a dispatcher. A method converts
// and checks its request, makes one call of the domain and converts the reply. All arguments
// outlive the dispatcher.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_ADAPTERS_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_ADAPTERS_H_

#include <functional>

#include "cluster/replica/local_documents.h"
#include "cluster/replica/local_segments.h"
#include "cluster/replica/replicator.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "kvserver/registry/document_registry.h"
#include "kvserver/service/cluster_place.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/dispatcher.h"
#include "kvserver/service/slow/slow_calls.h"
#include "kvserver/session/context/context_resolver.h"
#include "kvserver/session/context/context_table.h"
#include "kvserver/session/session_manager.h"
#include "kvserver/store/page_store.h"
#include "quire/clock.h"

namespace quire::kvserver {

struct StoreAdapterDeps {
  PageStore* store = nullptr;
  DocumentRegistry* registry = nullptr;
  ContextTable* contexts = nullptr;
  ContextResolver* resolver = nullptr;
  ClusterPlace place = {};       ///< Where replicas of puts go.
  uint64_t max_reply_bytes = 0;  ///< Limit of the payload of one Fetch.
  Durability default_durability = Durability::kPersisted;
};
void AddStoreMethods(const StoreAdapterDeps& deps, Dispatcher* dispatcher);

/// `max_reply_bytes`: limit of the payload of one Get.
void AddObjectMethods(PageStore* store, uint64_t max_reply_bytes, Dispatcher* dispatcher);

void AddConversationMethods(PageStore* store, Dispatcher* dispatcher);

void AddEventMethods(PageStore* store, Dispatcher* dispatcher);

void AddSessionMethods(SessionManager* sessions, Dispatcher* dispatcher);

void AddLeaseMethods(ContextTable* contexts, SessionManager* sessions, DocumentRegistry* registry,
                     Dispatcher* dispatcher);
/// Returns a lease in the unit of replies.
inline uint32_t LeaseSeconds(Duration lease) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(lease).count());
}

/// `place` decides which new documents are taken.
void AddRegistryMethods(DocumentRegistry* registry, ContextTable* contexts,
                        const ClusterPlace& place, Dispatcher* dispatcher);

void AddPageUseMethods(ContextResolver* resolver, Dispatcher* dispatcher);

void AddClusterMethods(const ClusterPlace& place, const Clock* clock, Dispatcher* dispatcher);

struct ReplicaAdapterDeps {
  ClusterPlace place;
  cluster::LocalSegments* segments = nullptr;
  cluster::LocalDocuments* documents = nullptr;
  cluster::Replicator* replicator = nullptr;  ///< Null when names are the server's own.
  uint64_t max_reply_bytes = 0;               ///< Limit of the payload of one ReadSegment.
};
void AddReplicaMethods(const ReplicaAdapterDeps& deps, Dispatcher* dispatcher);

void AddDataPlaneMethods(DataPlane* data_plane, Dispatcher* dispatcher);

/// `visit_metrics` reports every metric of the server.
void AddAdminMethods(std::function<void(MetricsVisitor&)> visit_metrics, const Health* health,
                     const SlowCalls* slow, Clock* clock, Dispatcher* dispatcher);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_ADAPTERS_H_
