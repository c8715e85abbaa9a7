// SPDX-License-Identifier: Apache-2.0
//
// The tenant that a call names. Pure; thread-safe.
#ifndef QUIRE_GPUWORKER_SERVICE_CALL_TENANT_H_
#define QUIRE_GPUWORKER_SERVICE_CALL_TENANT_H_

#include <string>

#include "quire/status.h"

namespace quire::worker {

/// PERMISSION_DENIED unless `named` is empty or the worker's own tenant.
inline Status CheckCallTenant(const std::string& named, const std::string& own) {
  if (named.empty() || named == own) return OkStatus();
  return PermissionDenied("this worker reads the store as tenant '", own, "', not as '", named,
                          "'; ask a worker of that tenant (quire worker --tenant NAME)");
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_SERVICE_CALL_TENANT_H_
