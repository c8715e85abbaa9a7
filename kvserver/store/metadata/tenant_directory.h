// SPDX-License-Identifier: Apache-2.0
//
// TenantDirectory: the tenants of the store and their secret salts. A salt is 32 random bytes, made
// when the tenant is first seen and kept in the database. Salts make keys of different tenants
// different, so no tenant can name or probe another's segments. Servers of a cluster have the same
// salts, so that their keys are the same. Thread-safety: immutable after Open.
#ifndef QUIRE_KVSERVER_STORE_METADATA_TENANT_DIRECTORY_H_
#define QUIRE_KVSERVER_STORE_METADATA_TENANT_DIRECTORY_H_

#include <string>
#include <string_view>
#include <vector>

#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/tenant_salts.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::kvserver {

class TenantDirectory {
 public:
  /// `agree` is empty for a server by itself. While it is UNAVAILABLE, a disk that has all salts is
  /// opened with them. INVALID_ARGUMENT for no or malformed names (1..64 bytes of [A-Za-z0-9_.-]).
  /// DATA_LOSS when a stored salt is damaged, or missing while there are segments, which would be
  /// unreachable. FAILED_PRECONDITION when segments were made with another salt than the agreed.
  static StatusOr<TenantDirectory> Open(Database* database, const std::vector<std::string>& tenants,
                                        const AgreeOnSalts& agree = {});

  /// NOT_FOUND, naming the tenant and the remedy. The salt lives as long as the directory.
  StatusOr<const TenantSalt*> Salt(std::string_view tenant) const;

 private:
  TenantSalts salts_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_TENANT_DIRECTORY_H_
