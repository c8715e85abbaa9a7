// SPDX-License-Identifier: Apache-2.0
//
// Salts of tenants, and how the servers of a cluster come to the same ones. Value types.
#ifndef QUIRE_KVSERVER_STORE_METADATA_TENANT_SALTS_H_
#define QUIRE_KVSERVER_STORE_METADATA_TENANT_SALTS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

using TenantSalts = std::map<std::string, TenantSalt, std::less<>>;

/// Returns the salt that all servers have for each tenant. `stored` are those of this disk, which
/// become everybody's where there are none yet. UNAVAILABLE while the others cannot be asked.
using AgreeOnSalts = std::function<StatusOr<TenantSalts>(const std::vector<std::string>& tenants,
                                                         const TenantSalts& stored)>;

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_TENANT_SALTS_H_
