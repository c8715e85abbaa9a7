// SPDX-License-Identifier: Apache-2.0
//
// Parts of the Registry service that have files of their own, for AddRegistryMethods. Arguments
// outlive the dispatcher.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_REGISTRY_PARTS_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_REGISTRY_PARTS_H_

#include <string_view>

#include "kvserver/registry/document_registry.h"
#include "kvserver/service/cluster_place.h"
#include "kvserver/service/dispatcher.h"

namespace quire::kvserver {

/// Checks that a document may be named here: the server holds a version of it, or takes it.
[[nodiscard]] Status CheckMayName(const ClusterPlace& place, DocumentRegistry& registry,
                                  std::string_view tenant, const DocumentName& name);

void AddIngestMethods(DocumentRegistry* registry, const ClusterPlace& place,
                      Dispatcher* dispatcher);
void AddWatchMethods(DocumentRegistry* registry, Dispatcher* dispatcher);
void AddExtraMethods(DocumentRegistry* registry, const ClusterPlace& place, Dispatcher* dispatcher);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_REGISTRY_PARTS_H_
