// SPDX-License-Identifier: Apache-2.0
//
// Parts of the Registry service that have files of their own, for AddRegistryMethods. Arguments
// outlive the dispatcher.
#ifndef QUIRE_KVSERVER_SERVICE_ADAPTERS_REGISTRY_PARTS_H_
#define QUIRE_KVSERVER_SERVICE_ADAPTERS_REGISTRY_PARTS_H_

#include "kvserver/registry/document_registry.h"
#include "kvserver/service/dispatcher.h"

namespace quire::kvserver {

void AddIngestMethods(DocumentRegistry* registry, Dispatcher* dispatcher);
void AddWatchMethods(DocumentRegistry* registry, Dispatcher* dispatcher);
void AddExtraMethods(DocumentRegistry* registry, Dispatcher* dispatcher);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADAPTERS_REGISTRY_PARTS_H_
