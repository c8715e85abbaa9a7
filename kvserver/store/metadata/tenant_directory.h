// SPDX-License-Identifier: Apache-2.0
//
// TenantDirectory: the tenants of the store and their secret salts. A salt is 32 random bytes, made
// when the tenant is first seen and kept in the database. Salts make keys of different tenants
// different, so no tenant can name or probe another's segments. Thread-safety: immutable after
// Open.
#ifndef QUIRE_KVSERVER_STORE_METADATA_TENANT_DIRECTORY_H_
#define QUIRE_KVSERVER_STORE_METADATA_TENANT_DIRECTORY_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/page/key.h"
#include "kvserver/store/metadata/database.h"

namespace quire::kvserver {

class TenantDirectory {
 public:
  /// INVALID_ARGUMENT for no or malformed names (1..64 bytes of [A-Za-z0-9_.-]). DATA_LOSS when a
  /// stored salt is damaged, or missing while there are segments, which would be unreachable.
  static StatusOr<TenantDirectory> Open(Database* database,
                                        const std::vector<std::string>& tenants);

  /// NOT_FOUND, naming the tenant and the remedy. The salt lives as long as the directory.
  StatusOr<const TenantSalt*> Salt(std::string_view tenant) const;

 private:
  std::map<std::string, TenantSalt, std::less<>> salts_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_TENANT_DIRECTORY_H_
