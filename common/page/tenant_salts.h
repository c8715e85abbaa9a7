// SPDX-License-Identifier: Apache-2.0
//
// Salts of tenants, by their names. A value type.
#ifndef QUIRE_COMMON_PAGE_TENANT_SALTS_H_
#define QUIRE_COMMON_PAGE_TENANT_SALTS_H_

#include <functional>
#include <map>
#include <string>

#include "quire/key.h"

namespace quire {

using TenantSalts = std::map<std::string, TenantSalt, std::less<>>;

}  // namespace quire

#endif  // QUIRE_COMMON_PAGE_TENANT_SALTS_H_
